/* test_cache_ecs.c - which answers serve which subnets (RFC 7871 7.3.1). */
#include "cache_help.h"

enum { NOW = 5000 };

/* What is put, in this order; the last octet of its address is its number in the table + 1. */
static const struct {
    const char *address; /* NULL: without a subnet */
    uint8_t source, scope;
} put_rows[] = {
    {"198.51.100.0", 24, 24}, /* 1: as asked */
    {"198.51.0.0", 24, 16},   /* 2: for more than asked */
    {"203.0.113.0", 24, 32},  /* 3: for less than asked */
    {"2001:db8:1::", 56, 48}, /* 4 */
    {NULL, 0, 0},             /* 5 */
};

static const struct {
    const char *address;
    uint8_t source, wants, scope;
} get_rows[] = {
    {"198.51.100.0", 24, 1, 24},
    {"198.51.100.77", 32, 1, 24}, /* the longest that covers */
    {"198.51.101.0", 24, 2, 16},
    {"198.51.100.0", 23, 2, 16}, /* /24 is too long for /23 */
    {"198.50.0.0", 24, 5, 0},
    {"203.0.113.0", 24, 3, 32}, /* the same source only */
    {"203.0.113.9", 32, 5, 0},
    {"2001:db8:1:ff::", 64, 4, 48},
    {"2001:db8:2::", 56, 5, 0},
    {"0.0.0.0", 0, 5, 0},
    {NULL, 0, 5, 0},
};

static void put_all(struct cache *c, const char *name)
{
    struct asked a;
    for (size_t i = 0; i < sizeof put_rows / sizeof *put_rows; i++) {
        struct cache_put_options o = {
            .now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE, .scope = put_rows[i].scope};
        if (put_rows[i].address != NULL)
            ask_from(&a, name, RR_A, put_rows[i].address, put_rows[i].source);
        else
            ask(&a, name, RR_A);
        assert_int_equal(put_a(c, &a.key, (uint8_t)(i + 1), 100, &o), ERR_OK);
    }
}

static uint8_t get_from(struct cache *c, const char *name, const char *address, uint8_t source,
                        struct cache_answer *answer)
{
    struct asked a;
    enum cache_outcome outcome;
    if (address != NULL)
        ask_from(&a, name, RR_A, address, source);
    else
        ask(&a, name, RR_A);
    return get_a(c, &a.key, NOW + 1, 0, &outcome, answer);
}

static void check_all(struct cache *c, const char *name)
{
    for (size_t i = 0; i < sizeof get_rows / sizeof *get_rows; i++) {
        struct cache_answer answer;
        assert_int_equal(get_from(c, name, get_rows[i].address, get_rows[i].source, &answer),
                         get_rows[i].wants);
        assert_int_equal(answer.scope, get_rows[i].scope);
        assert_int_equal(answer.scoped, get_rows[i].scope > 0);
    }
}

static void test_longest_match(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    put_all(c, "subnets.example");
    check_all(c, "subnets.example");
    assert_int_equal(cache_resize(c, 2 * CACHE_MIN_BYTES, NOW), ERR_OK);
    check_all(c, "subnets.example");
    assert_sound(c);
    cache_destroy(c);
}

/* Scope 0 with a subnet is for everyone but who opted out; source 0 is for those alone. */
static void test_scope_zero(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    const struct cache_put_options o = {.now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE};
    struct cache_answer answer;
    struct asked a;
    put_a(c, ask_from(&a, "all.example", RR_A, "192.0.2.0", 24), 1, 100, &o);
    assert_int_equal(get_from(c, "all.example", "198.51.100.0", 24, &answer), 1);
    assert_true(answer.had_subnet && !answer.scoped);
    assert_int_equal(get_from(c, "all.example", NULL, 0, &answer), 1);
    assert_int_equal(get_from(c, "all.example", "0.0.0.0", 0, &answer), 0);

    put_a(c, ask_from(&a, "none.example", RR_A, "0.0.0.0", 0), 2, 100, &o);
    assert_int_equal(get_from(c, "none.example", "0.0.0.0", 0, &answer), 2);
    assert_int_equal(get_from(c, "none.example", "::", 0, &answer), 2);
    assert_int_equal(get_from(c, "none.example", NULL, 0, &answer), 0);
    assert_int_equal(get_from(c, "none.example", "192.0.2.0", 24, &answer), 0);
    cache_destroy(c);
}

/* A name whose answers were flushed does not find them again under a new head. */
static void test_flush(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_answer answer;
    struct asked a;
    const struct cache_put_options o = {
        .now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE, .scope = 16};
    put_all(c, "flushed.example");
    cache_flush_name(c, a.qname, ask(&a, "FLUSHED.example", RR_A)->qname_len);
    for (size_t i = 0; i < sizeof get_rows / sizeof *get_rows; i++)
        assert_int_equal(
            get_from(c, "flushed.example", get_rows[i].address, get_rows[i].source, &answer),
            0);
    put_a(c, ask_from(&a, "flushed.example", RR_A, "198.51.0.0", 24), 9, 100, &o);
    assert_int_equal(get_from(c, "flushed.example", "198.51.100.0", 24, &answer), 9);
    assert_sound(c);
    cache_destroy(c);
}

static void test_too_many(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_stats stats;
    struct asked a;
    unsigned refused = 0;
    for (uint8_t scope = 8; scope <= 24; scope++) {
        const struct cache_put_options o = {
            .now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE, .scope = scope};
        ask_from(&a, "many.example", RR_A, "192.0.2.0", 24);
        refused += put_a(c, &a.key, scope, 100, &o) == ERR_LIMIT;
    }
    cache_stats(c, &stats);
    assert_int_equal(refused, 17 - 8);
    assert_int_equal(stats.subnets_capped, refused);
    cache_destroy(c);
}

/* A lone A record for a subnet costs little: 34 octets at most, all in. */
static void test_size(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_stats before, after;
    struct asked a;
    put_all(c, "size.example");
    cache_stats(c, &before);
    for (unsigned i = 0; i < 200; i++) {
        char address[32];
        const struct cache_put_options o = {
            .now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE, .scope = 24};
        snprintf(address, sizeof address, "10.0.%u.0", i);
        put_a(c, ask_from(&a, "size.example", RR_A, address, 24), 1, 100, &o);
    }
    cache_stats(c, &after);
    assert_int_equal(after.entries - before.entries, 200);
    assert_true((after.bytes_used - before.bytes_used) / 200 <= 32);
    cache_destroy(c);
}

/* A failure for the same prefix, of whatever scope, leaves a good answer where it is. */
static void test_failure_of_another_scope(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_put_options o = {
        .now_s = NOW, .life_s = 100, .stale_max_s = 1000, .ede = DNS_EDE_NONE, .scope = 32};
    struct cache_answer answer;
    struct asked a;
    ask_from(&a, "scopes.example", RR_A, "203.0.113.0", 24);
    assert_int_equal(put_a(c, &a.key, 1, 100, &o), ERR_OK);
    o.scope = 24;
    put_failure(c, &a.key, o);
    assert_int_equal(get_from(c, "scopes.example", "203.0.113.0", 24, &answer), 1);
    assert_int_equal(answer.scope, 32);
    cache_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_match), cmocka_unit_test(test_scope_zero),
        cmocka_unit_test(test_flush),         cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_size),          cmocka_unit_test(test_failure_of_another_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
