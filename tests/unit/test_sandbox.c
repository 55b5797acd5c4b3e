/* test_sandbox.c - the filter of system calls, in child processes: what goes through, what
 * fails and is told. */
#include "autoconfig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"

/* Runs in a child under the filter; its log goes to `log`. Returns its wait status. */
static int filtered(int (*run)(void), char *log, size_t log_size)
{
    int ends[2], status = -1;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char error[256];
        dup2(ends[1], STDERR_FILENO);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !sandbox_start(error, sizeof(error)))
            _exit(99);
        _exit(run());
    }
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(ends[0], log + len, log_size - 1 - len)) > 0;)
        len += (size_t)n;
    log[len] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

#if defined(HAVE_SECCOMP) && !defined(PITH_SANITIZER) &&                                       \
    (defined(__x86_64__) || defined(__aarch64__))
#define HAS_FILTER
#endif

#ifdef HAS_FILTER

static int execute(void)
{
    static char name[] = "true";
    char *const arguments[] = {name, NULL};

    for (int i = 0; i < 3; i++) {
        if (execv("/bin/true", arguments) == 0 || errno != EPERM)
            return 1;
    }
    return 0;
}

static int make_process(void)
{
    return fork() == -1 && errno == EPERM ? 0 : 1;
}

static int trace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == -1 && errno == EPERM ? 0 : 1;
}

static int open_packet_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW, 0) == -1 && errno == EPERM ? 0 : 1;
}

static int signal_others(void)
{
    return kill(getppid(), 0) == -1 && errno == EPERM ? 0 : 1;
}

static int become_root(void)
{
    return setuid(0) == -1 && errno == EPERM ? 0 : 1;
}

static void *on_thread(void *arg)
{
    sigset_t all;

    /* As a worker has it. */
    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    *(int *)arg = execute();
    return NULL;
}

static int execute_on_thread(void)
{
    pthread_t thread;
    int result = 1;

    if (pthread_create(&thread, NULL, on_thread, &result) != 0)
        return 2;
    pthread_join(thread, NULL);
    return result;
}

#endif

static int serve(void)
{
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX};
    char path[] = "/tmp/pith-sandbox-XXXXXX";

    for (size_t i = 0; i < 3; i++) {
        int fd = socket(families[i], SOCK_STREAM, 0);
        if (fd < 0 && errno != EAFNOSUPPORT)
            return 1;
        close(fd);
    }
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0 || close(fd) != 0)
        return 2;
    FILE *file = fopen(path, "r");
    if (file == NULL || fgetc(file) != 'x')
        return 3;
    fclose(file);
    char *block = malloc(64U << 20);
    if (block == NULL)
        return 4;
    memset(block, 1, 64U << 20);
    free(block);
    return unlink(path) == 0 ? 0 : 5;
}

static int give_up(void)
{
    abort();
}

#ifdef HAS_FILTER

static void denies(void **state)
{
    static const struct {
        int (*run)(void);
        const char *name;
    } rows[] = {
        {execute, "execve"},
        {make_process, "clone"},
        {trace, "ptrace"},
        {open_packet_socket, "socket"},
        {signal_others, "kill"},
        {become_root, "setuid"},
        {execute_on_thread, "execve"},
    };
    char log[4096], wanted[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int status = filtered(rows[i].run, log, sizeof(log));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("row %zu (%s): status %d, log: %s", i, rows[i].name, status, log);
        snprintf(wanted, sizeof(wanted), "a system call was denied: %s (", rows[i].name);
        char *first = strstr(log, wanted);
        if (first == NULL)
            fail_msg("row %zu: no \"%s\" in: %s", i, wanted, log);
        assert_null(strstr(first + 1, wanted)); /* told once */
    }
}

#else

static void denies(void **state)
{
    (void)state;
    skip();
}

#endif

static void lets_a_server_work(void **state)
{
    char log[4096];

    (void)state;
    int status = filtered(serve, log, sizeof(log));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_string_equal(log, "");
    status = filtered(give_up, log, sizeof(log));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(denies),
        cmocka_unit_test(lets_a_server_work),
    };

    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
