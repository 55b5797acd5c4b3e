/* flush.c - forgetting. */
#include "cache/cache.h"
#include "cache/room.h"
#include "cache/store.h"

static void page_empty(struct cache *c, struct cache_page *p)
{
    while (p->n > 0)
        cache_room_remove(c, p, p->n - 1u, PAGE_BODY - (size_t)p->used);
}

void cache_flush_all(struct cache *c)
{
    struct cache_arena *a = cache_arena_load(&c->arena);
    for (size_t i = 0; i < a->pages; i++) {
        struct cache_page *p = &a->page[i];
        if (racy_load(&p->n) == 0 && !(racy_load(&p->seq) & 1))
            continue;
        cache_page_lock(p);
        page_empty(c, p);
        cache_page_unlock(p);
    }
}

size_t cache_flush_name(struct cache *c, const uint8_t *name, size_t len)
{
    struct cache_arena *a = cache_arena_load(&c->arena);
    struct cache_name key;
    if (!cache_key_from_name(&key, &a->key, name, len))
        return 0;
    return cache_store_drop(c, a, &key);
}

void cache_forget_failures(struct cache *c)
{
    __atomic_fetch_add(&c->epoch, 1, __ATOMIC_RELAXED);
}
