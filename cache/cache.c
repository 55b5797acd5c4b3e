/* cache.c - create, get, put. The way down: key.h names the pages, store.h finds the record in
 * them, record.h reads it, answer.h writes the answer; for a put encode.h makes the record and
 * room.h a place for it. */
#include "cache/cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cache/answer.h"
#include "cache/clock.h"
#include "cache/ecs.h"
#include "cache/encode.h"
#include "cache/internal.h"
#include "cache/large.h"
#include "cache/octets.h"
#include "cache/refresh.h"
#include "cache/resize.h"
#include "cache/store.h"
#include "dns/name.h"

enum {
    REFRESH_SHARE = 1024, /* of the memory: the table of refreshes */
    REFRESH_PART = 10,    /* the last tenth of a life */
    FIRST_SHARE = 16,     /* so little that it can be had beside all the rest */
    FIRST_MIN_BYTES = 1 << 20,
    CROWDED_PERCENT = 70, /* no page is full yet */
};

static struct cache *create(size_t bytes, void (*when)(void *arg), void *arg)
{
    struct hash_key key = hash_key_random();
    if (bytes < CACHE_MIN_BYTES)
        return NULL;
    struct cache *c = aligned_alloc(64, (sizeof *c + 63) & ~(size_t)63);
    if (c == NULL)
        return NULL;
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->admin, NULL);
    c->bytes = bytes;
    c->grows = when != NULL;
    c->when_crowded = when;
    c->when_arg = arg;
    c->stale_max_s = CLOCK_STALE_MIN_S;
    c->refresh = cache_refresh_create(bytes / REFRESH_SHARE);
    c->arena = cache_arena_create(cache_arena_first(c, 0), bytes, &key);
    if (c->refresh == NULL || c->arena == NULL) {
        cache_destroy(c);
        return NULL;
    }
    cache_arena_is(c, c->arena);
    return c;
}

struct cache *cache_create(size_t bytes)
{
    return create(bytes, NULL, NULL);
}

struct cache *cache_create_growing(size_t bytes, void (*when)(void *arg), void *arg)
{
    return create(bytes, when, arg);
}

size_t cache_arena_most(const struct cache *c)
{
    return c->bytes - (sizeof(struct cache) + sizeof(struct cache_arena) +
                       c->bytes / REFRESH_SHARE + 4096);
}

size_t cache_arena_first(const struct cache *c, uint64_t expected)
{
    size_t most = cache_arena_most(c), first = most / FIRST_SHARE;
    if (first < FIRST_MIN_BYTES)
        first = FIRST_MIN_BYTES;
    bool fits = expected < first / 100 * CROWDED_PERCENT;
    return c->grows && fits && first < most ? first : most;
}

void cache_arena_is(struct cache *c, const struct cache_arena *a)
{
    racy_store(&c->capacity, cache_arena_capacity(a));
    racy_store(&c->crowded_at, a->bytes < cache_arena_most(c)
                                   ? cache_arena_capacity(a) / 100 * CROWDED_PERCENT
                                   : UINT64_MAX);
}

void cache_crowded(struct cache *c)
{
    if (__atomic_exchange_n(&c->crowded_at, UINT64_MAX, __ATOMIC_RELAXED) != UINT64_MAX)
        c->when_crowded(c->when_arg);
}

void cache_destroy(struct cache *c)
{
    if (c == NULL)
        return;
    while (c->retired != NULL) {
        struct cache_arena *a = c->retired;
        c->retired = a->next;
        cache_arena_destroy(a);
    }
    cache_arena_destroy(c->arena);
    free(c->refresh);
    pthread_mutex_destroy(&c->admin);
    free(c);
}

static inline uint8_t key_flags(const struct cache_key *key)
{
    return (uint8_t)((key->dnssec_ok ? RECORD_DO : 0) |
                     (key->checking_disabled ? RECORD_CD : 0));
}

/* ---- get */

/* A get under way. */
struct lookup {
    struct cache *c;
    struct cache_arena *arena;
    const struct cache_key *key;
    const struct cache_get_options *options;
    uint8_t *out;
    size_t size;
    struct cache_answer *answer;
    struct cache_name name;
    uint8_t flags; /* of the key */
    bool fresh_only;
    bool has_stale; /* something was left aside for fresh_only */
};

/* What a record is worth now. */
static inline enum cache_outcome judge(const struct lookup *l, const struct cache_record *r,
                                       int32_t left)
{
    if (left > 0) {
        bool is_void =
            (r->flags & RECORD_FAILURE) && r->epoch != (uint16_t)racy_load(&l->c->epoch);
        return is_void ? CACHE_MISS : CACHE_HIT;
    }
    if ((r->flags & RECORD_FAILURE) || l->options->stale_max_s == 0)
        return CACHE_MISS;
    return (uint32_t)-left <= l->options->stale_max_s ? CACHE_EXPIRED : CACHE_MISS;
}

/* Whether this caller is to refresh what it gets. */
static inline bool to_refresh(const struct lookup *l, const struct cache_found *f, uint64_t id,
                              const struct cache_record *r, int32_t left)
{
    if (l->options->only_look)
        return false;
    if (left > 0 && (!l->options->prefetch || (f->meta & META_ASKED) == 0 ||
                     (r->flags & RECORD_FAILURE) || (int64_t)left * REFRESH_PART > r->life_s))
        return false;
    return cache_refresh_claim(l->c->refresh, id, l->options->now_s, CACHE_REFRESH_S);
}

static inline void describe(struct cache_answer *a, const struct cache_record *r, int32_t left)
{
    a->ttl_s = left > 0 ? (uint32_t)left : 0;
    a->life_s = r->life_s;
    a->expired_s = left > 0 ? 0 : (uint32_t)-left;
    a->rcode = r->rcode;
    a->ede = r->ede;
    a->ede_text_len = r->text_len;
    if (r->text_len > 0)
        memcpy(a->ede_text, r->text, r->text_len);
    a->ede_text[r->text_len] = 0;
    a->authentic = r->flags & RECORD_AD;
    a->failure = r->flags & RECORD_FAILURE;
}

/* The answer of a large record; r becomes that. Kept apart for its buffer of 64 KiB. */
__attribute__((noinline)) static bool answer_write_large(const struct lookup *l, uint64_t id,
                                                         const struct cache_record *stub,
                                                         int32_t left)
{
    uint8_t copy[LARGE_MAX + OCTETS_LOT];
    struct cache_record r;
    size_t len = cache_large_get(l->arena, id, stub, copy);
    if (len == 0 || !cache_record_read(&r, copy, len))
        return false;
    l->answer->len = cache_answer_list(l->out, l->size, l->key, &r, copy + len, left,
                                       l->options->stale_ttl_s, &l->answer->max_age_s);
    if (l->answer->len == 0)
        return false;
    describe(l->answer, &r, left);
    return true;
}

/* What most questions get: a fresh answer of addresses or strings, with nothing more to be said
 * or done about it. False when there is, or it does not fit. */
static inline bool get_usual(const struct lookup *l, const struct cache_found *f)
{
    const uint8_t *p = f->record;
    uint32_t word;
    if (f->end - p < RECORD_HEAD || p[1] == RECORD_TYPE_LONG ||
        (p[0] & (RECORD_EXT | RECORD_FAILURE | RECORD_SUBNET)))
        return false;
    memcpy(&word, p + 2, sizeof word);
    int32_t left = cache_record_left(word, l->options->now_s);
    uint32_t life_s = cache_record_life(word >> 22);
    if (left <= 0 || (l->options->prefetch && (int64_t)left * REFRESH_PART <= life_s))
        return false;
    const struct cache_record r = {.body = p + RECORD_HEAD,
                                   .type = p[1],
                                   .form = p[6] >> 5,
                                   .count = p[6] & RECORD_COUNT_MAX,
                                   .rcode = DNS_RCODE_NOERROR};
    struct cache_answer *a = l->answer;
    a->len = cache_answer_simple(l->out, l->size, l->key, &r, f->end, (uint32_t)left);
    a->ttl_s = a->max_age_s = (uint32_t)left;
    a->life_s = life_s;
    a->expired_s = 0;
    a->rcode = DNS_RCODE_NOERROR;
    a->ede = DNS_EDE_NONE;
    a->ede_text_len = 0;
    a->ede_text[0] = 0;
    a->authentic = p[0] & RECORD_AD;
    a->failure = a->refresh = a->had_subnet = false;
    return a->len > 0;
}

/* Looks for a record under a name or fingerprint and writes its answer; a miss when there is
 * none, it is nothing worth, or the answer does not fit. */
static enum cache_outcome get_under(struct lookup *l, const struct cache_name *name,
                                    uint8_t flags, struct cache_found *f)
{
    struct cache_record r;
    const struct ecs *subnet = l->key->subnet;
    if (!cache_store_find(l->arena, name, l->key->qtype, flags, f))
        return CACHE_MISS;
    if (__builtin_expect(get_usual(l, f), 1)) {
        cache_store_asked(f);
        return CACHE_HIT;
    }
    if (!cache_record_read(&r, f->record, (size_t)(f->end - f->record)))
        return CACHE_MISS;
    /* who opted out gets nothing that anybody's subnet was sent for */
    if (subnet != NULL && subnet->source == 0 && (r.flags & RECORD_SUBNET))
        return CACHE_MISS;
    int32_t left = cache_record_left(r.expiry, l->options->now_s);
    enum cache_outcome outcome = judge(l, &r, left);
    if (outcome == CACHE_EXPIRED && l->fresh_only) {
        l->has_stale = true;
        return CACHE_MISS;
    }
    if (outcome == CACHE_MISS)
        return CACHE_MISS;
    uint64_t id = cache_refresh_id(name->hash, l->key->qtype, flags);
    if (__builtin_expect(r.form == FORM_LARGE, 0)) {
        const struct cache_record stub = r; /* so that r can be in registers */
        if (!answer_write_large(l, id, &stub, left))
            return CACHE_MISS;
    } else {
        l->answer->len = cache_answer_write(l->out, l->size, l->key, &r, f->end, left,
                                            l->options->stale_ttl_s, &l->answer->max_age_s);
        if (l->answer->len == 0)
            return CACHE_MISS;
        describe(l->answer, &r, left);
    }
    l->answer->refresh = to_refresh(l, f, id, &r, left);
    l->answer->had_subnet =
        (r.flags & RECORD_SUBNET) && (subnet == NULL || subnet->source == 0 ||
                                      ((r.what & EXT_V6) != 0) == (subnet->family == ADDR_V6));
    cache_store_asked(f);
    return outcome;
}

static enum cache_outcome get_shared(struct lookup *l, struct cache_found *f)
{
    l->answer->scoped = false;
    l->answer->scope = 0;
    return get_under(l, &l->name, l->flags, f);
}

/* The answers for the client's subnet, the longest prefix first. */
static enum cache_outcome get_scoped(struct lookup *l, struct cache_found *f)
{
    struct cache_ecs_list list;
    struct cache_found head;
    cache_ecs_candidates(l->arena, &l->name, l->key, l->flags, &list, &head);
    for (size_t i = 0; i < list.n; i++) {
        struct cache_name name;
        cache_key_from_fingerprint(&name, list.at[i].fingerprint);
        cache_resize_check(l->c, l->arena, &name);
        enum cache_outcome outcome = get_under(l, &name, l->flags, f);
        if (outcome == CACHE_MISS)
            continue;
        l->answer->scoped = true;
        l->answer->scope = list.at[i].scope;
        cache_store_asked(&head);
        return outcome;
    }
    return CACHE_MISS;
}

/* With source 0: what was got that way, else what is for everyone. */
static enum cache_outcome get_opted_out(struct lookup *l, struct cache_found *f)
{
    l->answer->scoped = false;
    l->answer->scope = 0;
    enum cache_outcome outcome = get_under(l, &l->name, l->flags | RECORD_OPTOUT, f);
    return outcome != CACHE_MISS ? outcome : get_shared(l, f);
}

static enum cache_outcome get_for_subnet(struct lookup *l, struct cache_found *f)
{
    if (l->key->subnet->source == 0)
        return get_opted_out(l, f);
    enum cache_outcome outcome = get_scoped(l, f);
    return outcome != CACHE_MISS ? outcome : get_shared(l, f);
}

static enum cache_outcome get(struct lookup *l)
{
    struct cache_found f;
    if (l->key->subnet == NULL)
        return get_shared(l, &f);
    /* a fresh answer of a shorter prefix is better than a stale one of a longer */
    l->fresh_only = true;
    enum cache_outcome outcome = get_for_subnet(l, &f);
    if (outcome != CACHE_MISS || !l->has_stale)
        return outcome;
    l->fresh_only = false;
    return get_for_subnet(l, &f);
}

enum cache_outcome cache_get(struct cache *c, const struct cache_key *key,
                             const struct cache_get_options *options, uint8_t *out,
                             size_t out_size, struct cache_answer *answer)
{
    struct lookup l;
    enum cache_outcome outcome = CACHE_MISS;

    l.c = c;
    l.arena = cache_arena_load(&c->arena);
    l.key = key;
    l.options = options;
    l.out = out;
    l.size = out_size;
    l.answer = answer;
    l.flags = key_flags(key);
    l.fresh_only = l.has_stale = false;
    if (cache_clock_check(c, options->now_s) &&
        cache_key_from_name(&l.name, &l.arena->hash, key->qname, key->qname_len)) {
        cache_resize_check(c, l.arena, &l.name);
        outcome = get(&l);
    }
    cache_count(c,
                outcome == CACHE_MISS  ? COUNT_MISSES
                : outcome == CACHE_HIT ? COUNT_HITS
                                       : COUNT_STALE,
                1);
    return outcome;
}

/* What a hint leads to: head, slot and the begin of the entry. */
static void prefetch_hinted(const struct cache_page *p, uint64_t hint)
{
    const uint8_t *entry = p->body + cache_hint_offset(hint);
    __builtin_prefetch(p);
    __builtin_prefetch(&p->block[cache_hint_slot(hint) / PAGE_BLOCK_SLOTS]);
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + 64);
}

uint64_t cache_prefetch(const struct cache *c, const uint8_t *qname, size_t len)
{
    if (len == 0 || len > DNS_NAME_MAX)
        return 0;
    const struct cache_arena *a = cache_arena_load(&c->arena);
    uint64_t hash = cache_key_hash(&a->hash, qname, len);
    uint64_t hint = cache_hint_get(cache_hints_of(&a->hints, hash), hash);
    const struct cache_page *home = cache_arena_home(a, hash);
    const struct cache_page *other = cache_arena_other(a, hash);
    if (hint != 0) {
        prefetch_hinted(cache_hint_is_other(hint) ? other : home, hint);
        return 0;
    }
    cache_arena_prefetch_read(home);
    cache_arena_prefetch_read(other);
    return hash;
}

/* The first entry with the tag: mostly it is the one. */
static bool prefetch_in(const struct cache_page *p, uint64_t hash)
{
    uint64_t hits = cache_page_tagged(p, cache_key_tag(hash));
    if (hits == 0)
        return false;
    size_t upto = cache_page_upto(p, (unsigned)__builtin_ctzll(hits));
    if (upto > PAGE_BODY)
        return false;
    __builtin_prefetch(p->body + PAGE_BODY - upto);
    __builtin_prefetch(p->body + PAGE_BODY - upto + 64);
    return true;
}

void cache_prefetch_entry(const struct cache *c, uint64_t prefetched)
{
    const struct cache_arena *a = cache_arena_load(&c->arena);
    if (prefetched != 0 && !prefetch_in(cache_arena_home(a, prefetched), prefetched))
        prefetch_in(cache_arena_other(a, prefetched), prefetched);
}
