/* resize.h - from one arena to another while callers go on.
 *
 * The new arena is published first, then the old one is emptied into it page by page. Until
 * that is done, whoever works on a name first brings over what the old arena has of it, so that
 * afterwards only the new one counts. Locks are taken in the order old page, new page, and
 * nobody holds a new page while he waits for an old one. A late caller that still works in the
 * old arena finds it retired once he has a page of it, and begins again. */
#ifndef PITH_CACHE_RESIZE_H
#define PITH_CACHE_RESIZE_H

#include "cache/internal.h"

/* Makes `fresh` the arena and moves everything over. What both have: the old one's stays if
 * `replaces`, else the fresh one's. The caller holds c->admin. */
void cache_resize_to(struct cache *c, struct cache_arena *fresh, bool replaces, uint32_t now_s);

void cache_resize_pull(struct cache *c, struct cache_arena *old, struct cache_arena *fresh,
                       const struct cache_name *name);

/* To be called before a name (or a fingerprint) is worked on in arena a. */
static inline void cache_resize_check(struct cache *c, struct cache_arena *a,
                                      const struct cache_name *name)
{
    struct cache_arena *old = cache_arena_load(&c->old);
    if (__builtin_expect(old != NULL, 0) && old != a)
        cache_resize_pull(c, old, a, name);
}

/* The record that a LARGE record of arena `from` stands for, put into the large pages of `to`.
 * ids are those of the key in either. stub as for cache_large_put(); returns its length, 0 when
 * the record is gone. */
size_t cache_resize_large(struct cache *c, const struct cache_arena *from, uint64_t from_id,
                          struct cache_arena *to, uint64_t to_id, const struct cache_record *r,
                          uint8_t *stub);

#endif
