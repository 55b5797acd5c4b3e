/* test_rrtype.c - rdata layouts and mnemonics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dns/rrtype.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void layouts(void **state)
{
    (void)state;
    static const struct {
        uint16_t type;
        uint8_t prefix, strings, names, tail;
        bool tail_any, compress, expand;
    } rows[] = {
        {RR_A, 4, 0, 0, 0, false, false, false},    {RR_AAAA, 16, 0, 0, 0, false, false, false},
        {RR_NS, 0, 0, 1, 0, false, true, true},     {RR_MD, 0, 0, 1, 0, false, true, true},
        {RR_MF, 0, 0, 1, 0, false, true, true},     {RR_CNAME, 0, 0, 1, 0, false, true, true},
        {RR_SOA, 0, 0, 2, 20, false, true, true},   {RR_MB, 0, 0, 1, 0, false, true, true},
        {RR_MG, 0, 0, 1, 0, false, true, true},     {RR_MR, 0, 0, 1, 0, false, true, true},
        {RR_PTR, 0, 0, 1, 0, false, true, true},    {RR_MINFO, 0, 0, 2, 0, false, true, true},
        {RR_MX, 2, 0, 1, 0, false, true, true},     {RR_RP, 0, 0, 2, 0, false, false, true},
        {RR_AFSDB, 2, 0, 1, 0, false, false, true}, {RR_RT, 2, 0, 1, 0, false, false, true},
        {RR_SIG, 18, 0, 1, 0, true, false, true},   {RR_PX, 2, 0, 2, 0, false, false, true},
        {RR_NXT, 0, 0, 1, 0, true, false, true},    {RR_SRV, 6, 0, 1, 0, false, false, true},
        {RR_NAPTR, 4, 3, 1, 0, false, false, true}, {RR_DNAME, 0, 0, 1, 0, false, false, true},
    };
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        const struct rrtype_layout *l = rrtype_layout((uint16_t)type);
        assert_non_null(l);
        size_t i = 0;
        while (i < COUNT(rows) && rows[i].type != type)
            i++;
        if (i == COUNT(rows)) { /* opaque: RRSIG, NSEC, SVCB, HTTPS, HINFO, TXT, ... */
            assert_int_equal(l->prefix | l->strings | l->names | l->tail, 0);
            assert_true(l->tail_any && !l->compress && !l->may_come_compressed);
            continue;
        }
        assert_int_equal(l->prefix, rows[i].prefix);
        assert_int_equal(l->strings, rows[i].strings);
        assert_int_equal(l->names, rows[i].names);
        assert_int_equal(l->tail, rows[i].tail);
        assert_int_equal(l->tail_any, rows[i].tail_any);
        assert_int_equal(l->compress, rows[i].compress);
        assert_int_equal(l->may_come_compressed, rows[i].expand);
    }
}

static void meta(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= UINT16_MAX; type++)
        assert_int_equal(rrtype_is_meta((uint16_t)type),
                         type == 41 || (type >= 249 && type <= 255));
}

static void text_round_trip(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        char text[16];
        uint16_t back = (uint16_t)~type;
        assert_ptr_equal(rrtype_to_text((uint16_t)type, text), text);
        assert_true(strlen(text) < sizeof text);
        assert_true(rrtype_from_text(&back, text));
        assert_int_equal(back, type);
    }
}

static void text_table(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int want; /* -1: unknown */
        const char *back;
    } rows[] = {
        {"A", 1, "A"},
        {"a", 1, "A"},
        {"aaaa", 28, "AAAA"},
        {"Https", 65, "HTTPS"},
        {"NSAP-PTR", 23, "NSAP-PTR"},
        {"nsec3param", 51, "NSEC3PARAM"},
        {"ANY", 255, "ANY"},
        {"TYPE65280", 65280, "TYPE65280"},
        {"type1", 1, "A"},
        {"0", 0, "TYPE0"},
        {"65535", 65535, "TYPE65535"},
        {"DLV", 32769, "DLV"},
        {"", -1, NULL},
        {"TYPE", -1, NULL},
        {"TYPE65536", -1, NULL},
        {"65536", -1, NULL},
        {"99999999999999999999", -1, NULL},
        {"-1", -1, NULL},
        {" 1", -1, NULL},
        {"1 ", -1, NULL},
        {"TYPE1x", -1, NULL},
        {"AAAAA", -1, NULL},
        {"B", -1, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint16_t type = 0;
        char back[16];
        assert_int_equal(rrtype_from_text(&type, rows[i].text), rows[i].want >= 0);
        if (rows[i].want < 0)
            continue;
        assert_int_equal(type, rows[i].want);
        assert_string_equal(rrtype_to_text(type, back), rows[i].back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),
        cmocka_unit_test(meta),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(text_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
