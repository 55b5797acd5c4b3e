/* internal.h - what the files of the cache share. */
#ifndef PITH_CACHE_INTERNAL_H
#define PITH_CACHE_INTERNAL_H

#include <pthread.h>

#include "cache/arena.h"
#include "cache/cache.h"
#include "cache/page.h"
#include "cache/record.h"
#include "cache/stats.h"

struct cache {
    struct cache_arena *arena; /* read with cache_arena_load() */
    struct cache_arena *old;   /* being moved out of (resize.c); else NULL */
    size_t bytes;              /* as asked for */
    bool grows;                /* the first arena is a part of that */
    uint64_t crowded_at;       /* `used` when it is; UINT64_MAX: it is told, or has all */
    void (*when_crowded)(void *arg);
    void *when_arg;
    uint64_t used;        /* octets in use, roughly: lines add to it in lots */
    uint64_t capacity;    /* octets for entries in the pages of `arena` */
    uint32_t clock_s;     /* clock.h: how far sweeping has come; mostly now, to 64 s */
    uint32_t clock_runs;  /* 0 before the first call, and while all is forgotten */
    uint32_t clock_busy;  /* somebody is moving it on */
    uint32_t round_s;     /* when the round of sweeping began that is under way */
    uint32_t swept_s;     /* and the one before it: no page was swept earlier */
    size_t sweep_at;      /* the page that is swept next */
    uint32_t stale_max_s; /* how long past its life anything is of use */
    uint32_t generation;  /* of SUBNETS heads */
    uint32_t epoch;       /* of failures; the lower 16 bits count */
    uint32_t has_optouts; /* some answer was got with source 0 */
    struct cache_refresh *refresh;
    uint32_t move_replaces; /* resize.c */
    struct cache_arena *retired;
    pthread_mutex_t admin; /* one resize, save or restore at a time */
    struct cache_stats_line lines[STATS_LINES];
};

/* Octets of the largest arena. */
size_t cache_arena_most(const struct cache *c);

/* Those of the one to begin with, if so many octets of entries are to go into it. */
size_t cache_arena_first(const struct cache *c, uint64_t expected);

/* To be called when c->arena is another one. */
void cache_arena_is(struct cache *c, const struct cache_arena *a);

/* Tells that the arena is too small. */
void cache_crowded(struct cache *c);

static inline void cache_crowded_check(struct cache *c)
{
    if (__builtin_expect(racy_load(&c->used) > racy_load(&c->crowded_at), 0))
        cache_crowded(c);
}

static inline void cache_count(struct cache *c, enum cache_count what, int64_t n)
{
    cache_stats_add(c->lines, what, n);
}

#endif
