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

uint32_t clock_now_s(void)
{
    return (uint32_t)(clock_now_us() / 1000000);
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
