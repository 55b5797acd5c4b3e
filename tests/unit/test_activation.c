/* test_activation.c - sockets from the service manager, in a child process that is passed some.
 */
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "activation.h"
#include "sockets.h"

static int bound(int type, struct addr *address)
{
    struct sockaddr_storage sa;
    socklen_t len;
    int fd;

    if (!addr_parse(address, "127.0.0.1:0", 0))
        return -1;
    len = addr_to_sockaddr(address, &sa);
    fd = socket(AF_INET, type, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&sa, len) != 0)
        return -1;
    len = sizeof(sa);
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0 ||
        !addr_from_sockaddr(address, (const struct sockaddr *)&sa))
        return -1;
    return fd;
}

/* Descriptors 3, 4 and 5: TCP, UDP and no socket at all. */
static bool pass(struct addr *tcp, struct addr *udp, const char *pid)
{
    int a = fcntl(bound(SOCK_STREAM, tcp), F_DUPFD, 20);
    int b = fcntl(bound(SOCK_DGRAM, udp), F_DUPFD, 20);
    int null = open("/dev/null", O_RDONLY);

    return a >= 0 && b >= 0 && null >= 0 && listen(a, 5) == 0 && dup2(null, 5) == 5 &&
           dup2(a, 3) == 3 && dup2(b, 4) == 4 && close(a) == 0 && close(b) == 0 &&
           setenv("LISTEN_FDS", "3", 1) == 0 && setenv("LISTEN_PID", pid, 1) == 0;
}

static const char *own_pid(void)
{
    static char text[16];

    snprintf(text, sizeof(text), "%d", (int)getpid());
    return text;
}

static int take(void)
{
    struct addr tcp, udp;

    if (!pass(&tcp, &udp, own_pid()))
        return 1;
    activation_take();
    if (getenv("LISTEN_FDS") != NULL || getenv("LISTEN_PID") != NULL)
        return 2;
    if (!activation_has(&tcp, SOCK_STREAM) || !activation_has(&udp, SOCK_DGRAM) ||
        activation_has(&tcp, SOCK_DGRAM) || activation_has(&udp, SOCK_STREAM))
        return 3;
    if ((fcntl(3, F_GETFD) & FD_CLOEXEC) == 0)
        return 4;
    int fd = activation_open(&udp, SOCK_DGRAM);
    if (fd < 0 || fd == 4 || (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0)
        return 5;
    if (activation_open(&udp, SOCK_STREAM) != -1 || errno != ENOENT)
        return 6;
    return 0;
}

/* All workers share it; nobody else is on the address, whatever the probe of others would say.
 */
static int listen_on_it(void)
{
    struct addr tcp, udp;
    struct socket_set s;
    char error[256];

    if (!pass(&tcp, &udp, own_pid()))
        return 1;
    activation_take();
    struct config_listener l = {.kind = LISTENER_DOT, .address = tcp};
    if (!sockets_probe(&l, error, sizeof(error)) ||
        !sockets_open(&s, &l, 2, error, sizeof(error)))
        return 2;
    if (s.tcp[0] < 0 || s.tcp[1] < 0 || s.tcp[0] == s.tcp[1] || s.address.port != tcp.port)
        return 3;
    sockets_close(&s);
    /* The one that was passed is kept, for a listener that comes back with a reload. */
    return sockets_open(&s, &l, 1, error, sizeof(error)) ? 0 : 4;
}

/* Meant for our parent. */
static int leave(void)
{
    struct addr tcp, udp;

    if (!pass(&tcp, &udp, "1"))
        return 1;
    activation_take();
    return activation_has(&tcp, SOCK_STREAM) ? 2 : 0;
}

static int odd_numbers(void)
{
    static const char *const counts[] = {"-1", "x", "", "65", "99999999999999999999"};
    struct addr tcp, udp;

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (!pass(&tcp, &udp, own_pid()) || setenv("LISTEN_FDS", counts[i], 1) != 0)
            return 1;
        activation_take();
        if (activation_has(&tcp, SOCK_STREAM))
            return 2;
    }
    return 0;
}

static void in_child(int (*run)(void))
{
    int status = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_take(void **state)
{
    (void)state;
    in_child(take);
}

static void test_listen(void **state)
{
    (void)state;
    in_child(listen_on_it);
}

static void test_leave(void **state)
{
    (void)state;
    in_child(leave);
}

static void test_odd_numbers(void **state)
{
    (void)state;
    in_child(odd_numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_listen),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_odd_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
