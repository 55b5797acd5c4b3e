/* clock.c - CLOCK_BOOTTIME and the wall clock, both movable by tests. */
#include "core/clock.h"

#include <stdatomic.h>
#include <time.h>

/* What clock_advance() added, in milliseconds. */
static _Atomic uint64_t advanced_ms;

static uint64_t advanced(void)
{
    return atomic_load_explicit(&advanced_ms, memory_order_relaxed);
}

uint64_t clock_now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    /* One second is added so that the first second after boot is not 0. */
    return ((uint64_t)ts.tv_sec + 1) * 1000000 + (uint64_t)ts.tv_nsec / 1000 +
           advanced() * 1000;
}

uint64_t clock_now_ms(void)
{
    return clock_now_us() / 1000;
}

/* Asked for by every query, so it is worked out once a tick of the system's timer, some
 * milliseconds: which tick it is costs a third of what the time does. */
uint32_t clock_now_s(void)
{
    static _Thread_local struct {
        struct timespec tick;
        uint64_t advanced;
        uint32_t now_s;
    } last;
    struct timespec tick;
    uint64_t more = advanced();

    clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    if (tick.tv_nsec != last.tick.tv_nsec || tick.tv_sec != last.tick.tv_sec ||
        more != last.advanced) {
        last.tick = tick;
        last.advanced = more;
        last.now_s = (uint32_t)(clock_now_us() / 1000000);
    }
    return last.now_s;
}

int64_t clock_wall_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec + (int64_t)(advanced() / 1000);
}

void clock_advance(uint64_t ms)
{
    atomic_fetch_add_explicit(&advanced_ms, ms, memory_order_relaxed);
}
