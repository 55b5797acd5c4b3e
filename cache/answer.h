/* answer.h - from a record to an answer. */
#ifndef PITH_CACHE_ANSWER_H
#define PITH_CACHE_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"
#include "cache/record.h"

/* Writes the answer to the key's question from a record that is whole: r was read from it, the
 * record ends at end or before. left_s is what cache_record_left() says: above 0 the RRs' TTLs
 * are what is left of them, else stale_ttl_s. Returns the message's length, 0 when it does not
 * fit, and sets *max_age_s as struct cache_answer has it. */
size_t cache_answer_write(uint8_t *out, size_t size, const struct cache_key *key,
                          const struct cache_record *r, const uint8_t *end, int32_t left_s,
                          uint32_t stale_ttl_s, uint32_t *max_age_s);

#endif
