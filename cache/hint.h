/* hint.h - where the entries of names lay that are asked for all the time.
 *
 * Most questions are for few names. A hint takes such a question from the hash of its name to
 * the entry, without a look through two pages. Hints are in a table of the arena that any
 * thread reads and writes without a lock, in sets of two, the later one first. One is
 *
 *   where    | other, 1 bit | slot, 12 | offset, 11 | seq, 32 |    from bit 55 down
 *   mixed    where, exclusive-or the hash
 *
 *   other    the entry is in the other page of its key, not at home
 *   slot     of the entry
 *   offset   where it begins in the page's body, in units of 4 octets
 *   seq      of the page then
 *
 * A page that still has this seq was not written to since, so the entry is where it was. As the
 * hash also says which page that is, a hint of another hash would be worthless: two words of
 * two hints (one is written while the other is read) make up a hash that nobody asks for.
 * A seq comes again after 2^31 changes of a page; the table is cleared once in each round of
 * sweeping, which takes a day. */
#ifndef PITH_CACHE_HINT_H
#define PITH_CACHE_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/page.h"
#include "cache/racy.h"

enum {
    HINT_SHARE = 768, /* of the cache */
    HINTS_MAX = 8192, /* so that they stay in the second-level cache */
    HINT_OFFSET = 32,
    HINT_SLOT = 43,
    HINT_OTHER = 55,
    HINT_PLACE = 16, /* bits of the hash from here on choose the set */
};
_Static_assert(PAGE_BODY / 4 < 1 << (HINT_SLOT - HINT_OFFSET), "an offset fits");
_Static_assert(PAGE_SLOTS_MAX < 1 << (HINT_OTHER - HINT_SLOT), "a slot fits");

struct cache_hint {
    uint64_t where, mixed;
};

struct cache_hints {
    struct cache_hint (*sets)[2];
    size_t mask; /* a power of two of sets, less one */
};

/* How many sets a cache of so many octets has: all of them from the start, however small its
 * first arena. */
static inline size_t cache_hints_for(size_t bytes)
{
    size_t n = HINTS_MAX / 2;
    while (n > 1 && n * sizeof(struct cache_hint[2]) > bytes / HINT_SHARE)
        n /= 2;
    return n;
}

static inline struct cache_hint *cache_hints_of(const struct cache_hints *h, uint64_t hash)
{
    return h->sets[hash >> HINT_PLACE & h->mask];
}

/* What is known of the hash's entry; 0 for nothing. */
static inline uint64_t cache_hint_get(const struct cache_hint *set, uint64_t hash)
{
    uint64_t first = racy_load(&set[0].where), second = racy_load(&set[1].where);
    bool is_first = (racy_load(&set[0].mixed) ^ first) == hash;
    bool is_second = (racy_load(&set[1].mixed) ^ second) == hash;
    return is_first ? first : is_second ? second : 0;
}

static inline void cache_hint_put(struct cache_hint *set, uint64_t hash, uint64_t where)
{
    uint64_t first = racy_load(&set[0].where), mixed = racy_load(&set[0].mixed);
    if ((mixed ^ first) != hash) {
        racy_store(&set[1].where, first);
        racy_store(&set[1].mixed, mixed);
    }
    racy_store(&set[0].where, where);
    racy_store(&set[0].mixed, where ^ hash);
}

static inline uint64_t cache_hint_make(bool other, unsigned slot, size_t offset, uint32_t seq)
{
    return (uint64_t)other << HINT_OTHER | (uint64_t)slot << HINT_SLOT |
           (uint64_t)(offset / 4) << HINT_OFFSET | seq;
}

static inline bool cache_hint_is_other(uint64_t where)
{
    return where >> HINT_OTHER & 1;
}

static inline unsigned cache_hint_slot(uint64_t where)
{
    return where >> HINT_SLOT & 0xff;
}

static inline size_t cache_hint_offset(uint64_t where)
{
    return (where >> HINT_OFFSET & 0x7ff) * 4;
}

static inline void cache_hints_clear(const struct cache_hints *h)
{
    for (size_t i = 0; i <= h->mask; i++) {
        for (size_t k = 0; k < 2; k++)
            racy_store(&h->sets[i][k].where, 0);
    }
}

#endif
