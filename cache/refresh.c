/* refresh.c - who is refreshing what. */
#include "cache/refresh.h"

#include <stdlib.h>

#include "cache/racy.h"

enum { WAYS = 8 }; /* a cache line */

struct cache_refresh {
    size_t sets;
    uint32_t over_s; /* all claims are over at this second */
    _Alignas(
        64) uint64_t claim[]; /* upper half: of the id; lower: the second it ends; 0: none */
};

struct cache_refresh *cache_refresh_create(size_t bytes)
{
    size_t sets = bytes / (WAYS * sizeof(uint64_t));
    if (sets == 0)
        sets = 1;
    size_t size = sizeof(struct cache_refresh) + sets * WAYS * sizeof(uint64_t);
    struct cache_refresh *t = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (t == NULL)
        return NULL;
    t->sets = sets;
    t->over_s = 0;
    for (size_t i = 0; i < sets * WAYS; i++)
        t->claim[i] = 0;
    return t;
}

static inline uint64_t *set_of(struct cache_refresh *t, uint64_t id)
{
    return t->claim + WAYS * (size_t)((id & UINT32_MAX) * t->sets >> 32);
}

static inline uint32_t name_of(uint64_t claim)
{
    return (uint32_t)(claim >> 32);
}

static inline bool is_over(uint64_t claim, uint32_t now_s)
{
    return claim == 0 || (int32_t)((uint32_t)claim - now_s) <= 0;
}

/* The claim of an id, or the one to give up for it. */
static uint64_t *way_of(uint64_t *set, uint32_t name, uint32_t now_s)
{
    uint64_t *best = set;
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t c = racy_load(&set[i]), b = racy_load(best);
        if (c != 0 && name_of(c) == name)
            return &set[i];
        if (!is_over(b, now_s) &&
            (is_over(c, now_s) || (int32_t)((uint32_t)c - (uint32_t)b) < 0))
            best = &set[i];
    }
    return best;
}

/* Makes over_s no earlier than the end of a new claim. */
static void note_end(struct cache_refresh *t, uint32_t end_s)
{
    uint32_t over_s = racy_load(&t->over_s);
    while ((int32_t)(end_s - over_s) > 0 &&
           !__atomic_compare_exchange_n(&t->over_s, &over_s, end_s, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

bool cache_refresh_claim(struct cache_refresh *t, uint64_t id, uint32_t now_s, uint32_t seconds)
{
    uint32_t name = (uint32_t)(id >> 32);
    uint64_t *way = way_of(set_of(t, id), name, now_s);
    uint64_t had = racy_load(way);
    if (had != 0 && name_of(had) == name && !is_over(had, now_s))
        return false;
    uint64_t claim = (uint64_t)name << 32 | (uint32_t)(now_s + seconds);
    note_end(t, now_s + seconds);
    return __atomic_compare_exchange_n(way, &had, claim, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

void cache_refresh_clear(struct cache_refresh *t, uint64_t id, uint32_t now_s)
{
    if ((int32_t)(racy_load(&t->over_s) - now_s) <= 0)
        return; /* mostly nobody refreshes anything */
    uint64_t *set = set_of(t, id);
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t c = racy_load(&set[i]);
        if (c != 0 && name_of(c) == (uint32_t)(id >> 32))
            racy_store(&set[i], 0);
    }
}

void cache_refresh_block(struct cache_refresh *t, uint64_t id, uint32_t now_s, uint32_t seconds)
{
    uint32_t name = (uint32_t)(id >> 32);
    note_end(t, now_s + seconds);
    racy_store(way_of(set_of(t, id), name, now_s),
               (uint64_t)name << 32 | (uint32_t)(now_s + seconds));
}
