/* sandbox.c - see sandbox.h.
 *
 * Denied calls trap (SIGSYS), and the handler makes them fail: the filter's own "errno" action
 * would leave no trace that a person reads. */
#include "autoconfig.h"

#include "sandbox.h"

#if defined(HAVE_SECCOMP) && !defined(PITH_SANITIZER) && defined(__x86_64__)
#define WITH_FILTER 1
#define RESULT_REGISTER(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(HAVE_SECCOMP) && !defined(PITH_SANITIZER) && defined(__aarch64__)
#define WITH_FILTER 1
#define RESULT_REGISTER(context) ((context)->uc_mcontext.regs[0])
#endif

#ifndef WITH_FILTER

bool sandbox_start(char *error, size_t error_size)
{
    (void)error;
    (void)error_size;
    return true;
}

#else

#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/log.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif

enum { CALLS_MAX = 1024 };

/* By name: those that a processor or kernel does not have are left out. */
static const char *const allowed[] = {
    /* octets */
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "lseek",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "fcntl",
    "pipe",
    "pipe2",
    "sendfile",
    "copy_file_range",
    /* sockets */
    "bind",
    "listen",
    "accept",
    "accept4",
    "connect",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "sendmmsg",
    "recvmmsg",
    "shutdown",
    "socketpair",
    /* waiting */
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd",
    "eventfd2",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_gettime",
    "signalfd",
    "signalfd4",
    "inotify_init",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    /* files: configuration, certificates, snapshot */
    "open",
    "openat",
    "openat2",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents",
    "getdents64",
    "getcwd",
    "statfs",
    "fstatfs",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "truncate",
    "ftruncate",
    "fallocate",
    "fadvise64",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "flock",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchown",
    "utimensat",
    "umask",
    /* memory */
    "brk",
    "mmap",
    "munmap",
    "mremap",
    "mprotect",
    "madvise",
    "msync",
    "mincore",
    "mlock",
    "munlock",
    "mlock2",
    "memfd_create",
    "membarrier",
    /* time */
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "times",
    "getitimer",
    "setitimer",
    "alarm",
    /* threads and signals of our own */
    "futex",
    "futex_waitv",
    "set_robust_list",
    "get_robust_list",
    "set_tid_address",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "gettid",
    "getpid",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigpending",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sigaltstack",
    "arch_prctl",
    "exit",
    "exit_group",
    "restart_syscall",
    /* what we are */
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "getppid",
    "getpgrp",
    "getrlimit",
    "setrlimit",
    "prlimit64",
    "getrusage",
    "sysinfo",
    "uname",
    "getcpu",
    "getrandom",
    "capget",
};

static const int families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK};
static const unsigned long ioctls[] = {TCGETS,       FIONREAD,    FIONBIO,
                                       SIOCGIFINDEX, SIOCGIFNAME, SIOCGIFFLAGS};
static const int prctls[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_GET_SECCOMP,
                             PR_GET_DUMPABLE};

/* For the handler, which may not allocate. */
static char *names[CALLS_MAX];
static atomic_bool told[CALLS_MAX];

/* --- denied ----------------------------------------------------------------------------------
 */

static void tell(const char *name, unsigned call, const char *end)
{
    char number[LOG_NUMBER_SIZE];
    const char *const texts[] = {"seccomp: a system call was denied: ",
                                 name,
                                 " (number ",
                                 log_number(number, call),
                                 end,
                                 NULL};

    log_warning_async(texts);
}

/* The call may be made in the middle of anything, with the C library's locks held: only what a
 * signal handler may do. */
static void on_denied(int number, siginfo_t *info, void *arg)
{
    ucontext_t *context = arg;
    int saved = errno;
    unsigned call = (unsigned)info->si_syscall;

    (void)number;
    if (call >= CALLS_MAX)
        tell("no name", call, ")");
    else if (!atomic_exchange_explicit(&told[call], true, memory_order_relaxed))
        tell(names[call] == NULL ? "no name" : names[call], call, "); this is told once");
    RESULT_REGISTER(context) = -EPERM;
    errno = saved;
}

static bool catch_denied(void)
{
    struct sigaction action = {.sa_sigaction = on_denied,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    sigset_t set;

    log_prepare();
    for (int i = 0; i < CALLS_MAX; i++)
        names[i] =
            names[i] != NULL ? names[i] : seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, i);
    sigemptyset(&action.sa_mask);
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    return sigaction(SIGSYS, &action, NULL) == 0 && sigprocmask(SIG_UNBLOCK, &set, NULL) == 0;
}

/* --- the filter ------------------------------------------------------------------------------
 */

static int allow(scmp_filter_ctx filter, const char *name)
{
    int call = seccomp_syscall_resolve_name(name);

    if (call == __NR_SCMP_ERROR || call < 0)
        return 0;
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0);
}

/* The call when argument `which` is the value. */
static int allow_value(scmp_filter_ctx filter, int call, unsigned which, unsigned long value)
{
    const struct scmp_arg_cmp compare = {
        .arg = which, .op = SCMP_CMP_MASKED_EQ, .datum_a = UINT32_MAX, .datum_b = value};

    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &compare);
}

/* Threads, not processes. The flags of clone3 are out of a filter's sight; where it is not
 * there the C library goes back to clone. */
static int allow_threads(scmp_filter_ctx filter)
{
    const struct scmp_arg_cmp thread = {.arg = 0,
                                        .op = SCMP_CMP_MASKED_EQ,
                                        .datum_a = CLONE_THREAD | CLONE_VM,
                                        .datum_b = CLONE_THREAD | CLONE_VM};
    int result = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, &thread);

    return result != 0 ? result
                       : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int add_rules(scmp_filter_ctx filter)
{
    int result = allow_threads(filter);

    for (size_t i = 0; result == 0 && i < sizeof(allowed) / sizeof(allowed[0]); i++)
        result = allow(filter, allowed[i]);
    for (size_t i = 0; result == 0 && i < sizeof(families) / sizeof(families[0]); i++)
        result = allow_value(filter, SCMP_SYS(socket), 0, (unsigned long)families[i]);
    for (size_t i = 0; result == 0 && i < sizeof(ioctls) / sizeof(ioctls[0]); i++)
        result = allow_value(filter, SCMP_SYS(ioctl), 1, ioctls[i]);
    for (size_t i = 0; result == 0 && i < sizeof(prctls) / sizeof(prctls[0]); i++)
        result = allow_value(filter, SCMP_SYS(prctl), 0, (unsigned long)prctls[i]);
    /* abort() and raise(), and nobody else's processes. */
    if (result == 0)
        result = allow_value(filter, SCMP_SYS(tgkill), 0, (unsigned long)getpid());
    return result;
}

bool sandbox_start(char *error, size_t error_size)
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0 && errno == EINVAL) {
        log_warning("seccomp: this kernel has no filters of system calls, going on without");
        return true;
    }
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    int result = filter == NULL ? -ENOMEM : add_rules(filter);

    if (result == 0)
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (result == 0 && !catch_denied())
        result = -errno;
    if (result == 0)
        result = seccomp_load(filter);
    seccomp_release(filter);
    if (result == 0) {
        log_debug("seccomp: system calls are filtered");
        return true;
    }
    snprintf(error, error_size, "seccomp: the filter of system calls cannot be set: %s",
             strerror(-result));
    return false;
}

#endif
