/* held.h - what all HTTP connections of the process keep in memory from one wake-up to the
 * next: requests, messages, responses that wait. Thread: any. */
#ifndef PITH_HTTP_HELD_H
#define PITH_HTTP_HELD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    HELD_ALL_MAX = 256 * 1024 * 1024,
    HELD_STEP = 32 * 1024, /* what a connection may have unreported, so that few need to tell */
};

/* Moves the sum from *reported to `now`, both in octets; false when that passes HELD_ALL_MAX
 * (the move is made anyway): the connection that grew has to end. */
bool held_move(size_t *reported, size_t now);

/* The same, but small differences are left for later. */
static inline bool held_report(size_t *reported, size_t now)
{
    size_t more = now - *reported;

    return more + HELD_STEP < 2 * HELD_STEP || held_move(reported, now);
}

#endif
