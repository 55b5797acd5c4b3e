/* clock.h - keeps the 22 bits of an expiry from being read a turn too late.
 *
 * A second of the 22-bit clock means one within 24 days of now. cache_sweep() takes out in time
 * what is past its life for long; and when the caller's clock skips by days, because the
 * machine slept, everything is forgotten. */
#ifndef PITH_CACHE_CLOCK_H
#define PITH_CACHE_CLOCK_H

#include "cache/internal.h"

enum {
    CLOCK_STEP_S = 64,
    CLOCK_SKIP_S = 4 * 86400, /* no call for so long: entries are not to be trusted */
    /* an expiry is at most this in the future; with a skip, a sweep a day and a day of play
       under 2^21 s */
    CLOCK_LIFE_MAX_S = RECORD_LIFE_MAX,
};

bool cache_clock_moved(struct cache *c, uint32_t now_s);

/* To be called before entries are looked at. False while another caller deals with a skip:
 * nothing is to be looked at. */
static inline bool cache_clock_check(struct cache *c, uint32_t now_s)
{
    int32_t since = (int32_t)(now_s - racy_load(&c->clock_s));
    return since < CLOCK_STEP_S || cache_clock_moved(c, now_s);
}

#endif
