/* test_edns.c - OPT records and options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dns/edns.h"
#include "messages.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void options_valid(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool want;
    } rows[] = {
        {"", true},
        {"000c0000", true},
        {"000c000100", true},
        {"000c0000000a0002ffff", true},
        {"000c00", false},
        {"000c0001", false},
        {"000c000000", false},
        {"000c0000000a0003ffff", false},
        {"fde90064010203040506", false},
        {"000cffff00", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t data[64];
        assert_int_equal(edns_options_valid(data, hex_decode(data, rows[i].hex)), rows[i].want);
    }
}

static void option_lookup(void **state)
{
    (void)state;
    uint8_t data[64];
    size_t len = hex_decode(data, "000a00021122000c0000000a0001330008000144");
    size_t n = 99;
    assert_ptr_equal(edns_option(data, len, 10, &n), data + 4); /* the first of two */
    assert_int_equal(n, 2);
    assert_ptr_equal(edns_option(data, len, 12, &n), data + 10); /* without data, not NULL */
    assert_int_equal(n, 0);
    assert_ptr_equal(edns_option(data, len, 8, &n), data + 19);
    assert_int_equal(n, 1);
    assert_null(edns_option(data, len, 11, &n));
    assert_null(edns_option(data, 0, 10, &n));
}

static void writing(void **state)
{
    (void)state;
    uint8_t msg[64], want[64];
    assert_int_equal(edns_write(msg, 1232, 0x12, 0x8000), DNS_OPT_FIXED);
    hex_decode(want, "00002904d0120080000000");
    assert_memory_equal(msg, want, DNS_OPT_FIXED);

    uint8_t *end = msg + DNS_OPT_FIXED;
    const uint8_t *limit = msg + DNS_OPT_FIXED + 10;
    assert_null(edns_add(msg, end, limit, 15, "1234567", 7)); /* 11 octets */
    assert_int_equal(dns_read16(msg + 9), 0);
    end = edns_add(msg, end, limit, 15, "\0\3", 2);
    assert_ptr_equal(end, msg + DNS_OPT_FIXED + 6);
    end = edns_add(msg, end, limit, 12, NULL, 0);
    assert_ptr_equal(end, limit); /* to the last octet */
    assert_null(edns_add(msg, end, limit, 12, NULL, 0));
    hex_decode(want, "00002904d012008000000a000f00020003000c0000");
    assert_memory_equal(msg, want, (size_t)(end - msg));
    assert_null(edns_add(msg, end, limit - 1, 12, NULL, 0)); /* already past */
}

static void rdlength_does_not_wrap(void **state)
{
    (void)state;
    static uint8_t opt[2 * 65536], data[65536];
    const uint8_t *limit = opt + sizeof opt;
    edns_write(opt, 1232, 0, 0);
    uint8_t *end = opt + DNS_OPT_FIXED;
    assert_null(edns_add(opt, end, limit, 12, data, 65532));
    assert_null(edns_add(opt, end, limit, 12, data, 65536));
    end = edns_add(opt, end, limit, 12, data, 65527);
    assert_non_null(end);
    assert_null(edns_add(opt, end, limit, 12, data, 1));
    end = edns_add(opt, end, limit, 12, NULL, 0);
    assert_non_null(end);
    assert_int_equal(dns_read16(opt + 9), 65535);
    assert_null(edns_add(opt, end, limit, 12, NULL, 0));
}

static void padding(void **state)
{
    (void)state;
    static const struct {
        size_t len, block, max, want;
    } rows[] = {
        {40, 468, 65535, 424},  {464, 468, 65535, 0},      {465, 468, 65535, 467},
        {468, 468, 65535, 464}, {40, 128, 65535, 84},      {600, 468, 700, 96}, /* cut at max */
        {696, 468, 700, 0},     {697, 468, 700, SIZE_MAX}, {701, 468, 700, SIZE_MAX},
        {65530, 468, 65535, 1}, {40, 0, 65535, 0},         {40, 1, 65535, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(edns_padding(rows[i].len, rows[i].block, rows[i].max), rows[i].want);
    for (size_t len = 12; len < 4096; len++) {
        size_t pad = edns_padding(len, 468, 65535);
        assert_true(pad < 468);
        assert_int_equal((len + 4 + pad) % 468, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_valid), cmocka_unit_test(option_lookup),
        cmocka_unit_test(writing),       cmocka_unit_test(rdlength_does_not_wrap),
        cmocka_unit_test(padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
