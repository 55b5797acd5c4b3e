/* test_cache_namecode.c - names and their codes are one-to-one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cache/namecode.h"
#include "dns/name.h"
#include "unit/made.h"

static size_t encode_text(const char *text, uint8_t *code)
{
    uint8_t name[DNS_NAME_MAX];
    size_t len = name_from_text(name, text);
    assert_true(len > 0);
    return cache_namecode_encode(code, name, len);
}

static void test_lengths(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t bits;
    } rows[] = {
        {".", 0},
        {"e", 4},
        {"EE", 8},
        {"c", 5},
        {"h", 6},
        {"x", 7},
        {"_", 7},
        {"e.e", 13},
        {"*", 16},
        {"e\\.e", 24}, /* a dot inside of a label is no step */
        {"www.example.com", 6 * 3 + 5 + 4 + 7 + 4 + 5 + 5 + 5 + 4 + 5 + 5 + 4 + 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t code[NAMECODE_SPACE];
        assert_int_equal(encode_text(rows[i].name, code), (rows[i].bits + 7) / 8);
    }
}

/* Octets that the code is bad at: the name stands plain, no longer than it is. */
static void test_plain(void **state)
{
    (void)state;
    uint8_t name[DNS_NAME_MAX], code[NAMECODE_SPACE], back[DNS_NAME_MAX];
    size_t len = 0;
    for (int label = 0; label < 4; label++) {
        uint8_t n = label < 3 ? 63 : 61;
        name[len++] = n;
        memset(name + len, label == 2 ? 0xff : '!', n);
        len += n;
    }
    name[len++] = 0;
    assert_int_equal(len, 255);
    size_t n = cache_namecode_encode(code, name, len);
    assert_int_equal(n, 255);
    assert_int_equal(code[0], 0xff);
    assert_int_equal(cache_namecode_decode(back, code, n), len);
    assert_memory_equal(back, name, len);
}

static void test_malformed_names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t len;
    } rows[] = {
        {"", 0}, {"\1a", 2}, {"\2a\0", 3}, {"\100aaa", 4}, {"\300\14", 2}, {"\1a\0\0", 4},
    };
    uint8_t code[NAMECODE_SPACE];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            cache_namecode_encode(code, (const uint8_t *)rows[i].name, rows[i].len), SIZE_MAX);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct random r;
    random_seed(&r, 5);
    for (int i = 0; i < 100000; i++) {
        uint8_t name[DNS_NAME_MAX], lower[DNS_NAME_MAX], back[DNS_NAME_MAX];
        uint8_t code[NAMECODE_SPACE], again[NAMECODE_SPACE];
        size_t len = made_name(&r, name, i % 3 == 0 ? 255 : 40);
        size_t n = cache_namecode_encode(code, name, len);
        assert_true(n <= len && n <= NAMECODE_MAX);
        for (size_t k = 0; k < 8; k++)
            assert_int_equal(code[n + k], 0);
        name_lower(lower, name, len);
        assert_int_equal(cache_namecode_decode(back, code, n), len);
        assert_memory_equal(back, lower, len);
        assert_int_equal(cache_namecode_encode(again, lower, len), n);
        assert_memory_equal(code, again, n);
    }
}

/* Whatever octets decode, encoding gives them back: no name has two codes. */
static void test_any_octets(void **state)
{
    (void)state;
    struct random r;
    unsigned good = 0;
    random_seed(&r, 6);
    for (int i = 0; i < 100000; i++) {
        uint8_t code[24], name[DNS_NAME_MAX], again[NAMECODE_SPACE];
        size_t len = random_below(&r, sizeof code);
        for (size_t k = 0; k < len; k++)
            code[k] = (uint8_t)random_next(&r);
        if (len > 0 && i % 4 == 0)
            code[0] = 0xff;
        size_t n = cache_namecode_decode(name, code, len);
        if (n == 0)
            continue;
        good++;
        assert_int_equal(name_wire_len(name, n), n);
        assert_int_equal(cache_namecode_encode(again, name, n), len);
        assert_memory_equal(again, code, len);
    }
    assert_true(good > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),         cmocka_unit_test(test_plain),
        cmocka_unit_test(test_malformed_names), cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_any_octets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
