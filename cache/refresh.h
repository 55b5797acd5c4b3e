/* refresh.h - who is refreshing what: a small table of claims, each with its end.
 *
 * A claim keeps others from refreshing the same entry. The table is of a fixed size; when a set
 * of it is full the claim that ends first makes room, and at worst an entry is refreshed twice.
 */
#ifndef PITH_CACHE_REFRESH_H
#define PITH_CACHE_REFRESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_refresh;

/* For at most so many octets. NULL when memory is out. Owner: the caller, free(). */
struct cache_refresh *cache_refresh_create(size_t bytes);

/* What stands for an entry: its key's hash, type and flags. */
static inline uint64_t cache_refresh_id(uint64_t hash, uint16_t type, uint8_t key_flags)
{
    return hash ^ ((uint64_t)type << 8 | key_flags) * 0x9e3779b97f4a7c15;
}

/* True when nobody else has the entry; then the caller has it for seconds. */
bool cache_refresh_claim(struct cache_refresh *t, uint64_t id, uint32_t now_s,
                         uint32_t seconds);

/* Nobody has it any more. */
void cache_refresh_clear(struct cache_refresh *t, uint64_t id, uint32_t now_s);

/* Nobody gets it for seconds. */
void cache_refresh_block(struct cache_refresh *t, uint64_t id, uint32_t now_s,
                         uint32_t seconds);

#endif
