/* test_cache_life.c - what an answer is at every moment of its life: fresh, to be refreshed,
 * stale, gone; and failures. */
#include "cache_help.h"
#include "unit/made.h"
#include "unit/plain.h"

enum { NOW = 5000 };

static const struct cache_put_options usual = {
    .now_s = NOW, .life_s = 100, .ede = DNS_EDE_NONE, .stale_max_s = 1000};

static void test_ages(void **state)
{
    (void)state;
    static const struct {
        uint32_t age_s, stale_max_s;
        enum cache_outcome outcome;
        uint32_t ttl_s, expired_s, max_age_s;
    } rows[] = {
        {0, 0, CACHE_HIT, 100, 0, 100},      {99, 0, CACHE_HIT, 1, 0, 1},
        {100, 0, CACHE_MISS, 0, 0, 0},       {100, 1000, CACHE_EXPIRED, 0, 0, 30},
        {150, 50, CACHE_EXPIRED, 0, 50, 30}, {151, 50, CACHE_MISS, 0, 0, 0},
    };
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct asked a;
    put_a(c, ask(&a, "age.example", RR_A), 1, 100, &usual);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enum cache_outcome outcome;
        struct cache_answer answer;
        uint8_t got =
            get_a(c, &a.key, NOW + rows[i].age_s, rows[i].stale_max_s, &outcome, &answer);
        assert_int_equal(outcome, rows[i].outcome);
        if (outcome == CACHE_MISS)
            continue;
        assert_int_equal(got, 1);
        assert_int_equal(answer.ttl_s, rows[i].ttl_s);
        assert_int_equal(answer.expired_s, rows[i].expired_s);
        assert_int_equal(answer.max_age_s, rows[i].max_age_s);
    }
    cache_destroy(c);
}

/* One of those who ask in the last tenth, if it was asked for before, and again after a while.
 */
static void test_prefetch(void **state)
{
    (void)state;
    static const struct {
        uint32_t age_s;
        bool refresh;
    } rows[] = {{80, false}, {89, false}, {90, true}, {91, false}, {97, false}, {98, true}};
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_answer answer;
    enum cache_outcome outcome;
    struct asked a;
    put_a(c, ask(&a, "refresh.example", RR_A), 1, 100, &usual);
    get_a(c, &a.key, NOW + 95, 0, &outcome, &answer);
    assert_false(answer.refresh); /* the first to ask */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        get_a(c, &a.key, NOW + rows[i].age_s, 0, &outcome, &answer);
        assert_int_equal(outcome, CACHE_HIT);
        assert_int_equal(answer.refresh, rows[i].refresh);
    }
    /* a put ends the claim */
    struct cache_put_options later = usual;
    later.now_s = NOW + 99;
    put_a(c, &a.key, 2, 100, &later);
    assert_int_equal(get_a(c, &a.key, NOW + 190, 0, &outcome, &answer), 2);
    assert_true(answer.refresh);
    cache_destroy(c);
}

static void test_refresh_of_stale(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_answer answer;
    enum cache_outcome outcome;
    struct asked a;
    put_a(c, ask(&a, "stale.example", RR_A), 1, 100, &usual);
    get_a(c, &a.key, NOW + 110, 500, &outcome, &answer);
    assert_true(answer.refresh);
    get_a(c, &a.key, NOW + 110, 500, &outcome, &answer);
    assert_false(answer.refresh);
    cache_refresh_failed(c, &a.key, NOW + 115);
    get_a(c, &a.key, NOW + 115 + CACHE_REFRESH_S - 1, 500, &outcome, &answer);
    assert_false(answer.refresh);
    get_a(c, &a.key, NOW + 115 + CACHE_REFRESH_S, 500, &outcome, &answer);
    assert_true(answer.refresh);
    cache_destroy(c);
}

static void test_failures(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_answer answer;
    enum cache_outcome outcome;
    struct cache_put_options o = usual;
    struct asked a;
    o.ede = 22;
    o.ede_text = "no upstream";
    ask(&a, "failure.example", RR_A);
    assert_int_equal(put_failure(c, &a.key, o), ERR_OK);
    get_a(c, &a.key, NOW, 0, &outcome, &answer);
    assert_int_equal(outcome, CACHE_HIT);
    assert_true(answer.failure);
    assert_int_equal(answer.rcode, DNS_RCODE_SERVFAIL);
    assert_int_equal(answer.ede, 22);
    assert_string_equal(answer.ede_text, "no upstream");
    get_a(c, &a.key, NOW + 100, 1000, &outcome, &answer);
    assert_int_equal(outcome, CACHE_MISS); /* never stale */

    cache_forget_failures(c);
    get_a(c, &a.key, NOW, 0, &outcome, &answer);
    assert_int_equal(outcome, CACHE_MISS);

    /* an answer replaces a failure, but not the other way while it may be given */
    put_failure(c, &a.key, o);
    put_a(c, &a.key, 3, 100, &usual);
    put_failure(c, &a.key, o);
    assert_int_equal(get_a(c, &a.key, NOW, 0, &outcome, &answer), 3);
    o.now_s = NOW + 1099;
    put_failure(c, &a.key, o);
    assert_int_equal(get_a(c, &a.key, NOW + 1099, 1000, &outcome, &answer), 3);
    o.now_s = NOW + 1100;
    put_failure(c, &a.key, o);
    get_a(c, &a.key, NOW + 1100, 1000, &outcome, &answer);
    assert_true(outcome == CACHE_HIT && answer.failure);
    assert_sound(c);
    cache_destroy(c);
}

/* Every shape that upstreams send comes out as it went in, TTLs aged. */
static void test_shapes(void **state)
{
    (void)state;
    static uint8_t msg[MADE_MAX], out[DNS_MESSAGE_MAX];
    struct cache *c = cache_create(4 << 20);
    struct random r;
    unsigned compared = 0;
    random_seed(&r, 8);
    for (int i = 0; i < 4000; i++) {
        static const uint16_t types[] = {RR_A, RR_AAAA, RR_TXT, RR_MX, RR_HTTPS, 65280, 0};
        struct plain_message put, got;
        struct dns_reply reply;
        struct cache_answer answer;
        uint8_t qname[DNS_NAME_MAX];
        struct cache_key key = {.qname = qname, .qtype = types[random_below(&r, 7)]};
        key.qname_len = made_name(&r, qname, 100);
        size_t len = made_reply(&r, (enum made_shape)random_below(&r, MADE_SHAPES), qname,
                                key.qname_len, key.qtype, msg);
        assert_true(reply_parse(&reply, msg, len));
        struct cache_put_options o = usual;
        o.life_s = 1 + random_below(&r, 400);
        o.authentic = random_below(&r, 2);
        uint32_t age = random_below(&r, o.life_s);
        const struct cache_get_options g = {.now_s = NOW + age};
        if (cache_put(c, &key, &reply, &o) != ERR_OK)
            continue;
        assert_int_equal(cache_get(c, &key, &g, out, sizeof out, &answer), CACHE_HIT);
        assert_int_equal(answer.ttl_s, o.life_s - age);
        assert_int_equal(answer.rcode, reply.rcode);
        assert_int_equal(answer.authentic, o.authentic);
        assert_true(plain_parse(&put, msg, len));
        assert_true(plain_parse(&got, out, answer.len));
        assert_null(plain_difference(&put, &got, PLAIN_AGED(age)));
        plain_free(&put);
        plain_free(&got);
        compared++;
        /* one octet too few is a miss, not a cut answer */
        assert_int_equal(cache_get(c, &key, &g, out, answer.len - 1, &answer), CACHE_MISS);
    }
    assert_true(compared > 3500);
    assert_sound(c);
    cache_destroy(c);
}

/* A life in 10 bits is at most 1/64 too long, and short ones are exact. */
static void test_life_in_answer(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct asked a;
    ask(&a, "life.example", RR_A);
    for (uint32_t life = 1; life < 2000000; life += 1 + life / 9) {
        struct cache_put_options o = usual;
        struct cache_answer answer;
        enum cache_outcome outcome;
        o.life_s = life;
        put_a(c, &a.key, 1, life, &o);
        get_a(c, &a.key, NOW, 0, &outcome, &answer);
        assert_int_equal(answer.ttl_s, life);
        assert_in_range(answer.life_s, life, life + life / 64);
    }
    cache_destroy(c);
}

static void test_types_of_a_name(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    struct cache_stats stats;
    struct asked a;
    for (uint16_t type = 1; type < 300; type++) {
        ask(&a, "Many.Types.example", type);
        a.key.dnssec_ok = type & 1;
        a.key.checking_disabled = type & 2;
        if (type != RR_OPT && (type < 249 || type > 255))
            assert_int_equal(put_a(c, &a.key, (uint8_t)type, 100, &usual), ERR_OK);
    }
    assert_sound(c);
    for (uint16_t type = 1; type < 300; type++) {
        struct cache_answer answer;
        enum cache_outcome outcome;
        ask(&a, "mANY.tYPES.EXAMPLE", type);
        a.key.dnssec_ok = type & 1;
        a.key.checking_disabled = type & 2;
        if (type != RR_OPT && (type < 249 || type > 255))
            assert_int_equal(get_a(c, &a.key, NOW, 0, &outcome, &answer), (uint8_t)type);
        a.key.dnssec_ok = !a.key.dnssec_ok;
        get_a(c, &a.key, NOW, 0, &outcome, &answer);
        assert_int_equal(outcome, CACHE_MISS);
    }
    cache_stats(c, &stats);
    assert_int_equal(stats.entries, 299 - 1 - 7);
    cache_destroy(c);
}

/* A large cache is swept as fast as a small one: nothing that lives is ever forgotten because
 * sweeping fell behind. */
enum { KNOWN = 40 };

/* Whether the next lookup of a name goes by a hint. */
static bool is_hinted(const struct cache *c, const struct cache_key *key)
{
    uint64_t hash = cache_key_hash(&c->arena->hash, key->qname, key->qname_len);
    return cache_hint_get(cache_hints_of(&c->arena->hints, hash), hash) != 0;
}

/* Names that are asked for all the time, while what lies around them comes, goes and changes:
 * all of them in the few pages of a small cache. */
static void test_known_names(void **state)
{
    (void)state;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    static struct asked known[KNOWN], aside;
    unsigned hinted = 0;
    for (unsigned i = 0; i < KNOWN; i++) {
        char name[32];
        snprintf(name, sizeof name, "known-%u.example", i);
        put_a(c, ask(&known[i], name, RR_A), (uint8_t)(i + 1), 100, &usual);
    }
    for (unsigned round = 0; round < 60; round++) {
        struct cache_answer answer;
        enum cache_outcome outcome;
        char name[40];
        snprintf(name, sizeof name, "aside-%u.%s.example", round, round % 2 ? "x" : "longer");
        put_a(c, ask(&aside, name, RR_A), 99, 100, &usual);
        for (unsigned i = 0; i < KNOWN; i++) {
            uint8_t want = (uint8_t)(i + 1 + (round >= 20 && i % 3 == 0 ? 100 : 0));
            hinted += is_hinted(c, &known[i].key);
            assert_int_equal(get_a(c, &known[i].key, NOW, 0, &outcome, &answer), want);
        }
        assert_sound(c);
        if (round >= 30)
            cache_flush_name(c, aside.qname, aside.key.qname_len);
        for (unsigned i = 0; round == 19 && i < KNOWN; i += 3)
            put_a(c, &known[i].key, (uint8_t)(i + 101), 100, &usual);
    }
    assert_true(hinted > KNOWN * 60 / 6);
    cache_flush_all(c);
    for (unsigned i = 0; i < KNOWN; i++) {
        struct cache_answer answer;
        enum cache_outcome outcome;
        assert_int_equal(get_a(c, &known[i].key, NOW, 0, &outcome, &answer), 0);
    }
    cache_destroy(c);
}

static void test_large_is_swept(void **state)
{
    (void)state;
    enum { DAY = 86400, LONG = 20 * DAY, STEP = 128 };
    struct cache *c = cache_create((size_t)2 << 30); /* addresses, hardly any memory */
    const struct cache_put_options o = {
        .now_s = NOW, .life_s = LONG, .ede = DNS_EDE_NONE, .stale_max_s = 23 * DAY};
    enum cache_outcome outcome;
    struct cache_answer answer;
    struct asked a;
    if (c == NULL)
        skip();
    put_a(c, ask(&a, "long.example", RR_A), 1, LONG, &o);
    for (uint32_t age_s = 0; age_s < 2 * DAY; age_s += STEP) {
        for (int i = 0; i < 40; i++)
            get_a(c, &a.key, NOW + age_s, 0, &outcome, &answer);
        assert_int_equal(outcome, CACHE_HIT);
    }
    cache_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ages),
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_refresh_of_stale),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_life_in_answer),
        cmocka_unit_test(test_types_of_a_name),
        cmocka_unit_test(test_known_names),
        cmocka_unit_test(test_large_is_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
