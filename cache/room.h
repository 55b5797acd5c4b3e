/* room.h - making room in a page: displacement and eviction. */
#ifndef PITH_CACHE_ROOM_H
#define PITH_CACHE_ROOM_H

#include "cache/entry.h"
#include "cache/internal.h"

/* Where an entry is to go. All pages named here are held by the caller; they may be the same
 * one. */
struct cache_room {
    struct cache *c;
    struct cache_arena *a;
    struct cache_page *home, *other;
    uint32_t now_s;
};

/* Returns one of the two pages with room for an entry of len octets (at most ENTRY_MAX). */
struct cache_page *cache_room_make(const struct cache_room *r, size_t len);

/* Takes an entry out or adds one, and counts: entries, octets, forms. soonest is kept right. */
void cache_room_remove(struct cache *c, struct cache_page *p, unsigned i, size_t off);
void cache_room_append(struct cache *c, struct cache_page *p, uint8_t tag, uint8_t meta,
                       const uint8_t *entry, size_t len, uint32_t now_s);

/* Counts the records of an entry: sign 1 or -1. */
void cache_room_count(struct cache *c, uint8_t kind, const uint8_t *entry, size_t len,
                      int sign);

/* Makes p->soonest right for an entry that came or changed in p. */
void cache_room_soonest(struct cache_page *p, uint8_t kind, const uint8_t *entry, size_t len,
                        uint32_t now_s);

/* Makes p->soonest exact. To be called for every page at least every day, or what it says is
 * too long ago to be told from what is to come. */
void cache_room_soonest_all(struct cache_page *p, uint32_t now_s);

#endif
