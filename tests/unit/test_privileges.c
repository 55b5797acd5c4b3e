/* test_privileges.c - giving up root, in a child process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "privileges.h"

/* Exit status of a child that runs this. */
static int in_child(int (*run)(void))
{
    int status = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int become_nobody(void)
{
    char error[256];
    gid_t groups[64];
    const struct passwd *p = getpwnam("nobody");

    if (p == NULL)
        return 1;
    uid_t uid = p->pw_uid;
    gid_t gid = p->pw_gid;
    if (!privileges_drop("nobody", error, sizeof(error)))
        return 2;
    uid_t r, e, s;
    gid_t gr, ge, gs;
    if (getresuid(&r, &e, &s) != 0 || r != uid || e != uid || s != uid)
        return 3;
    if (getresgid(&gr, &ge, &gs) != 0 || gr != gid || ge != gid || gs != gid)
        return 4;
    int n = getgroups(64, groups);
    for (int i = 0; i < n; i++) {
        if (groups[i] == 0)
            return 5;
    }
    if (setuid(0) == 0 || setgid(0) == 0)
        return 6;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 7;
}

static void test_become(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(in_child(become_nobody), 0);
}

static int stay(void)
{
    char error[256];
    uid_t before = geteuid();

    if (!privileges_drop(NULL, error, sizeof(error)) || geteuid() != before)
        return 1;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 2;
}

static void test_stay(void **state)
{
    (void)state;
    assert_int_equal(in_child(stay), 0);
}

static int become_unknown(void)
{
    char error[256] = "";
    bool ok = privileges_drop("no-such-user-here", error, sizeof(error));

    /* For who is not root the user is of no account. */
    if (geteuid() != 0)
        return ok ? 0 : 1;
    return !ok && strncmp(error, "user: \"no-such-user-here\": ", 27) == 0 ? 0 : 2;
}

static void test_unknown(void **state)
{
    (void)state;
    assert_int_equal(in_child(become_unknown), 0);
}

static int raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 100)
        return 1;
    rlim_t hard = limit.rlim_max;
    limit.rlim_cur = 64;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    return privileges_raise_descriptors() == (size_t)hard ? 0 : 3;
}

static void test_descriptors(void **state)
{
    (void)state;
    assert_int_equal(in_child(raise_descriptors), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_become),
        cmocka_unit_test(test_stay),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
