/* clock.h - keeps the 22 bits of an expiry from being read a turn too late.
 *
 * A second of the 22-bit clock means one within 2^21 s, 24 days, of now. So every page is swept
 * of what is past its life for longer than a stale answer may be, a few pages whenever the
 * clock has moved, all of them in SWEEP_S. Should that not have been done for too long, because
 * the machine slept or nobody called, everything is forgotten. */
#ifndef PITH_CACHE_CLOCK_H
#define PITH_CACHE_CLOCK_H

#include "cache/internal.h"

enum {
    CLOCK_STEP_S = 64,
    CLOCK_RANGE_S = 1 << 21,
    CLOCK_PLAY_S = 3600, /* threads may differ in what they call now */
    CLOCK_LIFE_MAX_S = RECORD_LIFE_MAX,
    CLOCK_STALE_MIN_S = 8 * 86400, /* is kept at least, if there is room */
    CLOCK_STALE_MAX_S = 23 * 86400,
};

bool cache_clock_moved(struct cache *c, uint32_t now_s);

/* To be called before entries are looked at. False while another caller is forgetting
 * everything: nothing is to be looked at. */
static inline bool cache_clock_check(struct cache *c, uint32_t now_s)
{
    int32_t since = (int32_t)(now_s - racy_load(&c->clock_s));
    return (since < CLOCK_STEP_S && racy_load(&c->clock_runs)) || cache_clock_moved(c, now_s);
}

/* Stale answers may be so old: what is older is swept away. */
static inline void cache_clock_stale(struct cache *c, uint32_t stale_max_s)
{
    if (stale_max_s > racy_load(&c->stale_max_s))
        racy_store(&c->stale_max_s,
                   stale_max_s < CLOCK_STALE_MAX_S ? stale_max_s : (uint32_t)CLOCK_STALE_MAX_S);
}

/* Pages begin anew to be swept, as the arena is another. */
void cache_clock_new_arena(struct cache *c, uint32_t now_s);

#endif
