/* test_proxyproto.c - PROXY headers, table by table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tls/proxyproto.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"
#define V4 "\xc0\0\2\1\xc0\0\2\2\x1f\x90\x01\xbb"
#define S(literal) literal, sizeof(literal) - 1

struct row {
    const char *what;
    const char *data;
    size_t len;
    ssize_t result;
    const char *src, *dst; /* NULL: not known */
};

static const struct row rows[] = {
    {"v1 IPv4", S("PROXY TCP4 192.0.2.1 192.0.2.2 8080 443\r\n\x16\3"), 41, "192.0.2.1:8080",
     "192.0.2.2:443"},
    {"v1 IPv6", S("PROXY TCP6 2001:db8::1 2001:db8::2 65535 0\r\n"), 44, "[2001:db8::1]:65535",
     "[2001:db8::2]:0"},
    {"v1 mapped", S("PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 1 2\r\n"), 50, "192.0.2.1:1",
     "192.0.2.2:2"},
    {"v1 unknown", S("PROXY UNKNOWN\r\n"), 15, NULL, NULL},
    {"v1 unknown with more", S("PROXY UNKNOWN ffff:f a b 1\r\nGET"), 28, NULL, NULL},
    {"v1 family and address differ", S("PROXY TCP4 2001:db8::1 ::1 1 2\r\n"), -1, NULL, NULL},
    {"v1 bad family", S("PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n"), -1, NULL, NULL},
    {"v1 port too large", S("PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n"), -1, NULL, NULL},
    {"v1 port with zero", S("PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n"), -1, NULL, NULL},
    {"v1 port sign", S("PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n"), -1, NULL, NULL},
    {"v1 no port", S("PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n"), -1, NULL, NULL},
    {"v1 one too many", S("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n"), -1, NULL, NULL},
    {"v1 space at the end", S("PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n"), -1, NULL, NULL},
    {"v1 two spaces", S("PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n"), -1, NULL, NULL},
    {"v1 bare LF", S("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n"), -1, NULL, NULL},
    {"v1 NUL", S("PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n"), -1, NULL, NULL},
    {"v1 empty", S("PROXY \r\n"), -1, NULL, NULL},
    {"v1 without end",
     S("PROXY UNKNOWN aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"),
     -1, NULL, NULL},
    {"v2 IPv4", S(V2 "\x21\x11\0\x0c" V4 "rest"), 28, "192.0.2.1:8080", "192.0.2.2:443"},
    {"v2 IPv4 with TLV", S(V2 "\x21\x11\0\x11" V4 "\4\0\2ab"), 33, "192.0.2.1:8080",
     "192.0.2.2:443"},
    {"v2 IPv6",
     S(V2 "\x21\x21\0\x24"
          "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
          "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\2"
          "\0\1\0\2"),
     52, "[2001:db8::1]:1", "[2001:db8::2]:2"},
    {"v2 local", S(V2 "\x20\0\0\0"), 16, NULL, NULL},
    {"v2 local with addresses", S(V2 "\x20\x11\0\x0c" V4), 28, NULL, NULL},
    {"v2 unix is not known", S(V2 "\x21\x31\0\x01x"), 17, NULL, NULL},
    {"v2 unspecified", S(V2 "\x21\0\0\0"), 16, NULL, NULL},
    {"v2 too short for IPv4", S(V2 "\x21\x11\0\x0b" V4), -1, NULL, NULL},
    {"v2 version 1", S(V2 "\x11\x11\0\x0c" V4), -1, NULL, NULL},
    {"v2 bad command", S(V2 "\x22\x11\0\x0c" V4), -1, NULL, NULL},
    {"v2 too long", S(V2 "\x21\x11\xff\xff" V4), -1, NULL, NULL},
    {"TLS instead", S("\x16\3\1\2\0\1"), -1, NULL, NULL},
    {"HTTP instead", S("PRI * HTTP/2.0\r\n\r\n"), -1, NULL, NULL},
    {"magic with a fault", S("\r\n\r\n\0\r\nQUIX"), -1, NULL, NULL},
};

static void check(const struct row *r, const struct proxyproto *pp)
{
    char text[ADDR_TEXT_SIZE];
    assert_int_equal(pp->known, r->src != NULL);
    if (!r->src)
        return;
    assert_string_equal(addr_format(&pp->src, text), r->src);
    assert_string_equal(addr_format(&pp->dst, text), r->dst);
}

/* A copy that ends where the memory ends, for the sanitizer. */
static ssize_t parse(struct proxyproto *pp, const char *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, data, len);
    ssize_t n = proxyproto_parse(pp, copy, len);
    free(copy);
    return n;
}

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct proxyproto pp;
        ssize_t n = parse(&pp, rows[i].data, rows[i].len);
        if (n != rows[i].result)
            fail_msg("%s: %zd", rows[i].what, n);
        if (n > 0)
            check(&rows[i], &pp);
    }
}

/* Every header that is right is 0 in each of its beginnings; what is wrong is never right
 * in a beginning of it. */
static void beginnings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t whole = rows[i].result > 0 ? (size_t)rows[i].result : rows[i].len;
        for (size_t len = 0; len < whole; len++) {
            struct proxyproto pp;
            ssize_t n = parse(&pp, rows[i].data, len);
            if (rows[i].result > 0 ? n != 0 : n > 0)
                fail_msg("%s: %zd of %zu octets", rows[i].what, n, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(beginnings),
    };
    return cmocka_run_group_tests_name("proxyproto", tests, NULL, NULL);
}
