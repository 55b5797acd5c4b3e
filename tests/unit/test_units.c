/* test_units.c - sizes and times, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "units.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static void test_bytes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        const char *written;
    } rows[] = {
        {"0", 0, "0"},
        {"1", 1, "1B"},
        {"1000", 1000, "1000B"},
        {"64MiB", 64 << 20, "64MiB"},
        {"64mib", 64 << 20, "64MiB"},
        {"1KiB", 1024, "1KiB"},
        {"1024KiB", 1 << 20, "1MiB"},
        {"1500KiB", 1500 << 10, "1500KiB"},
        {"2GiB", 2ULL << 30, "2GiB"},
        {"3TiB", 3ULL << 40, "3TiB"},
        {"1kB", 1000, "1000B"},
        {"1MB", 1000000, "1000000B"},
        {"7GB", 7000000000ULL, "7000000000B"},
        {"18446744073709551615", UINT64_MAX, "18446744073709551615B"},
    };
    char out[UNITS_TEXT_SIZE];
    uint64_t v;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_null(units_read_bytes(rows[i].text, &v));
        assert_int_equal(v, rows[i].bytes);
        assert_string_equal(units_write_bytes(v, out), rows[i].written);
        assert_null(units_read_bytes(out, &v));
        assert_int_equal(v, rows[i].bytes);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
        const char *written;
    } rows[] = {
        {"0", 0, "0"},           {"1300ms", 1300, "1300ms"}, {"1000ms", 1000, "1s"},
        {"4s", 4000, "4s"},      {"90s", 90000, "90s"},      {"2m", 120000, "2m"},
        {"24h", 86400000, "1d"}, {"1w", 604800000, "7d"},    {"1d", 86400000, "1d"},
    };
    char out[UNITS_TEXT_SIZE];
    uint64_t v;

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        assert_null(units_read_ms(rows[i].text, UNITS_BARE_NO, &v));
        assert_int_equal(v, rows[i].ms);
        assert_string_equal(units_write_ms(v, out), rows[i].written);
        assert_null(units_read_ms(out, UNITS_BARE_NO, &v));
        assert_int_equal(v, rows[i].ms);
    }
    assert_null(units_read_ms("30", UNITS_BARE_SECONDS, &v));
    assert_int_equal(v, 30000);
}

static void test_refused(void **state)
{
    static const char *const neither[] = {"",
                                          "x",
                                          "-1",
                                          "+1",
                                          " 1",
                                          "1 ",
                                          "1.5s",
                                          "0x10",
                                          "MiB",
                                          "s",
                                          "1sec",
                                          "1 s",
                                          "1Mib ",
                                          "1MiBs",
                                          "1 MiB",
                                          "1e3",
                                          "99999999999999999999",
                                          "18446744073709551616"};
    uint64_t v = 77;

    (void)state;
    for (size_t i = 0; i < ROWS(neither); i++) {
        assert_non_null(units_read_bytes(neither[i], &v));
        assert_non_null(units_read_ms(neither[i], UNITS_BARE_SECONDS, &v));
        assert_non_null(units_read_count(neither[i], UINT64_MAX, &v));
    }
    assert_non_null(units_read_ms("30", UNITS_BARE_NO, &v));
    assert_non_null(units_read_ms("213503982335d", UNITS_BARE_NO, &v));
    assert_non_null(units_read_bytes("16777216TiB", &v));
    assert_non_null(units_read_count("256", 255, &v));
    assert_int_equal(v, 77);
    assert_null(units_read_count("255", 255, &v));
    assert_int_equal(v, 255);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
