/* test_cache_namecode.c - names and their codes are one-to-one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cache/key.h"
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
        {"e", 1 + 5},
        {"EE", 1 + 2 * 5},
        {"-", 1 + 5},
        {"_", 1 + 6},
        {"e.e", 1 + 3 * 5},
        {"*.e1", 1 + 4 * 6},
        {"e\\.e", 8 * (1 + 4)}, /* a dot inside of a label is no step */
        {"e?", 8 * (1 + 3)},
        {"e{", 8 * (1 + 3)},
        {"e\\028", 8 * (1 + 3)},
        {"e\\200", 8 * (1 + 3)},
        {"www.example.com", 1 + 15 * 5},
        {"www2.example.com", 1 + 16 * 6},
        {"a23456789012345678901234567890123.b", 1 + 35 * 6},
        {"a.b23456789012345678901234567890123", 8 * (1 + 36)}, /* a length over 31 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        _Alignas(8) uint8_t code[NAMECODE_SPACE];
        assert_int_equal(encode_text(rows[i].name, code), (rows[i].bits + 7) / 8);
    }
}

/* Octets that the code is bad at: the name stands plain, no longer than it is. */
static void test_plain(void **state)
{
    (void)state;
    _Alignas(8) uint8_t code[NAMECODE_SPACE];
    uint8_t name[DNS_NAME_MAX], back[DNS_NAME_MAX];
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
    _Alignas(8) uint8_t code[NAMECODE_SPACE];
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
        _Alignas(8) uint8_t code[NAMECODE_SPACE], again[NAMECODE_SPACE];
        size_t len = made_name(&r, name, i % 3 == 0 ? 255 : 40);
        size_t n = cache_namecode_encode(code, name, len);
        assert_true(n <= len && n <= NAMECODE_MAX);
        name_lower(lower, name, len);
        assert_int_equal(cache_namecode_decode(back, code, n), len);
        assert_memory_equal(back, lower, len);
        assert_int_equal(cache_namecode_encode(again, lower, len), n);
        assert_memory_equal(code, again, n);
    }
}

/* Every octet at every place of names of all lengths that are coded many symbols at a time, and
 * of those around them. */
static void test_every_octet(void **state)
{
    (void)state;
    for (uint8_t n = 1; n < 40; n++) {
        for (int c = 0; c < 256; c++) {
            for (size_t at = 0; at < n; at++) {
                _Alignas(8) uint8_t code[NAMECODE_SPACE], again[NAMECODE_SPACE];
                uint8_t name[48] = {n}, lower[48], back[DNS_NAME_MAX];
                memset(name + 1, c & 1 ? 'e' : '8', n);
                name[1 + at] = (uint8_t)c;
                size_t len = n + 2u, size = cache_namecode_encode(code, name, len);
                bool is_narrow =
                    (c & 1 || n == 1) && (c == '-' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
                bool is_plain = c < 0x20 || c > 'z' || c == '.' || c == '?' || c == '`';
                assert_int_equal(size, is_plain ? len : (n * (is_narrow ? 5u : 6u) + 8) / 8);
                name_lower(lower, name, len);
                assert_int_equal(cache_namecode_decode(back, code, size), len);
                assert_memory_equal(back, lower, len);
                assert_int_equal(cache_namecode_encode(again, lower, len), size);
                assert_memory_equal(code, again, size);
            }
        }
    }
}

/* A name in any case, and the entry of it in a page, have one key and one hash. */
static void test_keys(void **state)
{
    (void)state;
    struct random r;
    struct cache_hash hash;
    struct cache_name a, b, c;
    random_seed(&r, 7);
    cache_hash_init(&hash, &(struct hash_key){3, 4});
    for (int i = 0; i < 100000; i++) {
        uint8_t name[DNS_NAME_MAX], lower[DNS_NAME_MAX];
        size_t len = made_name(&r, name, i % 3 == 0 ? 255 : 40);
        name_lower(lower, name, len);
        assert_true(cache_key_from_name(&a, &hash, name, len));
        assert_true(cache_key_from_name(&b, &hash, lower, len));
        assert_true(cache_key_from_entry(&c, &hash, a.kind, a.key, a.key_len));
        assert_int_equal(a.hash, b.hash);
        assert_int_equal(a.hash, c.hash);
        assert_int_equal(a.key_len, b.key_len);
        assert_int_equal(a.key_len, c.key_len);
        assert_memory_equal(a.key, b.key, a.key_len);
        assert_memory_equal(a.key, c.key, a.key_len);
        assert_true(a.kind == b.kind && a.kind == c.kind && a.tag == c.tag);
        /* one octet changed changes the hash */
        if (len > 2 && (lower[1] | 0x20) != (lower[len - 2] | 0x20)) {
            uint8_t first = lower[1];
            lower[1] = lower[len - 2];
            lower[len - 2] = first;
            assert_true(cache_key_from_name(&b, &hash, lower, len));
            assert_int_not_equal(a.hash, b.hash);
        }
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
        _Alignas(8) uint8_t again[NAMECODE_SPACE];
        uint8_t code[24], name[DNS_NAME_MAX];
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
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_malformed_names),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_any_octets),
        cmocka_unit_test(test_every_octet),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
