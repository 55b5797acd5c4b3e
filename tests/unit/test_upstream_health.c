/* test_upstream_health.c - response times and the circuit breaker, with time as an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "upstream_health.h"

enum { SECOND_US = 1000000 };

static void response_times_are_followed(void **state)
{
    (void)state;
    struct upstream_health h;
    uint64_t now = SECOND_US;
    upstream_health_init(&h, now);
    assert_int_equal(upstream_health_rto_us(&h, 1300000), 400000); /* nothing known */
    for (int i = 0; i < 2000; i++)
        upstream_health_good(&h, now += 1000, i % 20 == 0 ? 90000 : 20000);
    assert_in_range(h.srtt_us, 18000, 32000);
    assert_in_range(h.p95_us, 18000, 92000);
    assert_in_range(upstream_health_rto_us(&h, 1300000), 50000, 250000);
    assert_int_equal(upstream_health_rto_us(&h, 30000), 30000); /* the caller's limit */
    assert_in_range(upstream_health_hedge_us(&h, 650000), 10000, 92000);
    for (int i = 0; i < 2000; i++)
        upstream_health_good(&h, now += 1000, 5000);
    assert_in_range(h.srtt_us, 4000, 6000);
    assert_int_equal(upstream_health_rto_us(&h, 1300000), 50000); /* not less */
}

static void percentile_rests_where_it_should(void **state)
{
    (void)state;
    struct upstream_health h;
    uint32_t x = 1;
    unsigned above = 0;
    upstream_health_init(&h, 1);
    for (int i = 0; i < 20000; i++) {
        x = x * 1103515245 + 12345;
        uint32_t rtt = 10000 + (x >> 16) % 10000; /* even from 10 to 20 ms: p95 is 19.5 */
        above += i >= 10000 && rtt > h.p95_us;
        upstream_health_good(&h, (uint64_t)i + 2, rtt);
    }
    assert_in_range(h.p95_us, 18500, 20500);
    assert_in_range(above, 400, 600); /* of 10000 */
}

/* One that is asked now and then is known again after a few times. */
static void old_times_weigh_little(void **state)
{
    (void)state;
    struct upstream_health h;
    upstream_health_init(&h, 1);
    upstream_health_good(&h, SECOND_US, 400000);
    for (uint64_t i = 2; i < 8; i++)
        upstream_health_good(&h, i * SECOND_US, 10000);
    assert_in_range(h.srtt_us, 10000, 17000);
}

static void a_lower_bound_only_raises(void **state)
{
    (void)state;
    struct upstream_health h;
    upstream_health_init(&h, 1);
    upstream_health_good(&h, 2, 20000);
    upstream_health_at_least(&h, 10000);
    assert_int_equal(h.srtt_us, 20000);
    upstream_health_at_least(&h, 100000);
    assert_true(h.srtt_us > 20000);
}

static void three_signs_and_a_probe_take_it_down(void **state)
{
    (void)state;
    struct upstream_health h;
    upstream_health_init(&h, 1);
    assert_false(upstream_health_bad(&h, 2, SIGN_SLOW));
    assert_false(upstream_health_bad(&h, 3, SIGN_SLOW));
    assert_false(upstream_health_good(&h, 4, 1000)); /* in a row means in a row */
    assert_false(upstream_health_bad(&h, 5, SIGN_TIMEOUT));
    assert_false(upstream_health_bad(&h, 6, SIGN_REFUSED));
    assert_true(upstream_health_bad(&h, 7, SIGN_REFUSED));
    assert_int_equal(h.state, HEALTH_SUSPECT);
    assert_false(upstream_health_bad(&h, 8, SIGN_REFUSED)); /* once */
    assert_false(upstream_health_good(&h, 9, 0));           /* the probe came through */
    assert_int_equal(h.state, HEALTH_WELL);
    assert_false(
        upstream_health_probe_failed(&h, 10)); /* one that is well needs more than that */
    for (int i = 0; i < 3; i++)
        upstream_health_bad(&h, 11, SIGN_TIMEOUT);
    assert_true(upstream_health_probe_failed(&h, 12));
    assert_int_equal(h.state, HEALTH_DOWN);
    assert_false(upstream_health_probe_failed(&h, 13));
    assert_true(upstream_health_good(&h, 14, 0));
    assert_int_equal(h.state, HEALTH_WELL);
}

static void back_off_doubles_up_to_its_end(void **state)
{
    (void)state;
    struct upstream_health h;
    uint32_t most[] = {250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};
    upstream_health_init(&h, 1);
    for (int i = 0; i < 3; i++)
        upstream_health_bad(&h, 2, SIGN_TIMEOUT);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        upstream_health_probe_failed(&h, 3);
        assert_int_equal(upstream_health_backoff_ms(&h, false, 0), most[i]);
        assert_in_range(upstream_health_backoff_ms(&h, false, 0xffffffff), most[i] / 4 * 3,
                        most[i]);
        assert_in_range(upstream_health_backoff_ms(&h, true, 0x8000), 1, 1000);
    }
}

static void trouble_long_ago_is_forgotten(void **state)
{
    (void)state;
    struct upstream_health h;
    upstream_health_init(&h, 1);
    for (int i = 0; i < 3; i++)
        upstream_health_bad(&h, 2, SIGN_TIMEOUT);
    for (int i = 0; i < 6; i++)
        upstream_health_probe_failed(&h, 3);
    upstream_health_good(&h, 4, 1000);
    upstream_health_good(&h, SECOND_US, 1000);
    assert_int_equal(h.failures, 6); /* it may be flapping */
    upstream_health_good(&h, 20 * SECOND_US, 1000);
    assert_int_equal(h.failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(response_times_are_followed),
        cmocka_unit_test(percentile_rests_where_it_should),
        cmocka_unit_test(old_times_weigh_little),
        cmocka_unit_test(a_lower_bound_only_raises),
        cmocka_unit_test(three_signs_and_a_probe_take_it_down),
        cmocka_unit_test(back_off_doubles_up_to_its_end),
        cmocka_unit_test(trouble_long_ago_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
