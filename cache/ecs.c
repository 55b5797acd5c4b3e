/* ecs.c - answers for subnets. */
#include "cache/ecs.h"

#include <string.h>

#include "dns/ecs.h"

struct prefix {
    uint8_t family, len, scope;
};
_Static_assert(sizeof(struct prefix) == ECS_PREFIX_LEN, "as a head has it");

struct head {
    uint32_t generation;
    unsigned count;
    struct prefix prefix[ECS_PREFIXES_MAX];
};

static bool head_read(struct head *h, const struct cache_record *r)
{
    if (r->count > ECS_PREFIXES_MAX)
        return false;
    memcpy(&h->generation, r->body, sizeof h->generation);
    h->count = r->count;
    memcpy(h->prefix, r->body + sizeof h->generation, r->count * sizeof h->prefix[0]);
    return true;
}

static uint64_t fingerprint(const struct cache_arena *a, const struct cache_name *name,
                            uint32_t generation, uint16_t type, uint8_t flags,
                            const struct prefix *prefix, const struct ecs *subnet)
{
    struct __attribute__((packed)) {
        uint64_t name;
        uint32_t generation;
        uint16_t type;
        uint8_t flags;
        struct prefix prefix;
        uint8_t ip[16];
    } of = {
        .name = name->hash,
        .generation = generation,
        .type = type,
        .flags = flags,
        .prefix = *prefix,
    };
    struct ecs cut = *subnet;
    ecs_cut(&cut, prefix->len);
    memcpy(of.ip, cut.ip, sizeof of.ip);
    return hash_sip(&a->hash.sip, &of, sizeof of);
}

static inline bool serves(const struct prefix *p, const struct ecs *subnet)
{
    return p->family == subnet->family &&
           (p->scope > p->len ? subnet->source == p->len : subnet->source >= p->len);
}

bool cache_ecs_candidates(const struct cache_arena *a, const struct cache_name *name,
                          const struct cache_key *key, uint8_t flags,
                          struct cache_ecs_list *list, struct cache_found *found)
{
    struct cache_record r;
    struct head h;
    uint8_t len[ECS_PREFIXES_MAX];

    list->n = 0;
    if (!cache_store_find(a, name, STORE_SUBNETS, 0, found) ||
        !cache_record_read(&r, found->record, (size_t)(found->end - found->record)) ||
        cache_record_size(&r, (size_t)(found->end - found->record)) == 0 || !head_read(&h, &r))
        return false;
    for (unsigned i = 0; i < h.count; i++) {
        if (!serves(&h.prefix[i], key->subnet))
            continue;
        size_t at = list->n++;
        for (; at > 0 && len[at - 1] < h.prefix[i].len; at--) {
            len[at] = len[at - 1];
            list->at[at] = list->at[at - 1];
        }
        len[at] = h.prefix[i].len;
        list->at[at].scope = h.prefix[i].scope;
        list->at[at].fingerprint =
            fingerprint(a, name, h.generation, key->qtype, flags, &h.prefix[i], key->subnet);
    }
    return true;
}

/* What making the new head needs and gives. */
struct entering {
    struct cache *c;
    const struct cache_ecs_put *put;
    struct prefix prefix;
    struct head head;
    bool full;
};

/* Life of the head: as long as that of the answer that lives longest. */
static uint32_t head_life(const struct cache_record *old, const struct cache_ecs_put *put)
{
    int32_t left = old != NULL ? cache_record_left(old->expiry, put->now_s) : 0;
    return left > 0 && (uint32_t)left > put->life_s ? (uint32_t)left : put->life_s;
}

/* Called with the head's pages held. */
static size_t head_make(void *arg, const uint8_t *old, size_t left, uint8_t *out)
{
    struct entering *e = arg;
    struct cache_record r;
    struct head *h = &e->head;
    unsigned i;
    bool has = old != NULL && cache_record_read(&r, old, left) &&
               cache_record_left(r.expiry, e->put->now_s) > -(int64_t)e->put->stale_max_s &&
               head_read(h, &r);
    if (!has) {
        h->generation = __atomic_add_fetch(&e->c->generation, 1, __ATOMIC_RELAXED);
        h->count = 0;
    }
    for (i = 0; i < h->count; i++) {
        if (memcmp(&h->prefix[i], &e->prefix, sizeof e->prefix) == 0)
            break;
    }
    if (i == ECS_PREFIXES_MAX) {
        e->full = true;
        return 0;
    }
    if (i == h->count)
        h->prefix[h->count++] = e->prefix;

    uint32_t word = cache_record_word(e->put->now_s, head_life(has ? &r : NULL, e->put));
    out[0] = 0;
    out[1] = RECORD_TYPE_SUBNETS;
    memcpy(out + 2, &word, sizeof word);
    out[6] = (uint8_t)(FORM_SUBNETS << 5 | h->count);
    memcpy(out + RECORD_HEAD, &h->generation, sizeof h->generation);
    memcpy(out + RECORD_HEAD + sizeof h->generation, h->prefix, h->count * sizeof h->prefix[0]);
    return RECORD_HEAD + cache_ecs_head_len(h->count);
}

enum err cache_ecs_enter(struct cache *c, struct cache_arena *a, const struct cache_name *name,
                         const struct cache_ecs_put *put, uint64_t *out)
{
    const struct ecs *subnet = put->key->subnet;
    struct entering e = {
        .c = c,
        .put = put,
        .prefix = {.family = subnet->family,
                   .len = subnet->source < put->scope ? subnet->source : put->scope,
                   .scope = put->scope},
    };
    const struct cache_store_rule rule = {
        .now_s = put->now_s,
        .stale_max_s = put->stale_max_s,
        .make = head_make,
        .make_arg = &e,
    };
    if (cache_store_put(c, a, name, STORE_SUBNETS, 0, NULL, 0, &rule) == STORE_RETIRED)
        return ERR_MISSING;
    if (e.full)
        return ERR_LIMIT;
    for (unsigned i = 0; i < e.head.count && !put->failure; i++) {
        const struct prefix *p = &e.head.prefix[i];
        struct cache_name other;
        if (p->family != e.prefix.family || p->len != e.prefix.len ||
            p->scope == e.prefix.scope)
            continue;
        cache_key_from_fingerprint(&other, fingerprint(a, name, e.head.generation,
                                                       put->key->qtype, put->flags, p, subnet));
        cache_store_drop_record(c, a, &other, put->key->qtype, put->flags);
    }
    *out =
        fingerprint(a, name, e.head.generation, put->key->qtype, put->flags, &e.prefix, subnet);
    return ERR_OK;
}
