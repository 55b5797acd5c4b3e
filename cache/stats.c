/* stats.c - counters, kept by thread. */
#include "cache/stats.h"

#include <stddef.h>
#include <string.h>

#include "cache/internal.h"

_Thread_local unsigned cache_stats_thread;

unsigned cache_stats_new_thread(void)
{
    static unsigned threads;
    unsigned n = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    /* the counter may wrap after 2^32 threads, no sooner than anybody would notice */
    cache_stats_thread = n < STATS_LINES - 1 ? n + 1 : STATS_LINES;
    return cache_stats_thread;
}

uint64_t cache_stats_sum(const struct cache_stats_line *lines, enum cache_count what)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < STATS_LINES; i++)
        sum += racy_load(&lines[i].count[what]);
    return sum;
}

void cache_stats(const struct cache *c, struct cache_stats *out)
{
    const struct cache_stats_line *l = c->lines;
    *out = (struct cache_stats){
        .entries = cache_stats_sum(l, COUNT_ENTRIES),
        .bytes_used = cache_stats_sum(l, COUNT_BYTES),
        .bytes_total = __atomic_load_n(&c->bytes, __ATOMIC_RELAXED),
        .bytes_large = cache_stats_sum(l, COUNT_LARGE_BYTES),
        .hits = cache_stats_sum(l, COUNT_HITS),
        .misses = cache_stats_sum(l, COUNT_MISSES),
        .stale = cache_stats_sum(l, COUNT_STALE),
        .puts = cache_stats_sum(l, COUNT_PUTS),
        .updates = cache_stats_sum(l, COUNT_UPDATES),
        .evictions = cache_stats_sum(l, COUNT_EVICTIONS),
        .evicted_expired = cache_stats_sum(l, COUNT_EVICTED_EXPIRED),
        .too_large = cache_stats_sum(l, COUNT_TOO_LARGE),
        .subnets_capped = cache_stats_sum(l, COUNT_SUBNETS_CAPPED),
    };
    for (unsigned i = 0; i < 8; i++)
        out->entries_by_form[i] = cache_stats_sum(l, (enum cache_count)(COUNT_FORM + i));
}
