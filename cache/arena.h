/* arena.h - the memory of a cache: one mapping, cut into pages.
 *
 *   | page 0 | page 1 | ... | page P-1 |    | large page 0 | ... | large page L-1 |
 *     4160                                    64 KiB, 1/16 of all
 *
 * All of it is zero in the beginning, which is an empty page, and becomes resident as it is
 * written to. No pointers lie in it. A key's hash names two pages, one of which has it.
 *
 * A page is a line of the processor's cache longer than a power of two: were it not, the heads
 * of all pages would fall into the same few sets of that cache, and of 2000 hot pages most
 * would be out of it.
 *
 * Keys are spread over all of the arena, so that nearly every lookup would miss the TLB. When
 * so much is in use that all pages are resident anyway, they are joined into huge ones, 2 MiB
 * at a time. */
#ifndef PITH_CACHE_ARENA_H
#define PITH_CACHE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/hint.h"
#include "cache/page.h"
#include "core/hash.h"

enum { LARGE_PAGE_SIZE = 65536, ARENA_LARGE_SHARE = 16, ARENA_HUGE = 1 << 21 };

struct cache_arena {
    size_t bytes;
    struct cache_hash hash;
    struct cache_page *page;
    size_t pages;
    struct cache_hints hints;
    uint8_t *large;
    size_t larges;
    uint32_t large_lock;           /* over the next three (large.c) */
    uint32_t large_at, large_next; /* page and unit where the log goes on */
    uint32_t large_stamp;
    size_t huge_at; /* 2 MiB that are joined next; SIZE_MAX: all are */
    bool retired;   /* nothing more may be put here */
    void *map;
    size_t map_len;
    struct cache_arena *next; /* of those that are retired */
    uint32_t retired_s;
};

/* Of so many octets, with hints as a cache of cache_bytes has. NULL when memory is out. Owner:
 * the caller, cache_arena_destroy(). */
struct cache_arena *cache_arena_create(size_t bytes, size_t cache_bytes,
                                       const struct hash_key *key);
void cache_arena_destroy(struct cache_arena *a);

/* Octets for slots and entries in all pages. */
static inline uint64_t cache_arena_capacity(const struct cache_arena *a)
{
    return (uint64_t)a->pages * PAGE_BODY;
}

/* Gives the memory of these pages back (with the last ones that of the large pages) but keeps
 * the addresses, where late readers then find empty pages. Nothing before them is in use. */
void cache_arena_drop(struct cache_arena *a, size_t first, size_t end);

/* The two pages of a key; they may be the same one. */
static inline struct cache_page *cache_arena_home(const struct cache_arena *a, uint64_t hash)
{
    return a->page + ((hash >> 32) * a->pages >> 32);
}

static inline struct cache_page *cache_arena_other(const struct cache_arena *a, uint64_t hash)
{
    uint64_t mixed = hash * 0x9e3779b97f4a7c15 >> 32;
    return a->page + (mixed * a->pages >> 32);
}

/* Has what a get looks at first on its way into the processor's cache: head and slots. */
static inline void cache_arena_prefetch_read(const struct cache_page *p)
{
    __builtin_prefetch(p);
    __builtin_prefetch((const char *)p + 64);
    __builtin_prefetch((const char *)p + 128);
    __builtin_prefetch((const char *)p + 192);
}

/* Has what a put looks at first on its way into the processor's cache: locks, slots, ghosts. */
static inline void cache_arena_prefetch(const struct cache_page *p)
{
    __builtin_prefetch(p, 1);
    __builtin_prefetch((const char *)p + 64, 1);
    __builtin_prefetch((const char *)p + PAGE_SIZE - 128, 1);
    __builtin_prefetch((const char *)p + PAGE_SIZE - 64, 1);
}

/* Joins the next 2 MiB; to be called now and then while `used` octets are in use. False when
 * all are joined. */
bool cache_arena_join(struct cache_arena *a);
static inline void cache_arena_check(struct cache_arena *a, uint64_t used)
{
    if (__builtin_expect(racy_load(&a->huge_at) != SIZE_MAX, 0) &&
        used > cache_arena_capacity(a) / 8)
        cache_arena_join(a);
}

/* Over the log of large pages. */
void cache_arena_lock(struct cache_arena *a);
void cache_arena_unlock(struct cache_arena *a);

static inline struct cache_arena *cache_arena_load(struct cache_arena *const *a)
{
    return __atomic_load_n(a, __ATOMIC_ACQUIRE);
}

#endif
