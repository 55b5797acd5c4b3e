/* test_ecs.c - the client subnet option. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dns/ecs.h"
#include "messages.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void parse_table(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool want;
        uint8_t family, source, scope;
    } rows[] = {
        {"00011800c00002", true, ADDR_V4, 24, 0},
        {"00011818c00002", true, ADDR_V4, 24,
         24}, /* a query's scope is the caller's to refuse */
        {"00010000", true, ADDR_V4, 0, 0},
        {"00020000", true, ADDR_V6, 0, 0},
        {"00012000c0000201", true, ADDR_V4, 32, 0},
        {"00011400c00000", true, ADDR_V4, 20, 0},
        {"0001010080", true, ADDR_V4, 1, 0},
        {"0002380020010db8000000", true, ADDR_V6, 56, 0},
        {"0002800020010db8000000000000000000000001", true, ADDR_V6, 128, 0},
        {"0002388020010db8000000", true, ADDR_V6, 56, 128},
        {"00011400c0000f", false, 0, 0, 0}, /* bits beyond the prefix */
        {"0001010040", false, 0, 0, 0},
        {"00031800c00002", false, 0, 0, 0}, /* families */
        {"00001800c00002", false, 0, 0, 0},
        {"00000000", false, 0, 0, 0},
        {"01011800c00002", false, 0, 0, 0},
        {"00012100c000020100", false, 0, 0, 0}, /* longer than the family */
        {"0002810020010db800000000000000000000000100", false, 0, 0, 0},
        {"00011821c00002", false, 0, 0, 0}, /* scope as well */
        {"0002388120010db8000000", false, 0, 0, 0},
        {"00011800c0000201", false, 0, 0, 0}, /* octets: too many, too few */
        {"00011800c0000200", false, 0, 0, 0},
        {"00011800c000", false, 0, 0, 0},
        {"00011800", false, 0, 0, 0},
        {"0001000000", false, 0, 0, 0},
        {"000118", false, 0, 0, 0},
        {"", false, 0, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t data[64], back[ECS_OPTION_MAX];
        size_t len = hex_decode(data, rows[i].hex);
        struct ecs e = {.family = 77};
        assert_int_equal(ecs_parse(&e, data, len), rows[i].want);
        if (!rows[i].want) {
            assert_int_equal(e.family, 77);
            continue;
        }
        assert_int_equal(e.family, rows[i].family);
        assert_int_equal(e.source, rows[i].source);
        assert_int_equal(e.scope, rows[i].scope);
        assert_int_equal(ecs_write(&e, back), len);
        assert_memory_equal(back, data, len);
    }
}

static void from_addr(void **state)
{
    (void)state;
    struct addr a = {.family = ADDR_V4, .ip = {192, 0, 2, 201}, .port = 53};
    struct ecs e;
    for (uint8_t prefix = 0; prefix < 40; prefix++) {
        assert_true(ecs_from_addr(&e, &a, prefix));
        assert_int_equal(e.family, ADDR_V4);
        assert_int_equal(e.source, prefix < 32 ? prefix : 32);
        assert_int_equal(e.scope, 0);
        for (unsigned bit = 0; bit < 128; bit++) {
            unsigned want = bit < e.source ? a.ip[bit / 8] >> (7 - bit % 8) & 1 : 0;
            assert_int_equal(e.ip[bit / 8] >> (7 - bit % 8) & 1, want);
        }
        uint8_t data[ECS_OPTION_MAX];
        struct ecs back;
        assert_true(ecs_parse(&back, data, ecs_write(&e, data)));
        assert_true(ecs_equal(&e, &back));
    }
    a = (struct addr){.family = ADDR_V6};
    memset(a.ip, 0xff, sizeof a.ip);
    for (unsigned prefix = 0; prefix <= 255; prefix++) {
        assert_true(ecs_from_addr(&e, &a, (uint8_t)prefix));
        assert_int_equal(e.source, prefix < 128 ? prefix : 128);
        unsigned ones = 0;
        for (unsigned bit = 0; bit < 128; bit++)
            ones += e.ip[bit / 8] >> (7 - bit % 8) & 1u;
        assert_int_equal(ones, e.source);
        uint8_t data[ECS_OPTION_MAX];
        struct ecs back;
        assert_true(ecs_parse(&back, data, ecs_write(&e, data)));
        assert_true(ecs_equal(&e, &back));
    }
    a.family = ADDR_NONE;
    assert_false(ecs_from_addr(&e, &a, 24));
}

static void cut(void **state)
{
    (void)state;
    struct ecs e = {.family = ADDR_V4, .source = 24, .ip = {203, 0, 113}};
    ecs_cut(&e, 32);
    assert_int_equal(e.source, 24);
    ecs_cut(&e, 17);
    assert_int_equal(e.source, 17);
    assert_int_equal(e.ip[2], 0);
    ecs_cut(&e, 1);
    assert_int_equal(e.ip[0], 128);
    ecs_cut(&e, 0);
    assert_int_equal(e.source, 0);
    assert_int_equal(e.ip[0], 0);
}

static void equality(void **state)
{
    (void)state;
    struct ecs a = {.family = ADDR_V4, .source = 24, .ip = {192, 0, 2}};
    struct ecs b = a;
    b.scope = 24;
    assert_true(ecs_equal(&a, &b));
    b.source = 23;
    assert_false(ecs_equal(&a, &b));
    b = a;
    b.ip[2] = 3;
    assert_false(ecs_equal(&a, &b));
    b = a;
    b.family = ADDR_V6;
    assert_false(ecs_equal(&a, &b));
    assert_false(ecs_prefix_equal(&a, &b, 0));

    /* 2 and 3 differ in bit 23 only */
    b = (struct ecs){.family = ADDR_V4, .source = 24, .ip = {192, 0, 3}};
    for (unsigned bits = 0; bits <= 255; bits++)
        assert_int_equal(ecs_prefix_equal(&a, &b, (uint8_t)bits), bits <= 23);
    for (unsigned at = 0; at < 128; at++) {
        struct ecs c = {.family = ADDR_V6}, d = c;
        d.ip[at / 8] = (uint8_t)(0x80 >> (at % 8));
        for (unsigned bits = 0; bits <= 128; bits++)
            assert_int_equal(ecs_prefix_equal(&c, &d, (uint8_t)bits), bits <= at);
        assert_true(ecs_prefix_equal(&c, &c, 255));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_table),
        cmocka_unit_test(from_addr),
        cmocka_unit_test(cut),
        cmocka_unit_test(equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
