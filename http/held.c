/* held.c - the sum. */
#include "http/held.h"

#include <stdatomic.h>

static atomic_size_t sum;

bool held_move(size_t *reported, size_t now)
{
    size_t more = now - *reported;
    size_t all = atomic_fetch_add_explicit(&sum, more, memory_order_relaxed) + more;
    bool grew = now > *reported;

    *reported = now;
    return !grew || all <= HELD_ALL_MAX;
}
