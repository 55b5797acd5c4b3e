/* put.c - put, remove, and what else is about one key. */
#include <assert.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/clock.h"
#include "cache/ecs.h"
#include "cache/encode.h"
#include "cache/internal.h"
#include "cache/large.h"
#include "cache/refresh.h"
#include "cache/resize.h"
#include "cache/store.h"

static inline uint8_t flags_of(const struct cache_key *key)
{
    return (uint8_t)((key->dnssec_ok ? RECORD_DO : 0) |
                     (key->checking_disabled ? RECORD_CD : 0));
}

static inline bool has_subnet(const struct cache_key *key)
{
    return key->subnet != NULL && key->subnet->source > 0;
}

/* Calls for every record that may serve a key: under its name with the flags given, and under
 * the fingerprints of its subnet. each() returns false to begin again, as the arena is retired.
 */
struct serving {
    struct cache *c;
    struct cache_arena *arena;
    const struct cache_key *key;
    uint32_t now_s;
    uint32_t stale_max_s;
    bool found;
    bool (*each)(struct serving *s, const struct cache_name *name, uint8_t flags);
};

static bool serving_walk(struct serving *s)
{
    uint8_t flags = flags_of(s->key);
    struct cache_ecs_list list;
    struct cache_found found;
    struct cache_name name;

    s->arena = cache_arena_load(&s->c->arena);
    if (!cache_key_from_name(&name, &s->arena->hash, s->key->qname, s->key->qname_len))
        return true;
    cache_resize_check(s->c, s->arena, &name);
    bool opted_out = s->key->subnet != NULL && s->key->subnet->source == 0;
    bool not_for_them = opted_out &&
                        cache_store_find(s->arena, &name, s->key->qtype, flags, &found) &&
                        (found.record[0] & RECORD_SUBNET);
    if (!not_for_them && !s->each(s, &name, flags))
        return false;
    if (opted_out)
        return s->each(s, &name, flags | RECORD_OPTOUT);
    if (s->key->subnet == NULL)
        return true;
    cache_ecs_candidates(s->arena, &name, s->key, flags, &list, &found);
    for (size_t i = 0; i < list.n; i++) {
        struct cache_name scoped;
        cache_key_from_fingerprint(&scoped, list.at[i].fingerprint);
        cache_resize_check(s->c, s->arena, &scoped);
        if (!s->each(s, &scoped, flags))
            return false;
    }
    return true;
}

/* Sets `found` when the record is a usable answer, fresh or stale. */
static bool usable_each(struct serving *s, const struct cache_name *name, uint8_t flags)
{
    struct cache_found f;
    struct cache_record r;
    s->found |= cache_store_find(s->arena, name, s->key->qtype, flags, &f) &&
                cache_record_read(&r, f.record, (size_t)(f.end - f.record)) &&
                !(r.flags & RECORD_FAILURE) &&
                cache_record_left(r.expiry, s->now_s) > -(int64_t)s->stale_max_s;
    return true;
}

/* Whether a key has an answer that may still be given. */
static bool has_usable(struct cache *c, const struct cache_key *key,
                       const struct cache_put_options *options)
{
    struct serving s = {.c = c,
                        .key = key,
                        .now_s = options->now_s,
                        .stale_max_s = options->stale_max_s,
                        .each = usable_each};
    serving_walk(&s);
    return s.found;
}

/* A put under way. */
struct putting {
    struct cache *c;
    struct cache_arena *arena;
    const struct cache_key *key;
    const struct dns_reply *reply;
    struct cache_put_options options;
    struct cache_name name;
    uint8_t flags;     /* RECORD_KEY and RECORD_SUBNET */
    bool replace_only; /* does not make a new place */
    bool kept;         /* what was there stays */
};

static size_t encode(const struct putting *p, uint8_t *out, size_t size)
{
    bool v6 = (p->flags & RECORD_SUBNET) && p->key->subnet->family == ADDR_V6;
    return cache_encode(out, size, p->reply, &p->options, p->flags, v6,
                        (uint16_t)racy_load(&p->c->epoch));
}

/* The stub of a reply too large for an entry. Kept apart for its buffer of 64 KiB. */
__attribute__((noinline)) static size_t
encode_large(const struct putting *p, const struct cache_name *name, uint8_t *stub)
{
    uint8_t record[LARGE_MAX];
    size_t len = encode(p, record, sizeof record);
    if (len == 0)
        return 0;
    uint64_t id = cache_refresh_id(name->hash, p->key->qtype, p->flags & RECORD_KEY);
    return cache_large_put(p->c, p->arena, id, record, len, stub);
}

/* Makes the record and puts it under a name or fingerprint. ERR_MISSING: the arena is retired.
 */
static enum err put_under(struct putting *p, const struct cache_name *name)
{
    uint8_t record[ENCODE_SMALL];
    const struct cache_store_rule rule = {
        .now_s = p->options.now_s,
        .stale_max_s = p->options.stale_max_s,
        .failure = p->options.failure,
        .if_present = p->replace_only,
    };
    size_t len = encode(p, record, sizeof record);
    if (len == 0 || name->key_len + len > ENTRY_MAX)
        len = encode_large(p, name, record);
    if (len == 0 && __atomic_load_n(&p->arena->retired, __ATOMIC_SEQ_CST))
        return ERR_MISSING;
    if (len == 0 || name->key_len + len > ENTRY_MAX) {
        cache_count(p->c, COUNT_TOO_LARGE, 1);
        return ERR_LIMIT;
    }
    uint8_t key_flags = p->flags & RECORD_KEY;
    enum cache_store_result result =
        cache_store_put(p->c, p->arena, name, p->key->qtype, key_flags, record, len, &rule);
    if (result == STORE_RETIRED)
        return ERR_MISSING;
    p->kept = result == STORE_KEPT;
    if (p->kept)
        return ERR_OK; /* who refreshes the old one still does */
    cache_refresh_clear(p->c->refresh, cache_refresh_id(name->hash, p->key->qtype, key_flags),
                        p->options.now_s);
    if (result == STORE_REPLACED)
        cache_count(p->c, COUNT_UPDATES, 1);
    return ERR_OK;
}

/* Not for a prefix. What was got without a subnet is for who opted out as well, so it takes the
 * place of an earlier answer of theirs. */
static enum err put_shared(struct putting *p)
{
    if (p->flags & RECORD_OPTOUT)
        racy_store(&p->c->has_optouts, 1);
    enum err err = put_under(p, &p->name);
    if (!(p->flags & RECORD_OPTOUT) && err == ERR_OK && racy_load(&p->c->has_optouts) &&
        !(p->flags & RECORD_SUBNET) && !p->options.failure)
        cache_store_drop_record(p->c, p->arena, &p->name, p->key->qtype,
                                (p->flags & RECORD_KEY) | RECORD_OPTOUT);
    return err;
}

/* For min(source, scope) bits of the subnet. */
static enum err put_scoped(struct putting *p)
{
    const struct cache_ecs_put entering = {
        .key = p->key,
        .flags = p->flags,
        .scope = p->options.scope,
        .failure = p->options.failure,
        .now_s = p->options.now_s,
        .life_s = p->options.life_s,
        .stale_max_s = p->options.stale_max_s,
    };
    struct cache_name name;
    uint64_t fingerprint;
    enum err err = cache_ecs_enter(p->c, p->arena, &p->name, &entering, &fingerprint);
    if (err == ERR_LIMIT)
        cache_count(p->c, COUNT_SUBNETS_CAPPED, 1);
    if (err != ERR_OK)
        return err;
    cache_key_from_fingerprint(&name, fingerprint);
    cache_resize_check(p->c, p->arena, &name);
    return put_under(p, &name);
}

static bool is_sound(const struct cache_key *key, const struct dns_reply *reply,
                     const struct cache_put_options *options)
{
    if (options->life_s == 0 || (reply->flags & DNS_TC))
        return false;
    if (key->qname_len == reply->qname_len &&
        memcmp(key->qname, reply->qname, key->qname_len) == 0) /* mostly, and faster */
        return reply->qtype == key->qtype && reply->qclass == DNS_CLASS_IN;
    return reply_matches(reply, key->qname, key->qname_len, key->qtype, false);
}

enum err cache_put(struct cache *c, const struct cache_key *key, const struct dns_reply *reply,
                   const struct cache_put_options *options)
{
    struct putting p;
    enum err err;
    bool sound = is_sound(key, reply, options);
    assert(sound);
    if (!sound)
        return ERR_FORMAT;
    if (!cache_clock_check(c, options->now_s))
        return ERR_LIMIT;

    p.c = c;
    p.key = key;
    p.reply = reply;
    p.options = *options;
    p.flags = flags_of(key);
    p.kept = false;
    if (p.options.life_s > CLOCK_LIFE_MAX_S)
        p.options.life_s = CLOCK_LIFE_MAX_S;
    bool scoped = has_subnet(key) && options->scope > 0;
    if (has_subnet(key) && !scoped)
        p.flags |= RECORD_SUBNET;
    else if (key->subnet != NULL && key->subnet->source == 0)
        p.flags |= RECORD_OPTOUT;
    cache_clock_stale(c, options->stale_max_s);
    /* a failure for some clients is not to stand before an answer for more of them */
    p.replace_only = options->failure && (scoped || (p.flags & RECORD_OPTOUT)) &&
                     has_usable(c, key, options);
    do {
        p.arena = cache_arena_load(&c->arena);
        if (!cache_key_from_name(&p.name, &p.arena->hash, key->qname, key->qname_len))
            return ERR_FORMAT;
        cache_arena_prefetch(cache_arena_home(p.arena, p.name.hash));
        cache_arena_prefetch(cache_arena_other(p.arena, p.name.hash));
        cache_resize_check(c, p.arena, &p.name);
        err = scoped ? put_scoped(&p) : put_shared(&p);
    } while (err == ERR_MISSING);
    if (err == ERR_OK && !p.kept)
        cache_count(c, COUNT_PUTS, 1);
    cache_arena_check(p.arena, racy_load(&c->used));
    cache_crowded_check(c);
    return err;
}

static bool remove_each(struct serving *s, const struct cache_name *name, uint8_t flags)
{
    return cache_store_drop_record(s->c, s->arena, name, s->key->qtype, flags) != STORE_RETIRED;
}

void cache_remove(struct cache *c, const struct cache_key *key)
{
    struct serving s = {.c = c, .key = key, .each = remove_each};
    while (!serving_walk(&s))
        ;
}

static bool block_each(struct serving *s, const struct cache_name *name, uint8_t flags)
{
    cache_refresh_block(s->c->refresh, cache_refresh_id(name->hash, s->key->qtype, flags),
                        s->now_s, CACHE_REFRESH_S);
    return true;
}

void cache_refresh_failed(struct cache *c, const struct cache_key *key, uint32_t now_s)
{
    struct serving s = {.c = c, .key = key, .now_s = now_s, .each = block_each};
    serving_walk(&s);
}
