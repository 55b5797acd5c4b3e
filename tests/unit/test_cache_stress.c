/* test_cache_stress.c - writers, readers and an administrator at once; every answer checks
 * itself.
 *
 * The rdata of an answer repeats two octets: a version, from which the number and length of its
 * records follow, and the number of the key. A torn answer, or another key's, cannot hold
 * together. Afterwards the pages are checked. PITH_STRESS_OPS: puts of each writer (default 60
 * 000). */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/workload.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "cache/internal.h"
#include "dns/rrtype.h"

enum { HOT = 64, KEYS = 24000, WRITERS = 2, READERS = 2, NOW_S = 1000, LIFE_S = 300 };

struct shared {
    struct cache *cache;
    atomic_uint writers; /* still at work */
    atomic_uint now_s;
    atomic_ulong hits, wrong;
    uint64_t ops;
    char path[64];
};

struct worker {
    struct shared *s;
    pthread_t thread;
    uint64_t seed;
};

struct stress_key {
    uint8_t qname[24];
    size_t qname_len;
    uint16_t qtype;
    uint8_t number; /* in the rdata */
    struct ecs subnet;
    struct cache_key key;
};

/* Half of all work is on few keys, so that threads meet. */
static void draw_key(struct random *r, struct stress_key *k)
{
    static const uint16_t types[] = {RR_A, RR_AAAA, RR_TXT};
    uint32_t i = random_below(r, 2) ? random_below(r, HOT) : random_below(r, KEYS);
    memset(k, 0, sizeof *k);
    int n = snprintf((char *)k->qname + 1, sizeof k->qname - 1, "n%u", i / 3);
    k->qname[0] = (uint8_t)n;
    memcpy(k->qname + 1 + n, "\6stress\4test", 13);
    k->qname_len = (size_t)n + 14;
    k->qtype = types[i % 3];
    k->number = (uint8_t)(i * 7);
    k->key = (struct cache_key){
        .qname = k->qname, .qname_len = k->qname_len, .qtype = k->qtype, .dnssec_ok = i & 1};
    if (i % 8 == 5) {
        k->subnet =
            (struct ecs){.family = ADDR_V4, .source = 24, .ip = {10, (uint8_t)(i >> 8)}};
        k->key.subnet = &k->subnet;
    }
}

static size_t records_of(uint8_t version)
{
    return version >= 252 ? 30 : 1u + version % 4; /* 30: too large for an entry */
}

static size_t rdata_len_of(uint16_t type, uint8_t version)
{
    return type == RR_A ? 4 : type == RR_AAAA ? 16 : 64u + version / 2;
}

static void rdata_make(const struct stress_key *k, uint8_t version, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = i % 2 ? k->number : version;
    if (k->qtype == RR_TXT)
        out[0] = (uint8_t)(len - 1);
}

static size_t message_make(const struct stress_key *k, uint8_t version, uint8_t *out)
{
    size_t n = records_of(version), len = rdata_len_of(k->qtype, version);
    memset(out, 0, DNS_HEADER_SIZE);
    dns_write16(out + 2, DNS_QR | DNS_RA);
    dns_write16(out + 4, 1);
    dns_write16(out + 6, (uint16_t)n);
    uint8_t *p = out + DNS_HEADER_SIZE;
    memcpy(p, k->qname, k->qname_len);
    p += k->qname_len;
    dns_write16(p, k->qtype);
    dns_write16(p + 2, DNS_CLASS_IN);
    for (p += 4; n > 0; n--, p += 12 + len) {
        dns_write16(p, 0xc00c);
        dns_write16(p + 2, k->qtype);
        dns_write16(p + 4, DNS_CLASS_IN);
        dns_write32(p + 6, LIFE_S);
        dns_write16(p + 10, (uint16_t)len);
        rdata_make(k, version, p + 12, len);
    }
    return (size_t)(p - out);
}

/* The message is exactly one that message_make() makes, but for TTL. */
static bool message_holds(const struct stress_key *k, const uint8_t *msg, size_t len)
{
    static _Thread_local uint8_t want[8192], got[8192];
    size_t at = DNS_HEADER_SIZE + k->qname_len + 4;
    if (len < at + 12 + 4 || len > sizeof got)
        return false;
    memcpy(got, msg, len);
    uint8_t version = got[at + 12 + (k->qtype == RR_TXT ? 2 : 0)];
    if (message_make(k, version, want) != len)
        return false;
    for (size_t pos = at; pos < len; pos += 12 + rdata_len_of(k->qtype, version))
        dns_write32(got + pos + 6, LIFE_S);
    return memcmp(got, want, len) == 0;
}

static void *writer(void *arg)
{
    struct worker *w = arg;
    struct random r;
    uint8_t msg[8192];
    random_seed(&r, w->seed);
    for (uint64_t op = 0; op < w->s->ops; op++) {
        struct stress_key k;
        struct dns_reply reply;
        draw_key(&r, &k);
        size_t len = message_make(&k, (uint8_t)random_next(&r), msg);
        if (!reply_parse(&reply, msg, len))
            abort();
        struct cache_put_options o = {.now_s = atomic_load(&w->s->now_s),
                                      .life_s = LIFE_S,
                                      .ede = DNS_EDE_NONE,
                                      .scope = k.key.subnet ? 24 : 0};
        cache_put(w->s->cache, &k.key, &reply, &o);
        if (op % 4096 == 0)
            atomic_fetch_add(&w->s->now_s, 1);
    }
    atomic_fetch_sub(&w->s->writers, 1);
    return NULL;
}

static void *reader(void *arg)
{
    struct worker *w = arg;
    struct random r;
    static _Thread_local uint8_t out[DNS_MESSAGE_MAX];
    random_seed(&r, w->seed);
    while (atomic_load(&w->s->writers) > 0) {
        struct stress_key k;
        struct cache_answer a;
        draw_key(&r, &k);
        struct cache_get_options o = {
            .now_s = atomic_load(&w->s->now_s), .stale_max_s = 86400, .prefetch = true};
        if (cache_get(w->s->cache, &k.key, &o, out, sizeof out, &a) == CACHE_MISS)
            continue;
        atomic_fetch_add_explicit(&w->s->hits, 1, memory_order_relaxed);
        if (!message_holds(&k, out, a.len))
            atomic_fetch_add(&w->s->wrong, 1);
        if (a.refresh)
            cache_refresh_failed(w->s->cache, &k.key, o.now_s);
    }
    return NULL;
}

static bool each_walked(void *arg, const struct cache_entry_info *info)
{
    size_t *n = arg;
    *n += info->qname_len > 0;
    return true;
}

static void *administrator(void *arg)
{
    struct worker *w = arg;
    struct random r;
    random_seed(&r, w->seed);
    for (unsigned round = 0; atomic_load(&w->s->writers) > 0; round++) {
        struct stress_key k;
        struct cache_stats stats;
        uint32_t now_s = atomic_load(&w->s->now_s);
        size_t n = 0;
        draw_key(&r, &k);
        switch (round % 64) {
        case 7:
            cache_walk(w->s->cache, now_s, each_walked, &n);
            break;
        case 21:
            cache_save(w->s->cache, w->s->path, now_s, 1000000);
            break;
        case 33:
            cache_resize(w->s->cache, (1u << 20) * (1 + random_below(&r, 2)), now_s);
            break;
        case 50:
            cache_restore(w->s->cache, w->s->path, now_s, 1000000);
            break;
        case 55:
            cache_forget_failures(w->s->cache);
            break;
        case 63:
            if (random_below(&r, 16) == 0)
                cache_flush_all(w->s->cache);
            else
                cache_flush_suffix(w->s->cache, k.qname, k.qname_len);
            break;
        default:
            if (round % 2)
                cache_flush_name(w->s->cache, k.qname, k.qname_len);
            else
                cache_remove(w->s->cache, &k.key);
            cache_stats(w->s->cache, &stats);
        }
    }
    return NULL;
}

static void test_stress(void **state)
{
    (void)state;
    enum { WORKERS = WRITERS + READERS + 1 };
    const char *ops = getenv("PITH_STRESS_OPS");
    struct shared s = {.cache = cache_create(1 << 20),
                       .writers = WRITERS,
                       .now_s = NOW_S,
                       .ops = ops != NULL && *ops != 0 ? strtoull(ops, NULL, 0) : 60000};
    struct worker workers[WORKERS];
    assert_non_null(s.cache);
    snprintf(s.path, sizeof s.path, "cache-stress-%ld.snapshot", (long)getpid());
    for (size_t k = 0; k < WORKERS; k++) {
        workers[k] = (struct worker){.s = &s, .seed = k + 1};
        assert_int_equal(pthread_create(&workers[k].thread, NULL,
                                        k < WRITERS             ? writer
                                        : k < WRITERS + READERS ? reader
                                                                : administrator,
                                        &workers[k]),
                         0);
    }
    for (size_t k = 0; k < WORKERS; k++)
        pthread_join(workers[k].thread, NULL);
    unlink(s.path);
    char why[200] = "";
    bool sound = cache_check(s.cache, s.cache->clock_s, why, sizeof why);
    cache_destroy(s.cache);
    print_message("%lu hits\n", atomic_load(&s.hits));
    if (!sound)
        fail_msg("%s", why);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_true(atomic_load(&s.hits) > s.ops / 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
