/* test_core.c - the leaf: addresses, buffers, hashing, metrics, clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/addr.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/metrics.h"

static void test_addr_parse(void **state)
{
    static const struct {
        const char *in, *out; /* out NULL: refused */
    } rows[] = {
        {"192.0.2.1", "192.0.2.1:53"},
        {"192.0.2.1:5353", "192.0.2.1:5353"},
        {"192.0.2.1:0", "192.0.2.1:0"},
        {"192.0.2.1:65535", "192.0.2.1:65535"},
        {"2001:db8::1", "[2001:db8::1]:53"},
        {"[2001:db8::1]", "[2001:db8::1]:53"},
        {"[2001:db8::1]:853", "[2001:db8::1]:853"},
        {"[::]:443", "[::]:443"},
        {"::", "[::]:53"},
        {"[fe80::1%1]:53", "[fe80::1%1]:53"},
        {"::ffff:192.0.2.1", "[::ffff:192.0.2.1]:53"},
        {"192.0.2.1:65536", NULL},
        {"192.0.2.1:", NULL},
        {"192.0.2.1:5x", NULL},
        {"192.0.2.1:-1", NULL},
        {"192.0.2", NULL},
        {"192.0.2.1.5", NULL},
        {"[192.0.2.1]:53", NULL},
        {"[2001:db8::1", NULL},
        {"[2001:db8::1]53", NULL},
        {"2001:db8:::1", NULL},
        {"fe80::1%", NULL},
        {"", NULL},
        {":53", NULL},
        {"localhost", NULL},
        {"1111111111111111111111111111111111111111111111111111111111111111111111111111111111",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr a;
        char text[ADDR_TEXT_SIZE];

        assert_int_equal(addr_parse(&a, rows[i].in, 53), rows[i].out != NULL);
        if (rows[i].out)
            assert_string_equal(addr_format(&a, text), rows[i].out);
    }
}

static void test_addr_sockaddr(void **state)
{
    static const char *const rows[] = {"192.0.2.7:99", "[2001:db8::7]:99", "[fe80::7%3]:99"};
    struct sockaddr_storage ss;
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    struct sockaddr unix_address = {.sa_family = AF_UNIX};
    struct addr a, b;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(addr_parse(&a, rows[i], 0));
        assert_true(addr_to_sockaddr(&a, &ss) > 0);
        assert_true(addr_from_sockaddr(&b, (struct sockaddr *)&ss));
        assert_true(addr_ip_equal(&a, &b));
        assert_int_equal(a.port, b.port);
        assert_int_equal(a.scope_id, b.scope_id);
    }
    memcpy(&mapped.sin6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
    assert_true(addr_from_sockaddr(&a, (struct sockaddr *)&mapped));
    assert_int_equal(a.family, ADDR_V4);
    assert_memory_equal(a.ip, "\xc0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0", 16);
    assert_false(addr_from_sockaddr(&a, &unix_address));
    assert_int_equal(a.family, ADDR_NONE);
    assert_int_equal(addr_to_sockaddr(&a, &ss), 0);
}

static void test_cidr(void **state)
{
    static const struct {
        const char *cidr, *ip;
        bool in;
    } rows[] = {
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"0.0.0.0/0", "203.0.113.9", true},
        {"0.0.0.0/0", "::1", false},
        {"192.0.2.1", "192.0.2.1", true},
        {"192.0.2.1", "192.0.2.2", false},
        {"192.0.2.128/25", "192.0.2.127", false},
        {"192.0.2.128/25", "192.0.2.200", true},
        {"::1/128", "::1", true},
        {"::1/128", "::2", false},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::/0", "2001:db8::1", true},
        {"::/0", "10.0.0.1", false},
    };
    static const char *const bad[] = {"",           "10.0.0.0/33",    "10.0.0.1/8",
                                      "::1/129",    "2001:db8::1/64", "10.0.0.0/",
                                      "10.0.0.0/x", "10.0.0/8",       "10.0.0.0/8/9"};
    struct cidr c;
    struct addr a;
    char text[CIDR_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(cidr_parse(&c, rows[i].cidr));
        assert_true(addr_parse(&a, rows[i].ip, 0));
        assert_int_equal(cidr_contains(&c, &a), rows[i].in);
        assert_int_equal(cidr_any(&c, 1, &a), rows[i].in);
    }
    assert_false(cidr_any(NULL, 0, &a));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cidr_parse(&c, bad[i]));
    assert_true(cidr_parse(&c, "::ffff:10.0.0.0/104"));
    assert_string_equal(cidr_format(&c, text), "10.0.0.0/8");
    assert_true(addr_parse(&a, "127.9.9.9", 0) && addr_is_loopback(&a));
    assert_true(addr_parse(&a, "::1", 0) && addr_is_loopback(&a));
    assert_true(addr_parse(&a, "128.0.0.1", 0) && !addr_is_loopback(&a));
}

static void test_buf(void **state)
{
    struct buf b = {0};
    uint8_t expect[5000];
    size_t in = 0, out = 0;

    (void)state;
    assert_true(buf_append(&b, NULL, 0));
    /* A queue that is filled and drained by uneven steps keeps order and content. */
    for (size_t i = 0; i < 4000; i++) {
        uint8_t piece[97];
        size_t n = i * 7 % sizeof piece;

        for (size_t k = 0; k < n; k++)
            piece[k] = (uint8_t)(in + k);
        assert_true(buf_append(&b, piece, n));
        in += n;
        n = i * 5 % 101;
        if (n > buf_len(&b))
            n = buf_len(&b);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(buf_data(&b)[k], (uint8_t)(out + k));
        buf_consume(&b, n);
        out += n;
        assert_int_equal(buf_len(&b), in - out);
    }
    buf_release(&b);
    assert_int_equal(buf_len(&b), 0);
    for (size_t i = 0; i < sizeof expect; i++)
        expect[i] = (uint8_t)(i * 31);
    memcpy(buf_reserve(&b, sizeof expect), expect, sizeof expect);
    buf_commit(&b, sizeof expect);
    assert_memory_equal(buf_data(&b), expect, sizeof expect);
    assert_null(buf_reserve(&b, SIZE_MAX / 2));
    assert_int_equal(buf_len(&b), sizeof expect);
    buf_release(&b);
}

/* Values of the reference implementation for the key 00..0f and inputs 00, 01, 02, ... */
static void test_siphash(void **state)
{
    struct hash_key key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    uint8_t in[64];

    (void)state;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)i;
    assert_true(hash_sip(&key, in, 0) == 0x726fdb47dd0e0e31);
    assert_true(hash_sip(&key, NULL, 0) == 0x726fdb47dd0e0e31);
    assert_true(hash_sip(&key, in, 1) == 0x74f839c593dc67fd);
    assert_true(hash_sip(&key, in, 8) == 0x93f5f5799a932462);
    assert_true(hash_sip(&key, in, 15) == 0xa129ca6149be45e5);
    assert_true(hash_key_random().k0 != hash_key_random().k0);
}

static void test_metrics(void **state)
{
    uint64_t before = metrics_sum(M_QUERIES_UDP);

    (void)state;
    metrics_count(M_QUERIES_UDP);
    metrics_attach();
    metrics_add(M_QUERIES_UDP, 5);
    assert_int_equal(metrics_sum(M_QUERIES_UDP), before + 6);
    assert_string_equal(metrics_name(M_QUERIES_UDP), "queries_udp_total");
    for (int m = 0; m < METRIC_COUNT; m++)
        assert_true(strlen(metrics_name((enum metric)m)) > 0 &&
                    strlen(metrics_help((enum metric)m)) > 0);
}

static void test_clock(void **state)
{
    uint64_t ms = clock_now_ms();
    int64_t wall = clock_wall_s();

    (void)state;
    assert_true(ms > 0);
    clock_advance(3600 * 1000);
    assert_in_range(clock_now_ms() - ms, 3600 * 1000, 3600 * 1000 + 60000);
    assert_in_range(clock_wall_s() - wall, 3600, 3660);
    assert_in_range(clock_now_s() - (uint32_t)(ms / 1000), 3600, 3660);
}

/* Our calendar and the C library's, over four centuries. */
static void test_log_time(void **state)
{
    const int64_t day = 86400, last = 146097 * day;
    char ours[LOG_TIME_SIZE], theirs[64];
    struct tm tm;

    (void)state;
    for (int64_t second = 0; second < last;
         second += second % (7 * day) == 0 ? day - 1 : 3601) {
        time_t t = (time_t)second;
        assert_non_null(gmtime_r(&t, &tm));
        strftime(theirs, sizeof theirs, "%Y-%m-%dT%H:%M:%S.007Z", &tm);
        assert_string_equal(log_time(ours, second, 7), theirs);
    }
    assert_string_equal(log_time(ours, 1772323199, 999), "2026-02-28T23:59:59.999Z");
    assert_string_equal(log_time(ours, -5, 0), "1970-01-01T00:00:00.000Z");
    assert_string_equal(log_time(ours, INT64_MAX, 0) + 10, "T15:30:07.000Z");
}

/* A line of both kinds goes out whole, and one that is too long is cut. */
static void test_log_lines(void **state)
{
    static char longer[2000];
    const char *const texts[] = {"one ", "", "two ", longer, NULL};
    char out[4096], number[LOG_NUMBER_SIZE];
    int ends[2], before = dup(STDERR_FILENO);

    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    assert_string_equal(log_number(number, 0), "0");
    assert_string_equal(log_number(number, UINT64_MAX), "18446744073709551615");
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    log_prepare();
    log_info("%s %u", "first", 7U);
    log_warning_async(texts);
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    ssize_t len = read(ends[0], out, sizeof out - 1);
    close(ends[0]);
    assert_true(len > 0);
    out[len] = '\0';
    char *second = strchr(out, '\n') + 1;
    assert_non_null(strstr(out, "Z pithd["));
    assert_memory_equal(second - strlen("] info: first 7\n"), "] info: first 7\n",
                        strlen("] info: first 7\n"));
    assert_non_null(strstr(second, "] warning: one two xxx"));
    assert_int_equal(strlen(second), 1024);
    assert_int_equal(second[1023], '\n');
}

static void test_log_clean(void **state)
{
    char text[] = "a\nb\x1b[0m\x80\xffz ~";

    (void)state;
    assert_string_equal(log_clean(text), "a?b?[0m??z ~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addr_parse), cmocka_unit_test(test_addr_sockaddr),
        cmocka_unit_test(test_cidr),       cmocka_unit_test(test_buf),
        cmocka_unit_test(test_siphash),    cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_clock),      cmocka_unit_test(test_log_clean),
        cmocka_unit_test(test_log_time),   cmocka_unit_test(test_log_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
