/* check.h - everything about a cache that must always hold. For tests: nobody else may be
 * inside. */
#ifndef PITH_CACHE_CHECK_H
#define PITH_CACHE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

/* Lengths in every page add up; every entry is well-formed and in a page of its key, with the
 * tag of its key; no key is there twice; soonest is not too late; counters are the sums of what
 * is there. On false, `why` says what is wrong and where. */
bool cache_check(struct cache *c, uint32_t now_s, char *why, size_t size);

#endif
