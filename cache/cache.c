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
#include "cache/refresh.h"
#include "cache/store.h"
#include "dns/name.h"

enum {
    REFRESH_SHARE = 1024, /* of the memory: the table of refreshes */
    REFRESH_PART = 10,    /* the last tenth of a life */
};

struct cache *cache_create(size_t bytes)
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
    c->refresh = cache_refresh_create(bytes / REFRESH_SHARE);
    c->arena = cache_arena_create(bytes - cache_overhead(bytes), &key);
    if (c->refresh == NULL || c->arena == NULL) {
        cache_destroy(c);
        return NULL;
    }
    c->capacity = cache_arena_capacity(c->arena);
    return c;
}

size_t cache_overhead(size_t bytes)
{
    return sizeof(struct cache) + sizeof(struct cache_arena) + bytes / REFRESH_SHARE + 4096;
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
    const struct cache_key *key;
    const struct cache_get_options *options;
    struct cache_name name;
    uint8_t flags;
};

/* What the record that was found is worth now. */
static enum cache_outcome judge(const struct lookup *l, const struct cache_record *r,
                                int32_t left)
{
    if ((r->flags & RECORD_FAILURE) &&
        (left <= 0 || r->epoch != (uint16_t)racy_load(&l->c->epoch)))
        return CACHE_MISS;
    if (left > 0)
        return CACHE_HIT;
    return l->options->stale_max_s > 0 && (uint32_t)-left <= l->options->stale_max_s
               ? CACHE_EXPIRED
               : CACHE_MISS;
}

/* Whether this caller is to refresh what it gets. */
static bool to_refresh(const struct lookup *l, const struct cache_found *f,
                       const struct cache_record *r, int32_t left)
{
    if (left > 0 && (!l->options->prefetch || (f->meta & META_ASKED) == 0 ||
                     (r->flags & RECORD_FAILURE) || (int64_t)left * REFRESH_PART > r->life_s))
        return false;
    uint64_t id = cache_refresh_id(l->name.hash, l->key->qtype, l->flags);
    return cache_refresh_claim(l->c->refresh, id, l->options->now_s, CACHE_REFRESH_S);
}

static void describe(struct cache_answer *a, const struct cache_record *r, int32_t left)
{
    a->ttl_s = left > 0 ? (uint32_t)left : 0;
    a->life_s = r->life_s;
    a->expired_s = left > 0 ? 0 : (uint32_t)-left;
    a->rcode = r->rcode;
    a->ede = r->ede;
    a->ede_text_len = r->text_len;
    a->ede_text[0] = 0;
    if (r->text_len > 0) {
        memcpy(a->ede_text, r->text, r->text_len);
        a->ede_text[r->text_len] = 0;
    }
    a->authentic = r->flags & RECORD_AD;
    a->failure = r->flags & RECORD_FAILURE;
}

/* Writes the answer of a record that was found; a miss when it does not fit or is nothing
 * worth. */
static enum cache_outcome answer(const struct lookup *l, const struct cache_found *f,
                                 uint8_t *out, size_t size, struct cache_answer *a)
{
    struct cache_record r;
    if (!cache_record_read(&r, f->record, (size_t)(f->end - f->record)))
        return CACHE_MISS;
    int32_t left = cache_record_left(r.expiry, l->options->now_s);
    enum cache_outcome outcome = judge(l, &r, left);
    if (outcome == CACHE_MISS)
        return CACHE_MISS;
    a->len = cache_answer_write(out, size, l->key, &r, f->end, left, l->options->stale_ttl_s,
                                &a->max_age_s);
    if (a->len == 0)
        return CACHE_MISS;
    describe(a, &r, left);
    a->refresh = to_refresh(l, f, &r, left);
    cache_store_asked(f);
    return outcome;
}

/* The answer for everyone. With a subnet only one that was got with a subnet is known to be
 * that. */
static enum cache_outcome get_shared(const struct lookup *l, struct cache_found *f,
                                     uint8_t *out, size_t size, struct cache_answer *a)
{
    const struct ecs *subnet = l->key->subnet;
    const struct cache_arena *arena = cache_arena_load(&l->c->arena);
    if (!cache_store_find(arena, &l->name, l->key->qtype, l->flags, f))
        return CACHE_MISS;
    bool for_all = f->record[0] & RECORD_SUBNET;
    if (subnet != NULL && subnet->source > 0 && !for_all)
        return CACHE_MISS;
    a->had_subnet = for_all;
    a->scoped = false;
    a->scope = 0;
    return answer(l, f, out, size, a);
}

enum cache_outcome cache_get(struct cache *c, const struct cache_key *key,
                             const struct cache_get_options *options, uint8_t *out,
                             size_t out_size, struct cache_answer *a)
{
    struct lookup l = {.c = c, .key = key, .options = options, .flags = key_flags(key)};
    struct cache_found f;
    enum cache_outcome outcome = CACHE_MISS;
    const struct cache_arena *arena = cache_arena_load(&c->arena);

    if (cache_clock_check(c, options->now_s) &&
        cache_key_from_name(&l.name, &arena->key, key->qname, key->qname_len))
        outcome = get_shared(&l, &f, out, out_size, a);
    cache_count(c,
                outcome == CACHE_MISS  ? COUNT_MISSES
                : outcome == CACHE_HIT ? COUNT_HITS
                                       : COUNT_STALE,
                1);
    return outcome;
}

/* ---- put */

static bool is_put_sound(const struct cache_key *key, const struct dns_reply *reply,
                         const struct cache_put_options *options)
{
    return options->life_s > 0 &&
           reply_matches(reply, key->qname, key->qname_len, key->qtype, false) &&
           !(reply->flags & DNS_TC);
}

enum err cache_put(struct cache *c, const struct cache_key *key, const struct dns_reply *reply,
                   const struct cache_put_options *options)
{
    struct cache_put_options o = *options;
    struct cache_name name;
    uint8_t record[ENCODE_SMALL];
    uint8_t flags = key_flags(key);
    const struct ecs *subnet = key->subnet;

    bool sound = is_put_sound(key, reply, options);
    assert(sound);
    struct cache_arena *arena = cache_arena_load(&c->arena);
    if (!sound || !cache_key_from_name(&name, &arena->key, key->qname, key->qname_len))
        return ERR_FORMAT;
    if (!cache_clock_check(c, o.now_s))
        return ERR_LIMIT;
    if (o.life_s > CACHE_LIFE_MAX_S)
        o.life_s = CACHE_LIFE_MAX_S;
    bool v6 = false;
    if (subnet != NULL && subnet->source > 0) {
        flags |= RECORD_SUBNET;
        v6 = subnet->family == ADDR_V6;
    } else if (subnet != NULL) {
        flags |= RECORD_OPTOUT;
    }
    size_t len = cache_encode(record, sizeof record, reply, &o, flags, v6,
                              (uint16_t)racy_load(&c->epoch));
    if (len == 0 || name.key_len + len > ENTRY_MAX) {
        cache_count(c, COUNT_TOO_LARGE, 1);
        return ERR_LIMIT;
    }
    const struct cache_store_rule rule = {
        .now_s = o.now_s,
        .stale_max_s = o.stale_max_s,
        .failure = o.failure,
    };
    enum cache_store_result result;
    while ((result = cache_store_put(c, arena, &name, record, len, &rule)) == STORE_RETIRED)
        arena = cache_arena_load(&c->arena);
    cache_refresh_clear(c->refresh,
                        cache_refresh_id(name.hash, key->qtype, flags & RECORD_KEY));
    cache_count(c, COUNT_PUTS, 1);
    if (result == STORE_REPLACED)
        cache_count(c, COUNT_UPDATES, 1);
    return ERR_OK;
}

void cache_refresh_failed(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
    struct cache_name name;
    const struct cache_arena *a = cache_arena_load(&c->arena);
    if (cache_key_from_name(&name, &a->key, key->qname, key->qname_len))
        cache_refresh_block(c->refresh, cache_refresh_id(name.hash, key->qtype, key_flags(key)),
                            now_s, CACHE_REFRESH_S);
}
