/* stats.h - counters, kept by thread.
 *
 * Each of the first threads that use a cache counts in a line of its own with plain adds; the
 * others share the last line with atomic ones. Sums are over all lines, so a line's own numbers
 * mean nothing. */
#ifndef PITH_CACHE_STATS_H
#define PITH_CACHE_STATS_H

#include <stdint.h>

#include "cache/racy.h"

enum { STATS_LINES = 32 };

enum cache_count {
    COUNT_HITS,
    COUNT_MISSES,
    COUNT_STALE,
    COUNT_PUTS,
    COUNT_UPDATES,
    COUNT_EVICTIONS,
    COUNT_EVICTED_EXPIRED,
    COUNT_TOO_LARGE,
    COUNT_SUBNETS_CAPPED,
    COUNT_ENTRIES, /* what is there now: goes up and down */
    COUNT_BYTES,   /* of entries and slots in pages */
    COUNT_LARGE_BYTES,
    COUNT_REPORTED, /* how much of COUNT_BYTES is in cache.used */
    COUNT_FORM,     /* eight, by form */
    COUNTS = COUNT_FORM + 8,
};

struct cache_stats_line {
    _Alignas(64) uint64_t count[COUNTS];
};

/* The calling thread's line, 0..STATS_LINES-1. */
extern _Thread_local unsigned cache_stats_thread;
unsigned cache_stats_new_thread(void);

static inline void cache_stats_add(struct cache_stats_line *lines, enum cache_count what,
                                   int64_t n)
{
    unsigned line = cache_stats_thread;
    if (line == 0)
        line = cache_stats_new_thread();
    uint64_t *p = &lines[line - 1].count[what];
    if (line < STATS_LINES)
        racy_store(p, racy_load(p) + (uint64_t)n);
    else
        __atomic_fetch_add(p, (uint64_t)n, __ATOMIC_RELAXED);
}

uint64_t cache_stats_sum(const struct cache_stats_line *lines, enum cache_count what);

#endif
