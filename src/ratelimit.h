/* ratelimit.h - queries a second and client, shared by all workers.
 *
 * A token bucket for each IPv4 address or IPv6 /56 in a fixed table with a keyed hash. Two
 * clients whose places collide share no bucket: the one idle longer gives way. Thread: any. */
#ifndef PITH_RATELIMIT_H
#define PITH_RATELIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/addr.h"

/* Takes one query of this client; false when its bucket of `burst` (0: the same as per_s),
 * refilled with per_s tokens a second, is empty. per_s > 0. */
bool ratelimit_take(const struct addr *client, uint32_t per_s, uint32_t burst, uint64_t now_ms);

#endif
