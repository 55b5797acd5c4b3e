/* test_ratelimit.c - queries a second and client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ratelimit.h"

/* Each test has a client of its own: the table lives as long as the process. */
static struct addr client(const char *text)
{
    struct addr a;

    assert_true(addr_parse(&a, text, 0));
    return a;
}

enum { START_MS = 1000000 };

static unsigned take_all(const struct addr *a, uint32_t per_s, uint32_t burst, uint64_t now_ms)
{
    unsigned n = 0;

    while (ratelimit_take(a, per_s, burst, now_ms))
        n++;
    return n;
}

static void test_burst_and_refill(void **state)
{
    struct addr a = client("192.0.2.1");

    (void)state;
    assert_int_equal(take_all(&a, 10, 20, START_MS), 20);
    assert_int_equal(take_all(&a, 10, 20, START_MS + 500), 5);
    assert_int_equal(take_all(&a, 10, 20, START_MS + 60000), 20);
    assert_int_equal(take_all(&a, 10, 20, START_MS + 59000), 0); /* the clock of another core */
}

/* Who asks all the time gets as much as the limit says, no less. */
static void test_impatient(void **state)
{
    static const uint32_t rates[] = {1, 3, 7, 50};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct addr a = client("192.0.2.2");
        unsigned n = 0;

        a.ip[3] = (uint8_t)(a.ip[3] + i);
        for (uint64_t ms = 0; ms < 100000; ms += 17)
            n += ratelimit_take(&a, rates[i], 0, START_MS + ms);
        assert_in_range(n, rates[i] * 99, rates[i] * 101);
    }
}

static void test_long_rest(void **state)
{
    struct addr a = client("192.0.2.16");

    (void)state;
    assert_int_equal(take_all(&a, 1, 1000, START_MS), 1000);
    assert_int_equal(take_all(&a, 1, 1000, START_MS + 500 * 1000), 500);
    assert_int_equal(take_all(&a, 1, 1000, START_MS + 2000 * 1000), 1000);
}

/* As much as the configuration takes. */
static void test_largest(void **state)
{
    struct addr a = client("192.0.2.17");

    (void)state;
    assert_int_equal(take_all(&a, 100000, 0, START_MS), 100000);
    assert_int_equal(take_all(&a, 100000, 0, START_MS + 1), 100);
}

static void test_sites(void **state)
{
    struct addr a = client("2001:db8:0:1::1"), same = client("2001:db8:0:ff::2"),
                other = client("2001:db8:0:100::1");

    (void)state;
    assert_int_equal(take_all(&a, 5, 5, START_MS), 5);
    assert_false(ratelimit_take(&same, 5, 5, START_MS));
    assert_true(ratelimit_take(&other, 5, 5, START_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst_and_refill),
        cmocka_unit_test(test_impatient),
        cmocka_unit_test(test_long_rest),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_sites),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
