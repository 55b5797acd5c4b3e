/* clock.h - the two clocks.
 *
 * Only front ends, src/ and main read a clock; cache/ and dns/ take the time as
 * an argument. Tests move both clocks with clock_advance(). */
#ifndef PITH_CORE_CLOCK_H
#define PITH_CORE_CLOCK_H

#include <stdint.h>

/* Monotonic milliseconds, counting suspend (CLOCK_BOOTTIME): for time-outs and
 * for the life of cached answers. Never 0. */
uint64_t clock_now_ms(void);

/* Seconds of the same clock; what the cache takes as `now_s`. */
uint32_t clock_now_s(void);

/* Microseconds of the same clock, for response times. */
uint64_t clock_now_us(void);

/* Wall clock seconds since 1970, for the date header, DNS cookies, snapshots. */
int64_t clock_wall_s(void);

/* Moves both clocks forward by ms. For tests; thread-safe. */
void clock_advance(uint64_t ms);

#endif
