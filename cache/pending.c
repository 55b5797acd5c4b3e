/* pending.c - calls of cache.h that the engine does not have yet. */
#include "cache/cache.h"
#include "cache/key.h"
#include "cache/internal.h"
#include "cache/store.h"

void cache_remove(struct cache *c, const struct cache_key *key)
{
    struct cache_arena *a = cache_arena_load(&c->arena);
    struct cache_name name;
    uint8_t flags = (uint8_t)((key->dnssec_ok ? RECORD_DO : 0) | (key->checking_disabled ? RECORD_CD : 0));
    if (cache_key_from_name(&name, &a->key, key->qname, key->qname_len))
        cache_store_drop_record(c, a, &name, key->qtype, flags);
}

size_t cache_flush_suffix(struct cache *c, const uint8_t *name, size_t len)
{
    (void)c, (void)name, (void)len;
    return 0;
}

void cache_walk(struct cache *c, uint32_t now_s, bool (*each)(void *arg, const struct cache_entry_info *info), void *arg)
{
    (void)c, (void)now_s, (void)each, (void)arg;
}

enum err cache_save(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s)
{
    (void)c, (void)path, (void)now_s, (void)wall_s;
    return ERR_SYSTEM;
}

enum err cache_restore(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s)
{
    (void)c, (void)path, (void)now_s, (void)wall_s;
    return ERR_MISSING;
}

enum err cache_resize(struct cache *c, size_t bytes, uint32_t now_s)
{
    (void)c, (void)bytes, (void)now_s;
    return ERR_NOMEM;
}
