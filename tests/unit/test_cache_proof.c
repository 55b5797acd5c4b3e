/* test_cache_proof.c - the cache's promises that take many entries to see: what a flood of
 * chosen names does, memory that stays flat, losses, hit rates, skips of the clock. Seeds are
 * fixed; the hash key is random, so bounds leave room for chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/batch.h"
#include "bench/trace.h"
#include "cache/key.h"
#include "dns/rrtype.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { NOW_S = 1000 };

static void put_range(struct cache *c, struct batch *b, const struct workload *w, uint64_t from,
                      uint64_t to, uint64_t *raw)
{
    for (uint64_t i = from; i < to;) {
        batch_clear(b);
        while (i < to && batch_add(b, w, i))
            i++;
        batch_put(b, &engine_cache, c, NOW_S);
        if (raw != NULL)
            *raw += b->raw;
    }
}

static size_t count_range(struct cache *c, struct batch *b, const struct workload *w,
                          uint64_t from, uint64_t to)
{
    static uint8_t out[DNS_MESSAGE_MAX];
    size_t hits = 0;
    for (uint64_t i = from; i < to;) {
        batch_clear(b);
        while (i < to && batch_add_key(b, w, i))
            i++;
        batch_get(b, &engine_cache, c, NOW_S + 1, out, &hits);
    }
    return hits;
}

/* ---- flood */

enum { FLOOD = 3000 };

/* Who chooses names so that they fall into one page under a key of his own, or under none,
 * gains nothing: 3000 entries of about 40 octets would need 30 pages where there is one. */
static void test_flood(void **state)
{
    (void)state;
    static const struct hash_key keys[] = {{0, 0}, {1, 0}, {UINT64_MAX, UINT64_MAX}};
    struct workload w = {.mix = WORKLOAD_LONE_A, .seed = 11};
    struct cache *c = cache_create(4 << 20);
    struct batch *b = batch_create();
    assert_non_null(c);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        static uint64_t chosen[FLOOD];
        struct cache_hash hash;
        size_t n = 0;
        cache_hash_init(&hash, &keys[k]);
        for (uint64_t i = k << 32; n < FLOOD; i++) {
            struct workload_key key;
            static struct cache_name name;
            workload_key(&w, i, &key);
            assert_true(cache_key_from_name(&name, &hash, key.qname, key.qname_len));
            if (name.hash >> 56 == 0) /* the first of 256 parts, and the same second page */
                chosen[n++] = i;
        }
        for (size_t i = 0; i < FLOOD; i++)
            put_range(c, b, &w, chosen[i], chosen[i] + 1, NULL);
        size_t found = 0;
        for (size_t i = 0; i < FLOOD; i++)
            found += count_range(c, b, &w, chosen[i], chosen[i] + 1);
        assert_int_equal(found, FLOOD);
    }
    batch_destroy(b);
    cache_destroy(c);
}

/* ---- memory */

/* Code counts as resident once it has run. */
static void warm_up(struct batch *b)
{
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    for (int mix = 0; mix < WORKLOAD_MIXES; mix++) {
        struct workload w = {.mix = (enum workload_mix)mix, .seed = 12};
        put_range(c, b, &w, 0, 200, NULL);
        count_range(c, b, &w, 0, 200);
    }
    measure_resident();
    cache_destroy(c);
}

/* A hundred turnovers, with entries that grow and shrink from one to the next: a heap would
 * fragment. */
static void test_memory_flat(void **state)
{
    (void)state;
    enum { CAP = 2 << 20, TURNOVERS = 100 };
    static const enum workload_mix drift[] = {WORKLOAD_LONE_A, WORKLOAD_W, WORKLOAD_NEGATIVE,
                                              WORKLOAD_LARGE, WORKLOAD_NAMES};
    static const uint64_t entries[] = {60000, 18000, 16000, 400, 40000};
    struct batch *b = batch_create();
    uint64_t next = 0;
    warm_up(b);
    size_t before = measure_resident(), low = SIZE_MAX, high = 0;
    struct cache *c = cache_create(CAP);
    for (size_t k = 0; k < TURNOVERS; k++) {
        size_t kind = k % 5;
        struct workload w = {.mix = drift[kind], .seed = 12};
        uint64_t n = SANITIZED ? entries[kind] / 20 : entries[kind];
        put_range(c, b, &w, next, next + n, NULL);
        next += n;
        if (k < 5)
            continue; /* every page has been touched by then */
        size_t resident = measure_resident() - before;
        low = resident < low ? resident : low;
        high = resident > high ? resident : high;
    }
    print_message("resident %zu..%zu of %d\n", low, high, (int)CAP);
    if (!SANITIZED) {
        assert_true(high <= CAP + CAP / 100);
        assert_true(high - low <= CAP / 100);
    }
    batch_destroy(b);
    cache_destroy(c);
}

/* ---- size and loss */

struct density {
    enum workload_mix mix;
    uint64_t entries;
    double cap_ratio; /* cache bytes, in raw octets */
    double loss_max;
    double ratio_max; /* resident octets, in raw octets, while filling */
};

/* What was reached, and a little room. */
static const struct density densities[] = {
    {WORKLOAD_W, 60000, 1.2, 0.0015, 1.145},
    {WORKLOAD_W_REALISTIC, 60000, 1.19, 0.0015, 1.135},
    {WORKLOAD_NAMES, 90000, 0.98, 0.0015, 0.93},
    {WORKLOAD_NEGATIVE, 60000, 1.03, 0.0015, 0.98},
    {WORKLOAD_ECS, 160000, 1.1, 0.0015, 1.05},
};

static void test_density(void **state)
{
    (void)state;
    struct batch *b = batch_create();
    warm_up(b);
    for (size_t k = 0; k < sizeof densities / sizeof *densities; k++) {
        const struct density *d = &densities[k];
        struct workload w = {.mix = d->mix, .seed = 13};
        uint64_t raw = 0;
        for (uint64_t i = 0; i < d->entries; i++) {
            batch_clear(b);
            batch_add(b, &w, i);
            raw += b->raw;
        }
        size_t before = measure_resident();
        struct cache *c = cache_create((size_t)((double)raw * d->cap_ratio));
        assert_non_null(c);
        put_range(c, b, &w, 0, d->entries, NULL);
        double resident = (double)(measure_resident() - before);
        double found = (double)count_range(c, b, &w, 0, d->entries);
        double loss = 1 - found / (double)d->entries;
        double ratio = resident / ((double)raw * (1 - loss));
        print_message("%s: loss %.5f, resident %.4f times raw\n", workload_mix_to_text(d->mix),
                      loss, ratio);
        assert_true(loss <= d->loss_max);
        assert_true(SANITIZED || ratio <= d->ratio_max);
        cache_destroy(c);
    }
    batch_destroy(b);
}

/* ---- hit rates */

static void test_hit_rate(void **state)
{
    (void)state;
    static const struct {
        double percent, one_hit, of_s3fifo, of_lru;
    } rows[] = {
        {5, 0.2, 0.96, 1.12},
        {5, 0, 0.96, 1.03},
        {25, 0, 0.965, 1},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        struct trace_options o = {.names = 200000,
                                  .requests = SANITIZED ? 300000 : 900000,
                                  .alpha = 0.9,
                                  .one_hit = rows[k].one_hit,
                                  .rate = 1000,
                                  .seed = 14};
        struct trace *t = trace_create(&o);
        uint64_t entries;
        size_t bytes = (size_t)(o.names * rows[k].percent / 100 * 123);
        double ours = (double)policy_cache(t, WORKLOAD_W, bytes, &entries);
        double s3fifo = (double)policy_s3fifo(t, (uint32_t)entries, 1);
        double lru = (double)policy_lru(t, (uint32_t)entries);
        double optimum = (double)policy_optimum(t, (uint32_t)entries);
        print_message("%.0f %%, one-hit %.1f, %u entries: %.4f of S3-FIFO, %.4f of LRU, "
                      "%.4f of the optimum\n",
                      rows[k].percent, rows[k].one_hit, (unsigned)entries, ours / s3fifo,
                      ours / lru, ours / optimum);
        assert_true(ours >= rows[k].of_s3fifo * s3fifo);
        assert_true(ours >= rows[k].of_lru * lru);
        assert_true(ours <=
                    optimum * 1.001); /* better than the optimum: answers past their time */
        trace_destroy(t);
    }
}

/* ---- skips of the clock */

/* What was put before a skip is never fresh after it, and stale only while it may be; what is
 * put after it is there. */
static void test_clock_skips(void **state)
{
    (void)state;
    static const uint32_t skips[] = {
        86400,    365 * 86400, (1u << 22) - 1,  1u << 22, (1u << 22) + 1, (1u << 22) + 290,
        1u << 23, 3u << 22,    (1u << 24) + 60, 1u << 30};
    enum { N = 400, STALE_S = 20 * 86400 };
    static uint8_t out[DNS_MESSAGE_MAX];
    struct batch *b = batch_create();
    for (size_t k = 0; k < sizeof skips / sizeof *skips; k++) {
        struct cache *c = cache_create(1 << 20);
        struct workload w = {.mix = WORKLOAD_W, .seed = k, .ttl_s = 300};
        put_range(c, b, &w, 0, N, NULL);
        uint32_t now_s = NOW_S + skips[k];
        for (uint64_t i = 0; i < N; i++) {
            struct cache_answer a;
            struct cache_get_options o = {
                .now_s = now_s, .stale_max_s = STALE_S, .stale_ttl_s = 30};
            batch_clear(b);
            batch_add(b, &w, i);
            enum cache_outcome outcome = cache_get(c, &b->key[0], &o, out, sizeof out, &a);
            bool may = skips[k] - 300 <= STALE_S;
            if (outcome != (may ? CACHE_EXPIRED : CACHE_MISS))
                fail_msg("skip of %u s, entry %d: outcome %d", skips[k], (int)i, outcome);
            if (may)
                assert_int_equal(a.expired_s, skips[k] - 300);
            struct cache_put_options put = {.now_s = now_s, .life_s = 300, .ede = DNS_EDE_NONE};
            if (i % 2 == 0) {
                assert_int_equal(cache_put(c, &b->key[0], &b->reply[0], &put), ERR_OK);
                assert_int_equal(cache_get(c, &b->key[0], &o, out, sizeof out, &a), CACHE_HIT);
                assert_int_equal(a.ttl_s, 300);
            }
        }
        cache_destroy(c);
    }
    batch_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flood),       cmocka_unit_test(test_memory_flat),
        cmocka_unit_test(test_density),     cmocka_unit_test(test_hit_rate),
        cmocka_unit_test(test_clock_skips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
