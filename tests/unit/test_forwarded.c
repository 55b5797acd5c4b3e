/* test_forwarded.c - X-Forwarded-For and Forwarded from trusted proxies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/forwarded.h"

static struct cidr trusted[3];

static int setup(void **state)
{
    (void)state;
    assert_true(cidr_parse(&trusted[0], "10.0.0.0/8"));
    assert_true(cidr_parse(&trusted[1], "127.0.0.1/32"));
    assert_true(cidr_parse(&trusted[2], "2001:db8:ffff::/48"));
    return 0;
}

/* `lines` are separated by "|"; those of Forwarded begin with "F:". */
static void check(const char *lines, const char *want)
{
    struct forwarded f = {0};
    struct addr peer, got, expected;
    char *copy = strdup(lines), *at = copy, *line;

    assert_true(addr_parse(&peer, "127.0.0.1:999", 0));
    assert_true(addr_parse(&expected, want, 0));
    while (*lines && (line = strsep(&at, "|"))) {
        if (strncmp(line, "F:", 2) == 0)
            forwarded_std(&f, line + 2, strlen(line + 2), trusted, 3);
        else
            forwarded_x(&f, line, strlen(line), trusted, 3);
    }
    got = forwarded_client(&f, &peer);
    if (!addr_ip_equal(&got, &expected)) {
        char text[ADDR_TEXT_SIZE];
        fail_msg("%s: %s, expected %s", lines, addr_format(&got, text), want);
    }
    free(copy);
}

static void row_23_x_forwarded_for(void **state)
{
    (void)state;
    check("", "127.0.0.1");
    check("192.0.2.1", "192.0.2.1");
    check("2001:db8::1", "2001:db8::1");
    check("[2001:db8::1]:4711", "2001:db8::1");
    check("192.0.2.1:4711", "192.0.2.1");
    check("::ffff:192.0.2.1", "192.0.2.1");
    check("192.0.2.1, 2001:db8::1", "2001:db8::1");
    check(" 192.0.2.1 ,\t192.0.2.2 ", "192.0.2.2");
    /* trusted hops vouch for the one before */
    check("192.0.2.1, 10.0.0.2", "192.0.2.1");
    check("192.0.2.1, 10.0.0.2, 127.0.0.1, 2001:db8:ffff::7", "192.0.2.1");
    check("127.0.0.9, 192.0.2.1", "192.0.2.1");
    check("198.51.100.1, 192.0.2.1, 10.1.1.1", "192.0.2.1");
    check("10.0.0.3, 10.0.0.2", "10.0.0.3");
    /* several lines are one list */
    check("127.0.0.9|192.0.2.1", "192.0.2.1");
    check("192.0.2.1|127.0.0.9", "127.0.0.9");
    check("192.0.2.1|10.0.0.2", "192.0.2.1");
}

static void garbage(void **state)
{
    static char many[4001];

    (void)state;
    check("garbage", "127.0.0.1");
    check(" ", "127.0.0.1");
    check(",,,", "127.0.0.1");
    check("1.2.3.4.5", "127.0.0.1");
    check("[::", "127.0.0.1");
    check("fe80::1%eth0", "127.0.0.1");
    check("unknown", "127.0.0.1");
    check("192.0.2.1, garbage", "127.0.0.1");
    check("192.0.2.1, garbage, 10.0.0.2", "10.0.0.2");
    check("garbage, 192.0.2.1", "192.0.2.1");
    check("192.0.2.1,, ", "192.0.2.1");
    memset(many, 'a', sizeof(many) - 1);
    check(many, "127.0.0.1");
    memset(many, ',', sizeof(many) - 1);
    check(many, "127.0.0.1");
}

static void forwarded(void **state)
{
    (void)state;
    check("F:for=192.0.2.1", "192.0.2.1");
    check("F:For=\"[2001:db8::1]:4711\"", "2001:db8::1");
    check("F:proto=https;for=192.0.2.1;by=203.0.113.43", "192.0.2.1");
    check("F:for=192.0.2.1, for=198.51.100.17;by=10.0.0.9", "198.51.100.17");
    check("F:for=192.0.2.1, for=10.0.0.9", "192.0.2.1");
    check("F:for=192.0.2.1|F:for=10.0.0.9", "192.0.2.1");
    check("F:for=192.0.2.1, for=unknown", "127.0.0.1");
    check("F:for=_hidden", "127.0.0.1");
    check("F:by=192.0.2.1", "127.0.0.1");
    check("F:for=\"192.0.2.1, 10.0.0.1\"", "127.0.0.1");
    check("F:for=\"", "127.0.0.1");
    check("F:;;,;", "127.0.0.1");
    check("F:host=\"a,for=192.0.2.9;b\";for=192.0.2.1", "192.0.2.1");
    /* a quote that is left open does not hide what comes behind it */
    check("F:for=\"192.0.2.9, for=192.0.2.1", "192.0.2.1");
    check("F:for=\"192.0.2.9, for=\"[2001:db8::1]\"", "2001:db8::1");
    check("F:for=\"192.0.2.9\\, for=\"[2001:db8::1]\";proto=https", "2001:db8::1");
    check("F:a=\", for=\"[2001:db8::1]\", for=\"10.0.0.2:80\"", "2001:db8::1");
    check("F:a=\"\\\",b=\"\\\", for=192.0.2.1;proto=https", "192.0.2.1");
    check("F:a=\";for=192.0.2.1", "192.0.2.1");
    /* only without X-Forwarded-For */
    check("F:for=127.0.0.1|192.0.2.1", "192.0.2.1");
    check("192.0.2.1|F:for=10.0.0.1", "192.0.2.1");
    check("garbage|F:for=192.0.2.1", "127.0.0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_23_x_forwarded_for),
        cmocka_unit_test(garbage),
        cmocka_unit_test(forwarded),
    };

    return cmocka_run_group_tests_name("forwarded", tests, setup, NULL);
}
