/* clock.c - the 22-bit clock: sweeps and skips. */
#include "cache/clock.h"

#include "cache/store.h"

enum {
    SWEEP_S = 6 * 3600,
    SWEEP_PAGES = 256, /* in one go, about half a millisecond; or those of a second */
};

/* Sweeps as many pages as are due after so many seconds, or the most that may be done in one
 * go. Returns the seconds that this stands for: the rest is still due. */
static uint32_t sweep(struct cache *c, uint32_t now_s, uint32_t seconds)
{
    struct cache_arena *a = cache_arena_load(&c->arena);
    uint64_t due = (uint64_t)seconds * a->pages / SWEEP_S + 1;
    uint64_t most = a->pages / SWEEP_S + 1;
    if (cache_arena_load(&c->old) != NULL)
        return seconds;
    if (most < SWEEP_PAGES)
        most = SWEEP_PAGES;
    if (due > most) {
        due = most;
        seconds = (uint32_t)(due * SWEEP_S / a->pages);
    }
    for (uint64_t i = 0; i < due; i++) {
        size_t at = racy_load(&c->sweep_at);
        if (at >= a->pages) {
            /* a round is done: all pages have been looked at since it began */
            racy_store(&c->swept_s, racy_load(&c->round_s));
            racy_store(&c->round_s, now_s);
            cache_hints_clear(&a->hints);
            at = 0;
        }
        racy_store(&c->sweep_at, at + 1);
        cache_store_sweep(c, a, &a->page[at], now_s, racy_load(&c->stale_max_s));
    }
    return seconds;
}

static void restart(struct cache *c, uint32_t now_s)
{
    racy_store(&c->swept_s, now_s);
    racy_store(&c->round_s, now_s);
    racy_store(&c->clock_s, now_s);
    racy_store(&c->clock_runs, 1);
}

/* Some page may have something whose expiry reads as one to come. */
static bool is_unsafe(const struct cache *c, uint32_t now_s)
{
    uint32_t unswept = now_s - racy_load(&c->swept_s);
    return (int32_t)unswept < -CLOCK_PLAY_S || /* a skip of more than 68 years, or back */
           ((int32_t)unswept > 0 &&
            unswept >= CLOCK_RANGE_S - CLOCK_PLAY_S - racy_load(&c->stale_max_s));
}

bool cache_clock_moved(struct cache *c, uint32_t now_s)
{
    uint32_t none = 0;
    /* one at a time; others go on meanwhile if that is safe */
    if (!__atomic_compare_exchange_n(&c->clock_busy, &none, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return racy_load(&c->clock_runs) && !is_unsafe(c, now_s);
    int32_t since = (int32_t)(now_s - racy_load(&c->clock_s));
    if (!racy_load(&c->clock_runs)) {
        restart(c, now_s);
    } else if (is_unsafe(c, now_s)) {
        racy_store(&c->clock_runs, 0);
        cache_flush_all(c);
        restart(c, now_s);
    } else if (since >= CLOCK_STEP_S) {
        uint32_t done = sweep(c, now_s, (uint32_t)since);
        racy_store(&c->clock_s, racy_load(&c->clock_s) + done);
    }
    __atomic_store_n(&c->clock_busy, 0, __ATOMIC_RELEASE);
    return true;
}

void cache_clock_new_arena(struct cache *c, uint32_t now_s)
{
    racy_store(&c->sweep_at, 0);
    racy_store(&c->round_s, now_s);
}
