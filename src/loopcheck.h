/* loopcheck.h - noticing that an upstream forwards our questions back to us.
 *
 * DNS messages carry no hop count, and a question that comes back cannot be told from a
 * client's. So the probes that look after an upstream in trouble ask for a name that nobody
 * else can know: when a query for it arrives here, that upstream is part of a loop. The name is
 * below test. (RFC 6761 6.2), so outside a loop the answer is NXDOMAIN at most, and any answer
 * will do. Thread: any. One secret a process. */
#ifndef PITH_LOOPCHECK_H
#define PITH_LOOPCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/wire.h"

enum { LOOPCHECK_SLOTS = 64 }; /* upstreams that can be told apart */

/* Writes the name for an upstream, slot < LOOPCHECK_SLOTS. Returns its length. */
size_t loopcheck_name(uint8_t out[DNS_NAME_MAX], unsigned slot);

/* True when a query's name is one of ours; it is noted. Cheap for all other names. */
bool loopcheck_note(const uint8_t *qname, size_t len);

/* When (clock_now_ms()) the name of this slot came in last; 0: never. */
uint64_t loopcheck_seen_ms(unsigned slot);

#endif
