/* ecs.h - answers for subnets (RFC 7871 7.3).
 *
 * A name that has some keeps, beside its answers for everyone, a SUBNETS record, the head:
 * which prefixes they are for, and a generation. Each such answer is an entry of its own, in
 * pages of its own, whose key is a fingerprint of 64 bits:
 *
 *   SipHash of ( name's hash | generation | type | flags | family | length | scope | prefix )
 *
 * A lookup computes the fingerprint for each prefix length in the head that covers the client,
 * the longest first. When the head goes, by eviction or a flush, its answers are out of reach,
 * and as a new head draws a new generation they stay so until they are evicted.
 *
 * Body of a head: | generation, 32 | count times: family, length, scope |
 *
 * length is min(source, scope) of what was put. scope > length: the answer is for a longer
 * prefix than was asked with and serves only who asks with this very source length. */
#ifndef PITH_CACHE_ECS_H
#define PITH_CACHE_ECS_H

#include "cache/store.h"

enum { ECS_PREFIXES_MAX = 8, ECS_PREFIX_LEN = 3 };

static inline size_t cache_ecs_head_len(unsigned count)
{
    return 4 + ECS_PREFIX_LEN * (size_t)count;
}

/* The answers that may serve a key: their fingerprints, the longest prefix first. */
struct cache_ecs_list {
    size_t n;
    struct {
        uint64_t fingerprint;
        uint8_t scope;
    } at[ECS_PREFIXES_MAX];
};

/* Fills the list from the head of a name; flags are the key's. found is for its use. True when
 * there is a head. */
bool cache_ecs_candidates(const struct cache_arena *a, const struct cache_name *name,
                          const struct cache_key *key, uint8_t flags,
                          struct cache_ecs_list *list, struct cache_found *found);

/* What is about to be put for a subnet. */
struct cache_ecs_put {
    const struct cache_key *key;
    uint8_t flags;
    uint8_t scope;
    bool failure;
    uint32_t now_s, life_s, stale_max_s;
};

/* Enters the prefix in the head, which is made if there is none, and gives the fingerprint to
 * put the answer under; others for the same prefix, but of another scope, are taken out, unless
 * what comes is a failure.
 * ERR_LIMIT: too many prefixes already; ERR_MISSING: the arena is retired. */
enum err cache_ecs_enter(struct cache *c, struct cache_arena *a, const struct cache_name *name,
                         const struct cache_ecs_put *put, uint64_t *fingerprint);

#endif
