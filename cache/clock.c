/* clock.c - the 22-bit clock: skips and sweeps. */
#include "cache/clock.h"

#include "cache/room.h"

bool cache_clock_moved(struct cache *c, uint32_t now_s)
{
    uint32_t clock_s = racy_load(&c->clock_s), none = 0;
    if (clock_s != 0 && now_s - clock_s >= CLOCK_SKIP_S) {
        if (!__atomic_compare_exchange_n(&c->flushing, &none, 1, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            return false;
        /* who waited for the flag may find that all is done */
        if (now_s - racy_load(&c->clock_s) >= CLOCK_SKIP_S)
            cache_flush_all(c);
        racy_store(&c->clock_s, now_s);
        __atomic_store_n(&c->flushing, 0, __ATOMIC_RELEASE);
        return true;
    }
    /* a lost race only loses some seconds */
    racy_store(&c->clock_s, now_s == 0 ? 1 : now_s);
    return true;
}
