/* test_cache_model.c - the cache against a dictionary, at random.
 *
 * PITH_MODEL_OPS sets the number of operations of each regime (default 60 000), PITH_MODEL_SEED
 * the seed, which is printed. A failure prints the operation's number: the same seed and a
 * smaller number of operations end right before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/check.h"
#include "cache_model.h"
#include "dns/rrtype.h"
#include "made.h"

struct regime {
    const char *name;
    size_t bytes;
    size_t names;
    unsigned subnet_percent; /* of keys */
    unsigned put_percent;
    unsigned check_every; /* operations, from the 2000th on */
};

struct run {
    const struct regime *regime;
    struct model model;
    struct cache *cache;
    struct random r;
    uint32_t now_s;
    uint64_t op, seed;
    unsigned days, years, wraps; /* jumps of the clock that were made */
    uint64_t hits, stale, misses, puts, refused;
    char path[64];
    uint8_t msg[MADE_MAX + 64], out[DNS_MESSAGE_MAX];
    uint8_t asked[DNS_NAME_MAX]; /* the qname, in another case */
    struct ecs subnet;
};

enum { STALE_MAX_S = 8 * 86400 };
enum { TYPES = 4, FLAGS = 4, KEYS_A_NAME = TYPES * FLAGS };

static uint64_t environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoull(text, NULL, 0) : otherwise;
}

static bool chance(struct run *x, uint32_t percent)
{
    return random_below(&x->r, 100) < percent;
}

static bool rare(struct run *x, uint32_t one_in)
{
    return random_below(&x->r, one_in) == 0;
}

static void stop(const struct run *x, const char *what)
{
    unlink(x->path);
    fail_msg("%s: seed %llu, operation %llu, now %u: %s", x->regime->name,
             (unsigned long long)x->seed, (unsigned long long)x->op, x->now_s, what);
}

/* ---- keys */

/* The root; then names with a first label of their own, many below the one before. */
static size_t make_qname(struct run *x, size_t number, uint8_t *name, size_t len)
{
    uint8_t front[DNS_NAME_MAX];
    size_t n = made_name(&x->r, front + 5, rare(x, 10) ? DNS_NAME_MAX - 5 : 30) + 4;
    front[0] = 4;
    for (size_t i = 1; i < 5; i++, number /= 26)
        front[i] = (uint8_t)('a' + number % 26);
    if (n + len > DNS_NAME_MAX || chance(x, 60)) {
        name[0] = 0;
        len = 1;
    }
    memmove(name + n, name, len);
    memcpy(name, front, n);
    return n + len;
}

static void make_keys(struct run *x)
{
    static const uint16_t types[TYPES] = {RR_A, RR_AAAA, RR_TXT, RR_HTTPS};
    struct model *m = &x->model;
    m->n_keys = x->regime->names * KEYS_A_NAME;
    m->keys = calloc(m->n_keys, sizeof *m->keys);
    if (m->keys == NULL)
        abort();
    uint8_t name[DNS_NAME_MAX] = {0};
    size_t len = 1;
    for (size_t k = 0; k < m->n_keys; k++) {
        if (k > 0 && k % KEYS_A_NAME == 0)
            len = make_qname(x, k / KEYS_A_NAME, name, len);
        struct model_key *key = &m->keys[k];
        memcpy(key->qname, name, len);
        key->qname_len = len;
        key->qtype = types[k % TYPES];
        key->dnssec_ok = k / TYPES & 1;
        key->checking_disabled = k / TYPES & 2;
    }
}

static struct model_key *draw_key(struct run *x)
{
    /* A few names are asked for often. */
    size_t name = random_below(&x->r, (uint32_t)x->regime->names);
    if (chance(x, 50))
        name = name * name / x->regime->names;
    size_t flags = chance(x, 70) ? 0 : random_below(&x->r, FLAGS);
    return &x->model.keys[name * KEYS_A_NAME + flags * TYPES + random_below(&x->r, TYPES)];
}

static bool same_question(const struct model_key *a, const struct model_key *b)
{
    return a->qtype == b->qtype && a->dnssec_ok == b->dnssec_ok &&
           a->checking_disabled == b->checking_disabled &&
           plain_name_equal(a->qname, a->qname_len, b->qname, b->qname_len);
}

static const uint8_t *other_case(struct run *x, const struct model_key *k)
{
    uint64_t flips = random_next(&x->r);
    for (size_t i = 0; i < k->qname_len; i++) {
        uint8_t c = k->qname[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        x->asked[i] = letter && flips >> (i % 64) & 1 ? c ^ 0x20 : c;
    }
    return x->asked;
}

/* Prefixes of a few addresses that share their first bits. */
static void draw_subnet(struct run *x)
{
    static const uint8_t v4[] = {8, 16, 20, 24, 32}, v6[] = {32, 48, 56, 64, 128};
    struct ecs *s = &x->subnet;
    memset(s, 0, sizeof *s);
    bool is_v4 = chance(x, 60);
    s->family = is_v4 ? ADDR_V4 : ADDR_V6;
    uint8_t bits = is_v4 ? v4[random_below(&x->r, 5)] : v6[random_below(&x->r, 5)];
    memcpy(s->ip, is_v4 ? "\x0a\x01\x02\x03" : "\x20\x01\x0d\xb8\0\1\0\2\0\3\0\4\0\0\0\5",
           is_v4 ? 4 : 16);
    if (chance(x, 40))
        s->ip[random_below(&x->r, is_v4 ? 4 : 8)] ^= (uint8_t)(1u << random_below(&x->r, 8));
    s->source = is_v4 ? 32 : 128;
    ecs_cut(s, chance(x, 10) ? 0 : bits);
}

static struct cache_key cache_key(struct run *x, const struct model_key *k)
{
    struct cache_key key = {.qname = other_case(x, k),
                            .qname_len = k->qname_len,
                            .qtype = k->qtype,
                            .dnssec_ok = k->dnssec_ok,
                            .checking_disabled = k->checking_disabled};
    if (chance(x, x->regime->subnet_percent)) {
        draw_subnet(x);
        key.subnet = &x->subnet;
    }
    return key;
}

/* ---- operations */

static enum made_shape draw_shape(struct run *x)
{
    uint32_t p = random_below(&x->r, 1000);
    return p < 450   ? MADE_SET
           : p < 550 ? MADE_CHAIN
           : p < 700 ? MADE_NEGATIVE
           : p < 800 ? MADE_TTLS
           : p < 880 ? MADE_GENERAL
           : p < 960 ? MADE_EMPTY
           : p < 995 ? MADE_ODD
                     : MADE_LARGE;
}

/* What the proxy would take: the smallest TTL; sometimes less, rarely more. */
static uint32_t draw_life(struct run *x, const struct dns_reply *reply)
{
    uint32_t ttl = UINT32_MAX;
    struct dns_walk walk;
    struct dns_rr rr;
    walk_start(&walk, reply);
    while (walk_next(&walk, &rr)) {
        if (rr.type != RR_OPT && rr.ttl < ttl)
            ttl = rr.ttl;
    }
    if (ttl == UINT32_MAX || ttl == 0)
        return 5;
    return chance(x, 75)   ? ttl
           : chance(x, 80) ? 1 + random_below(&x->r, ttl)
                           : ttl + random_below(&x->r, 100);
}

static void do_put(struct run *x)
{
    struct model_key *k = draw_key(x);
    struct cache_key key = cache_key(x, k);
    uint8_t spelled[DNS_NAME_MAX];
    memcpy(spelled, x->asked, k->qname_len);
    size_t len = made_reply(&x->r, draw_shape(x), spelled, k->qname_len, k->qtype, x->msg);
    struct dns_reply reply;
    if (!reply_parse(&reply, x->msg, len))
        stop(x, "a reply was made that does not parse");
    static const char *const texts[] = {NULL, "", "a text",
                                        "sixty-three octets of text are the "
                                        "most that is ever kept, so here's"};
    struct cache_put_options options = {
        .now_s = x->now_s,
        .life_s = draw_life(x, &reply),
        .ede = chance(x, 85) ? DNS_EDE_NONE
                             : (uint16_t)random_below(&x->r, chance(x, 90) ? 30 : 60000),
        .authentic = chance(x, 20),
        .failure = chance(x, 3),
        .stale_max_s = STALE_MAX_S,
    };
    if (options.ede != DNS_EDE_NONE)
        options.ede_text = texts[random_below(&x->r, 4)];
    if (key.subnet != NULL && key.subnet->source > 0) {
        uint32_t most = key.subnet->family == ADDR_V4 ? 32 : 128;
        options.scope = (uint8_t)(chance(x, 20)   ? 0
                                  : chance(x, 70) ? key.subnet->source
                                                  : random_below(&x->r, most + 1));
    }
    if (chance(x, 50))
        other_case(x, k);
    x->puts++;
    enum err e = cache_put(x->cache, &key, &reply, &options);
    if (e == ERR_OK) {
        model_put(&x->model, k, &key, &reply, &options, x->cache);
    } else if (e == ERR_LIMIT) {
        model_put_refused(k, &key, options.scope);
        x->refused++;
    } else {
        stop(x, "cache_put refuses a good reply");
    }
}

static void do_get(struct run *x)
{
    struct model_key *k = draw_key(x);
    struct cache_key key = cache_key(x, k);
    struct cache_get_options options = {
        .now_s = x->now_s,
        .stale_max_s = chance(x, 50) ? 0 : STALE_MAX_S / (1 + random_below(&x->r, 9)),
        .stale_ttl_s = 30,
        .prefetch = chance(x, 50),
    };
    struct cache_answer answer;
    memset(&answer, 0xa5, sizeof answer);
    enum cache_outcome outcome =
        cache_get(x->cache, &key, &options, x->out, sizeof x->out, &answer);
    x->hits += outcome == CACHE_HIT;
    x->stale += outcome == CACHE_EXPIRED;
    x->misses += outcome == CACHE_MISS;
    if (!model_check(&x->model, k, &key, &options, outcome, x->out, &answer, x->cache)) {
        model_print(k, &key, &options);
        if (outcome != CACHE_MISS)
            fprintf(
                stderr, "got: %s, %zu octets, ttl %u, expired %u, life %u, RCODE %u%s%s%s\n",
                outcome == CACHE_HIT ? "hit" : "expired", answer.len, answer.ttl_s,
                answer.expired_s, answer.life_s, answer.rcode, answer.scoped ? ", scoped" : "",
                answer.had_subnet ? ", had subnet" : "", answer.failure ? ", failure" : "");
        stop(x, x->model.what);
    }
    if (outcome != CACHE_MISS && answer.refresh && chance(x, 30))
        cache_refresh_failed(x->cache, &key, x->now_s);
}

static void do_flush(struct run *x)
{
    struct model *m = &x->model;
    const struct model_key *k = draw_key(x);
    if (rare(x, 2000)) {
        cache_flush_all(x->cache);
        for (size_t i = 0; i < m->n_keys; i++)
            model_drop(&m->keys[i], slot_any);
        return;
    }
    bool suffix = rare(x, 100);
    if (suffix && k->qname_len == 1 && !rare(x, 50))
        return; /* everything lies below the root */
    const uint8_t *name = other_case(x, k);
    if (suffix)
        cache_flush_suffix(x->cache, name, k->qname_len);
    else
        cache_flush_name(x->cache, name, k->qname_len);
    size_t first = suffix ? 0 : (size_t)(k - m->keys) / KEYS_A_NAME * KEYS_A_NAME;
    size_t end = suffix ? m->n_keys : first + KEYS_A_NAME;
    for (size_t i = first; i < end; i++) {
        struct model_key *o = &m->keys[i];
        for (size_t at = 0; at < o->qname_len; at += 1u + o->qname[at]) {
            if (plain_name_equal(o->qname + at, o->qname_len - at, k->qname, k->qname_len)) {
                model_drop(o, slot_any);
                break;
            }
            if (!suffix)
                break;
        }
    }
}

static void do_remove(struct run *x)
{
    struct model_key *k = draw_key(x);
    struct cache_key key = cache_key(x, k);
    cache_remove(x->cache, &key);
    model_remove(k, &key, x->now_s);
}

static void do_forget_failures(struct run *x)
{
    cache_forget_failures(x->cache);
    for (size_t i = 0; i < x->model.n_keys; i++)
        model_drop(&x->model.keys[i], slot_failure);
}

static bool each_walked(void *arg, const struct cache_entry_info *info)
{
    struct run *x = arg;
    if (info->scoped)
        return true; /* may be known by a fingerprint only */
    struct model_key like = {.qname_len = info->qname_len,
                             .qtype = info->qtype,
                             .dnssec_ok = info->dnssec_ok,
                             .checking_disabled = info->checking_disabled};
    const struct model_key *known = NULL;
    memcpy(like.qname, info->qname, info->qname_len);
    for (size_t i = 0; i < x->model.n_keys; i++) {
        const struct model_key *k = &x->model.keys[i];
        if (!same_question(k, &like))
            continue;
        known = k;
        for (const struct slot *s = k->slots; s != NULL; s = s->next) {
            if (s->put_s + s->life_s - x->now_s == info->life_left_s && s->rcode == info->rcode)
                return true;
        }
        break;
    }
    fprintf(stderr, "type %u, %zu octets of name, RCODE %u, %lld left, %zu octets\n",
            info->qtype, info->qname_len, info->rcode, (long long)info->life_left_s,
            info->bytes);
    if (known != NULL)
        model_print(known, &(struct cache_key){.qname = known->qname},
                    &(struct cache_get_options){.now_s = x->now_s});
    stop(x, "the walk shows an entry that was not put");
    return false;
}

static void do_resize(struct run *x)
{
    size_t bytes = x->regime->bytes * (1 + random_below(&x->r, 3));
    if (cache_resize(x->cache, bytes, x->now_s) != ERR_OK)
        stop(x, "resize fails");
    /* What moved into a smaller arena may have been lost on the way. */
    for (size_t i = 0; i < x->model.n_keys; i++) {
        for (struct slot *s = x->model.keys[i].slots; s != NULL; s = s->next)
            s->sure = false;
    }
}

static void look_at_evictions(struct run *x)
{
    struct cache_stats stats;
    cache_stats(x->cache, &stats);
    x->model.evictions = stats.evictions + stats.evicted_expired;
}

/* Saves, and loads into a new cache of a process whose clock reads otherwise. */
static void do_restart(struct run *x)
{
    const int64_t wall_s = 1700000000;
    if (cache_save(x->cache, x->path, x->now_s, wall_s) != ERR_OK)
        stop(x, "save fails");
    bool other_size = chance(x, 30);
    look_at_evictions(x);
    cache_destroy(x->cache);
    x->cache = cache_create(x->regime->bytes * (other_size ? 2 : 1));
    assert_non_null(x->cache);
    uint32_t down_s = chance(x, 60)   ? random_below(&x->r, 100)
                      : chance(x, 60) ? random_below(&x->r, 200000)
                                      : random_below(&x->r, 1u << 26);
    uint32_t old_s = x->now_s;
    x->now_s = 1 + random_below(&x->r, chance(x, 50) ? 1000 : 1u << 24);
    x->days = x->years = x->wraps = 0;
    if (cache_restore(x->cache, x->path, x->now_s, wall_s + down_s) != ERR_OK)
        stop(x, "restore fails");
    model_move_clock(&x->model, old_s, x->now_s, down_s);
    uint64_t evictions = x->model.evictions;
    look_at_evictions(x);
    bool all_came =
        !other_size && x->model.evictions == 0; /* the old one may have been larger */
    for (size_t i = 0; i < x->model.n_keys; i++) {
        for (struct slot *s = x->model.keys[i].slots; s != NULL; s = s->next) {
            s->sure = s->sure && all_came && s->evictions == evictions && !s->options.failure;
            s->evictions = x->model.evictions;
        }
    }
}

static void move_clock(struct run *x, uint64_t ops)
{
    if (chance(x, 20))
        x->now_s += random_below(&x->r, 5);
    if (rare(x, 500))
        x->now_s += random_below(&x->r, 4000);
    /* Jumps are spread over the run and bounded, as the clock has 32 bits. */
    uint32_t spread = (uint32_t)(ops / 50 + 1);
    if (rare(x, spread * 2) && x->years < 40) {
        x->years++;
        x->now_s += 365 * 86400;
    } else if (rare(x, spread * 2) && x->wraps < 60) {
        x->wraps++;
        x->now_s += (1u << 22) - 40 + random_below(&x->r, 80);
    } else if (rare(x, spread) && x->days < 2000) {
        x->days++;
        x->now_s += 86400;
    }
}

static void operate(struct run *x)
{
    uint32_t p = random_below(&x->r, 10000);
    if (p < 100)
        do_remove(x);
    else if (p < 160)
        do_flush(x);
    else if (p < 165)
        do_forget_failures(x);
    else if (p < 166)
        cache_walk(x->cache, x->now_s, each_walked, x);
    else if (p < 167 && rare(x, 4))
        do_resize(x);
    else if (p < 168 && rare(x, 4))
        do_restart(x);
    else if (p % 100 < x->regime->put_percent)
        do_put(x);
    else
        do_get(x);
}

static void run_regime(const struct regime *regime)
{
    struct run *x = calloc(1, sizeof *x);
    assert_non_null(x);
    uint64_t ops = environment("PITH_MODEL_OPS", 60000);
    x->regime = regime;
    x->seed = environment("PITH_MODEL_SEED", 1);
    random_seed(&x->r, x->seed);
    x->now_s = 1 + random_below(&x->r, 1u << 23);
    snprintf(x->path, sizeof x->path, "cache-model-%ld.snapshot", (long)getpid());
    make_keys(x);
    x->cache = cache_create(regime->bytes);
    assert_non_null(x->cache);
    for (x->op = 0; x->op < ops; x->op++) {
        move_clock(x, ops);
        operate(x);
        if (x->op % 256 == 0)
            look_at_evictions(x);
        char why[200];
        if ((x->op < 2000 || x->op % regime->check_every == 0) &&
            !cache_check(x->cache, x->now_s, why, sizeof why))
            stop(x, why);
    }
    print_message(
        "%s: seed %llu, %llu operations: %llu hits, %llu stale, %llu misses, %llu puts, "
        "%llu refused\n",
        regime->name, (unsigned long long)x->seed, (unsigned long long)ops,
        (unsigned long long)x->hits, (unsigned long long)x->stale,
        (unsigned long long)x->misses, (unsigned long long)x->puts,
        (unsigned long long)x->refused);
    assert_true(ops < 10000 || (x->hits > ops / 100 && x->misses > ops / 100));
    cache_destroy(x->cache);
    unlink(x->path);
    for (size_t k = 0; k < x->model.n_keys; k++)
        model_drop(&x->model.keys[k], slot_any);
    free(x->model.keys);
    free(x);
}

static const struct regime roomy = {"roomy", 4 << 20, 60, 10, 35, 64};
static const struct regime tight = {"tight", 1 << 20, 600, 10, 45, 64};
static const struct regime subnets = {"subnets", 4 << 20, 12, 90, 40, 64};

static void test_roomy(void **state)
{
    (void)state;
    run_regime(&roomy);
}

static void test_tight(void **state)
{
    (void)state;
    run_regime(&tight);
}

static void test_subnets(void **state)
{
    (void)state;
    run_regime(&subnets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roomy),
        cmocka_unit_test(test_tight),
        cmocka_unit_test(test_subnets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
