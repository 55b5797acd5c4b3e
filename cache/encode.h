/* encode.h - from a reply to a record. */
#ifndef PITH_CACHE_ENCODE_H
#define PITH_CACHE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

/* Octets that a record may have: the message's, less what compression has hidden; more is not
 * kept. */
enum { ENCODE_SMALL = 1024 };

/* Writes the record of a checked reply. `flags` are those of RECORD_KEY and RECORD_SUBNET that
 * apply; `v6` says that RECORD_SUBNET was with an IPv6 subnet; `epoch` is that of failures.
 * Returns the length, 0 when it does not fit. */
size_t cache_encode(uint8_t *out, size_t size, const struct dns_reply *reply,
                    const struct cache_put_options *options, uint8_t flags, bool v6,
                    uint16_t epoch);

#endif
