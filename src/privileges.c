/* privileges.c - see privileges.h. */
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static bool fail(const char *user, const char *what, char *error, size_t error_size)
{
    snprintf(error, error_size, "user: \"%s\": %s: %s", user, what, strerror(errno));
    return false;
}

static bool become(const char *user, char *error, size_t error_size)
{
    errno = 0;
    const struct passwd *p = getpwnam(user);

    if (p == NULL) {
        if (errno == 0)
            errno = ENOENT;
        return fail(user, "no such user", error, error_size);
    }
    if (initgroups(user, p->pw_gid) != 0)
        return fail(user, "groups cannot be set", error, error_size);
    if (setresgid(p->pw_gid, p->pw_gid, p->pw_gid) != 0)
        return fail(user, "group cannot be set", error, error_size);
    if (setresuid(p->pw_uid, p->pw_uid, p->pw_uid) != 0)
        return fail(user, "cannot become it", error, error_size);
    /* What was given up must not come back. */
    if (p->pw_uid != 0 && (setuid(0) == 0 || geteuid() == 0)) {
        errno = EPERM;
        return fail(user, "root could be had again", error, error_size);
    }
    return true;
}

bool privileges_drop(const char *user, char *error, size_t error_size)
{
    if (user != NULL && geteuid() == 0 && !become(user, error, error_size))
        return false;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        snprintf(error, error_size, "no_new_privs: %s", strerror(errno));
        return false;
    }
    return true;
}

size_t privileges_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1024;
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return (size_t)limit.rlim_cur;
}
