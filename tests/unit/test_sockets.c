/* test_sockets.c - listening sockets: shared by workers, refused when somebody else has them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "sockets.h"

enum { WORKERS = 3 };

static struct config_listener listener(enum listener_kind kind, const char *address)
{
    struct config_listener l = {.kind = kind};

    assert_true(addr_parse(&l.address, address, 0));
    return l;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    struct addr a;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    assert_true(addr_from_sockaddr(&a, (const struct sockaddr *)&sa));
    return a.port;
}

static int connect_to(const char *host, uint16_t port)
{
    struct sockaddr_storage sa;
    struct addr a;

    assert_true(addr_parse(&a, host, port));
    socklen_t len = addr_to_sockaddr(&a, &sa);
    int fd = socket(sa.ss_family, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&sa, len) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Port 0: all sockets of the set get the one that the first was given. */
static void test_chosen_port(void **state)
{
    const struct config_listener l = listener(LISTENER_DNS, "127.0.0.1:0");
    struct socket_set s;
    char error[256] = "";

    (void)state;
    assert_true(sockets_open(&s, &l, WORKERS, error, sizeof(error)));
    assert_int_not_equal(s.address.port, 0);
    assert_int_equal(s.n, WORKERS);
    for (size_t i = 0; i < s.n; i++) {
        assert_int_equal(port_of(s.tcp[i]), s.address.port);
        assert_int_equal(port_of(s.udp[i]), s.address.port);
    }
    int fd = connect_to("127.0.0.1", s.address.port);
    assert_true(fd >= 0);
    close(fd);
    sockets_close(&s);
    assert_null(s.tcp);
}

static void test_no_udp(void **state)
{
    const struct config_listener l = listener(LISTENER_DOT, "127.0.0.1:0");
    struct socket_set s;
    char error[256];

    (void)state;
    assert_true(sockets_open(&s, &l, 1, error, sizeof(error)));
    assert_true(s.tcp[0] >= 0);
    assert_int_equal(s.udp[0], -1);
    sockets_close(&s);
}

/* [::] takes IPv4 as well. */
static void test_wildcard(void **state)
{
    const struct config_listener l = listener(LISTENER_DOH, "[::]:0");
    struct socket_set s;
    char error[256];

    (void)state;
    if (!sockets_open(&s, &l, 1, error, sizeof(error)))
        skip(); /* no IPv6 here */
    int fd = connect_to("127.0.0.1", s.address.port);
    assert_true(fd >= 0);
    close(fd);
    sockets_close(&s);
}

/* SO_REUSEPORT lets the same user share: without the probe a second daemon would. */
static void test_in_use(void **state)
{
    static const enum listener_kind kinds[] = {LISTENER_DOH, LISTENER_DOT, LISTENER_DNS};
    const struct config_listener first = listener(LISTENER_DNS, "127.0.0.1:0");
    struct socket_set s, again;
    char error[256], wanted[256], text[ADDR_TEXT_SIZE];

    (void)state;
    assert_true(sockets_open(&s, &first, 1, error, sizeof(error)));
    for (size_t i = 0; i < 3; i++) {
        struct config_listener l = {.kind = kinds[i], .address = s.address};
        assert_false(sockets_probe(&l, error, sizeof(error)));
        snprintf(wanted, sizeof(wanted), "listen.%s: %s: Address already in use",
                 listener_kind_name(kinds[i]), addr_format(&s.address, text));
        assert_string_equal(error, wanted);
    }
    /* UDP alone is enough. */
    struct config_listener dns = {.kind = LISTENER_DNS, .address = s.address};
    struct config_listener dot = {.kind = LISTENER_DOT, .address = s.address};
    close(s.tcp[0]);
    s.tcp[0] = -1;
    assert_false(sockets_probe(&dns, error, sizeof(error)));
    assert_true(sockets_probe(&dot, error, sizeof(error)));
    /* Ours may share. */
    assert_true(sockets_open(&again, &dns, 2, error, sizeof(error)));
    sockets_close(&again);
    sockets_close(&s);
    assert_true(sockets_probe(&dns, error, sizeof(error)));
}

static void test_not_ours(void **state)
{
    const struct config_listener l = listener(LISTENER_DNS, "192.0.2.1:5353");
    struct socket_set s;
    char error[256] = "";

    (void)state;
    assert_false(sockets_probe(&l, error, sizeof(error)));
    assert_string_equal(error, "listen.dns: 192.0.2.1:5353: Cannot assign requested address");
    assert_false(sockets_open(&s, &l, WORKERS, error, sizeof(error)));
    assert_null(s.tcp);
    sockets_close(&s);
}

/* What a worker took is its own. */
static void test_taken(void **state)
{
    const struct config_listener l = listener(LISTENER_DOT, "127.0.0.1:0");
    struct socket_set s;
    char error[256];

    (void)state;
    assert_true(sockets_open(&s, &l, 1, error, sizeof(error)));
    int fd = s.tcp[0];
    uint16_t port = s.address.port;
    s.tcp[0] = -1;
    sockets_close(&s);
    assert_int_equal(port_of(fd), port);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chosen_port), cmocka_unit_test(test_no_udp),
        cmocka_unit_test(test_wildcard),    cmocka_unit_test(test_in_use),
        cmocka_unit_test(test_not_ours),    cmocka_unit_test(test_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
