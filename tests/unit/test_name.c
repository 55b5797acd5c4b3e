/* test_name.c - domain names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dns/name.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* A name of n octets, root included, in labels of at most `label` octets. */
static void fill_name(uint8_t *out, size_t n, size_t label)
{
    size_t left = n - 1;
    while (left > 0) {
        size_t k = left - 1 < label ? left - 1 : label;
        if (left - 1 - k == 1) /* one octet would be left, too short for a label */
            k--;
        *out++ = (uint8_t)k;
        memset(out, 'a', k);
        out += k;
        left -= k + 1;
    }
    *out = 0;
}

static void wire_len_table(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t left, want;
    } rows[] = {
        {"", 0, 0},
        {"\0", 1, 1},
        {"\1a\0", 3, 3},
        {"\1a\0zz", 5, 3},
        {"\1a", 2, 0},
        {"\3ab", 3, 0},
        {"\1", 1, 0},
        {"\1a\xc0\x0c", 4, 0},
        {"\x40", 1, 0},
        {"\x80\0", 2, 0},
        {"\7example\3com\0", 13, 13},
        {"\7example\3com\0", 12, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(name_wire_len((const uint8_t *)rows[i].bytes, rows[i].left),
                         rows[i].want);
}

static void wire_len_limits(void **state)
{
    (void)state;
    uint8_t name[300] = {0};
    for (size_t label = 1; label <= DNS_LABEL_MAX; label++) {
        if (label > 1) {
            fill_name(name, 254, label);
            assert_int_equal(name_wire_len(name, sizeof name), 254);
        }
        fill_name(name, 255, label);
        assert_int_equal(name_wire_len(name, sizeof name), 255);
        assert_int_equal(name_wire_len(name, 254), 0);
        fill_name(name, label == 1 ? 257 : 256, label);
        assert_int_equal(name_wire_len(name, sizeof name), 0);
    }
    uint8_t label64[70] = {64};
    assert_int_equal(name_wire_len(label64, sizeof label64), 0);
}

/* Names in a message: 12 octets of header, then text; expanded from `at`. */
static void expand_table(void **state)
{
    (void)state;
    static const struct {
        const char *bytes; /* behind the header */
        size_t len, at;
        const char *want; /* NULL: malformed */
        size_t behind;
    } rows[] = {
        {"\0", 1, 12, ".", 13},
        {"\1a\1b\0", 5, 12, "a.b.", 17},
        {"\1a\1b\0\1c\xc0\x0c", 9, 17, "c.a.b.", 21},
        {"\1a\1b\0\1c\xc0\x0e", 9, 17, "c.b.", 21},
        {"\1a\1b\0\1c\xc0\x10", 9, 17, "c.", 21},
        {"\1A\1b\0\xc0\x0c", 7, 17, "A.b.", 19},
        {"\1a\0\1b\xc0\x0c\1c\xc0\x0f", 11, 19, "c.b.a.", 23}, /* pointer to pointer */
        {"\1a\0\xc0\x0c\xc0\x0f", 7, 17, "a.", 19},
        {"\xc0\x0c", 2, 12, NULL, 0},         /* to itself */
        {"\1a\xc0\x0c", 4, 12, NULL, 0},      /* to its own label */
        {"\xc0\x0e\1a\0", 5, 12, NULL, 0},    /* forward */
        {"\xc0\x0e\xc0\x0c", 4, 12, NULL, 0}, /* forward, back */
        {"\xc0\x0e\xc0\x0c", 4, 14, NULL, 0},
        {"\1a\xc0\x10\1b\xc0\x0c", 8, 16, NULL, 0}, /* back to what points at us */
        {"\5ab\xc0\x0c"
         "c\0",
         7, 15, NULL, 0},             /* to labels that go on behind us */
        {"\xc0\x00", 2, 12, NULL, 0}, /* into the header */
        {"\xc0\x0b", 2, 12, NULL, 0},
        {"\1a\0\xc0", 4, 15, NULL, 0},     /* half a pointer */
        {"\1a\0\x80\x0c", 5, 15, NULL, 0}, /* reserved */
        {"\1a\0\x40\x0c", 5, 15, NULL, 0},
        {"\1a", 2, 12, NULL, 0},
        {"\5abc", 4, 12, NULL, 0},
        {"", 0, 12, NULL, 0},
        {"\1a\0", 3, 40, NULL, 0}, /* past the end */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[64] = {0}, out[DNS_NAME_MAX];
        char text[NAME_TEXT_SIZE];
        memcpy(msg + 12, rows[i].bytes, rows[i].len);
        size_t pos = rows[i].at, skip = rows[i].at;
        size_t n = name_expand(msg, 12 + rows[i].len, &pos, out);
        assert_int_equal(n != 0, rows[i].want != NULL);
        assert_int_equal(name_skip(msg, 12 + rows[i].len, &skip), rows[i].want != NULL);
        if (n == 0)
            continue;
        assert_string_equal(name_to_text(out, n, text), rows[i].want);
        assert_int_equal(pos, rows[i].behind);
        assert_int_equal(skip, rows[i].behind);
    }
}

/* 255 octets may be put together over pointers, 256 may not. */
static void expand_limit(void **state)
{
    (void)state;
    uint8_t msg[600] = {0}, out[DNS_NAME_MAX];
    for (size_t extra = 1; extra <= 62; extra++) {
        fill_name(msg + 12, 255 - 1 - extra, 63);
        size_t at = 12 + 255 - 1 - extra;
        msg[at] = (uint8_t)extra;
        memset(msg + at + 1, 'b', extra);
        dns_write16(msg + at + 1 + extra, 0xc00c);
        size_t pos = at, len = at + 1 + extra + 2;
        assert_int_equal(name_expand(msg, len, &pos, out), 255);
        assert_int_equal(pos, len);

        msg[at] = (uint8_t)(extra + 1);
        msg[at + 1 + extra] = 'b';
        dns_write16(msg + at + 2 + extra, 0xc00c);
        pos = at;
        assert_int_equal(name_expand(msg, len + 1, &pos, out), 0);
        assert_false(name_skip(msg, len + 1, &pos));
        assert_int_equal(pos, at);
    }
}

/* Pointers to pointers: a name takes 127 of them, whatever they lead to. */
static void expand_chain(void **state)
{
    (void)state;
    uint8_t msg[600] = {0}, out[DNS_NAME_MAX];
    for (size_t at = 13; at + 2 <= sizeof msg; at += 2)
        dns_write16(msg + at, (uint16_t)(0xc000 | (at == 13 ? 12 : at - 2)));
    for (size_t n = 1; n <= 140; n++) {
        size_t at = 13 + 2 * (n - 1), pos = at, skip = at;
        assert_int_equal(name_expand(msg, sizeof msg, &pos, out), n <= 127 ? 1 : 0);
        assert_int_equal(name_skip(msg, sizeof msg, &skip), n <= 127);
        assert_int_equal(pos, n <= 127 ? at + 2 : at);
    }
}

/* The longest name, each of its labels written apart from the rest: 126 pointers. */
static void expand_label_by_label(void **state)
{
    (void)state;
    uint8_t msg[600] = {0}, out[DNS_NAME_MAX];
    size_t at = 12;
    memcpy(msg + at, "\1x\0", 3);
    for (size_t next = 15, n = 1; n < 127; n++) {
        memcpy(msg + next, "\1x", 2);
        dns_write16(msg + next + 2, (uint16_t)(0xc000 | at));
        at = next;
        next += 4;
    }
    size_t pos = at;
    assert_int_equal(name_expand(msg, sizeof msg, &pos, out), 255);
    assert_int_equal(pos, at + 4);
}

static size_t text(uint8_t *out, const char *s)
{
    size_t n = name_from_text(out, s);
    assert_int_not_equal(n, 0);
    return n;
}

static void equal_table(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool want;
    } rows[] = {
        {".", ".", true},
        {"a.", "A", true},
        {"eXample.COM", "ExAMPLE.com", true},
        {"example.com", "example.net", false},
        {"example.com", "xexample.com", false},
        {"a.bc", "ab.c", false},
        {"a\\@b.c", "a`b.c", false}, /* 0x40 and 0x60 are no letters */
        {"a\\[b.c", "a{b.c", false},
        {"\\193.longer-than-8-octets", "\\225.longer-than-8-octets", false},
        {"1234567Z.1234567Z", "1234567z.1234567z", true},
        {"1234567z.1234567\\026", "1234567z.1234567:", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t a[DNS_NAME_MAX], b[DNS_NAME_MAX];
        size_t a_len = text(a, rows[i].a), b_len = text(b, rows[i].b);
        assert_int_equal(name_equal(a, a_len, b, b_len), rows[i].want);
        assert_int_equal(name_equal(b, b_len, a, a_len), rows[i].want);
    }
}

/* Every pair of octets, at every place in a word. */
static void case_exhaustive(void **state)
{
    (void)state;
    for (unsigned at = 1; at <= 20; at++) {
        for (unsigned c = 0; c < 256; c++) {
            uint8_t name[22] = {20}, low[22];
            memset(name + 1, 'x', 20);
            name[at] = (uint8_t)c;
            uint8_t want = c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : (uint8_t)c;
            name_lower(low, name, sizeof name);
            assert_int_equal(low[at], want);
            assert_true(name_equal(name, sizeof name, low, sizeof low));
            low[at] = (uint8_t)(want ^ 0x20);
            bool letter = want >= 'a' && want <= 'z';
            assert_int_equal(name_equal(name, sizeof name, low, sizeof low), letter);
            name_lower(name, name, sizeof name);
            assert_int_equal(name[at], want);
        }
    }
}

static void below_table(void **state)
{
    (void)state;
    static const struct {
        const char *name, *suffix;
        bool want;
    } rows[] = {
        {"a.example.com", "example.com", true},
        {"a.b.Example.com", "eXample.com", true},
        {"example.com", "example.com", true},
        {"example.com", ".", true},
        {".", ".", true},
        {".", "com", false},
        {"com", "example.com", false},
        {"xexample.com", "example.com", false},
        {"\\007example.com", "example.com", false},
        {"example.com.net", "example.com", false},
        {"ab.com", "b.com", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t a[DNS_NAME_MAX], b[DNS_NAME_MAX];
        size_t a_len = text(a, rows[i].name), b_len = text(b, rows[i].suffix);
        assert_int_equal(name_below(a, a_len, b, b_len), rows[i].want);
    }
}

static void text_table(void **state)
{
    (void)state;
    static const struct {
        const char *in;
        const char *out; /* NULL: malformed */
        size_t labels;
    } rows[] = {
        {".", ".", 0},
        {"com", "com.", 1},
        {"com.", "com.", 1},
        {"WwW.example.com", "WwW.example.com.", 3},
        {"a\\.b.c", "a\\.b.c.", 2},
        {"a\\046b.c", "a\\.b.c.", 2},
        {"\\000.\\255", "\\000.\\255.", 2},
        {"sp\\032ace", "sp\\032ace.", 1},
        {"sp ace", "sp\\032ace.", 1},
        {"\\q\\\\", "q\\\\.", 1},
        {"_443._tcp.x-1", "_443._tcp.x-1.", 3},
        {"*.x", "*.x.", 2},
        {"@\\(\\)\\;\\\"$", "\\@\\(\\)\\;\\\"\\$.", 1},
        {"", NULL, 0},
        {"..", NULL, 0},
        {".a", NULL, 0},
        {"a..b", NULL, 0},
        {"a..", NULL, 0},
        {"a\\", NULL, 0},
        {"a\\1", NULL, 0},
        {"a\\12", NULL, 0},
        {"a\\12x", NULL, 0},
        {"a\\256", NULL, 0},
        {"a\\999", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t name[DNS_NAME_MAX];
        char back[NAME_TEXT_SIZE];
        size_t n = name_from_text(name, rows[i].in);
        assert_int_equal(n != 0, rows[i].out != NULL);
        if (n == 0)
            continue;
        assert_int_equal(name_wire_len(name, n), n);
        assert_string_equal(name_to_text(name, n, back), rows[i].out);
        assert_int_equal(name_labels(name, n), rows[i].labels);
    }
}

static void text_limits(void **state)
{
    (void)state;
    uint8_t name[DNS_NAME_MAX], back[DNS_NAME_MAX];
    char out[NAME_TEXT_SIZE];
    for (size_t n = 248; n <= 255; n++) {
        fill_name(name, n, 63);
        for (size_t i = 0; i < n; i++)
            name[i] = name[i] == 'a' ? 0xff : name[i]; /* 4 characters each */
        name_to_text(name, n, out);
        assert_true(strlen(out) < NAME_TEXT_SIZE);
        assert_int_equal(name_from_text(back, out), n);
        assert_memory_equal(name, back, n);
        out[strlen(out) - 1] = '\0';
        assert_int_equal(name_from_text(back, out), n);
    }
    strcat(out, "b"); /* the 256th */
    assert_int_equal(name_from_text(back, out), 0);
    strcat(out, ".");
    assert_int_equal(name_from_text(back, out), 0);

    char label[66] = {0};
    memset(label, 'a', 63);
    assert_int_equal(name_from_text(back, label), 65);
    memset(label, 'a', 64);
    assert_int_equal(name_from_text(back, label), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wire_len_table), cmocka_unit_test(wire_len_limits),
        cmocka_unit_test(expand_table),   cmocka_unit_test(expand_limit),
        cmocka_unit_test(expand_chain),   cmocka_unit_test(expand_label_by_label),
        cmocka_unit_test(equal_table),    cmocka_unit_test(case_exhaustive),
        cmocka_unit_test(below_table),    cmocka_unit_test(text_table),
        cmocka_unit_test(text_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
