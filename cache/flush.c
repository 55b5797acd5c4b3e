/* flush.c - forgetting: a name, what is below one, what is past its life for long, everything.
 */
#include "cache/cache.h"
#include "cache/large.h"
#include "cache/resize.h"
#include "cache/room.h"
#include "cache/store.h"
#include "dns/name.h"

/* Calls for both arenas while one is moved out of, that one first: what moves meanwhile is met
 * in the other. Again when an arena came that this has not seen. */
static size_t arenas_do(struct cache *c,
                        size_t (*what)(struct cache *, struct cache_arena *, const void *),
                        const void *arg)
{
    size_t n = 0;
    struct cache_arena *a, *old;
    do {
        a = cache_arena_load(&c->arena);
        old = cache_arena_load(&c->old);
        if (old != NULL && old != a)
            n += what(c, old, arg);
        n += what(c, a, arg);
    } while (cache_arena_load(&c->arena) != a);
    return n;
}

static bool page_is_empty(const struct cache_page *p)
{
    return racy_load(&p->n) == 0 && !(racy_load(&p->seq) & 1);
}

static size_t arena_empty(struct cache *c, struct cache_arena *a, const void *arg)
{
    (void)arg;
    for (size_t i = 0; i < a->pages; i++) {
        struct cache_page *p = &a->page[i];
        if (page_is_empty(p))
            continue;
        cache_page_lock(p);
        while (p->n > 0)
            cache_room_remove(c, p, p->n - 1u, PAGE_BODY - (size_t)p->used);
        cache_page_unlock(p);
    }
    cache_large_clear(c, a);
    return 0;
}

void cache_flush_all(struct cache *c)
{
    arenas_do(c, arena_empty, NULL);
}

size_t cache_flush_name(struct cache *c, const uint8_t *name, size_t len)
{
    struct cache_arena *a;
    struct cache_name key;
    size_t answers = 0;
    do {
        a = cache_arena_load(&c->arena);
        if (!cache_key_from_name(&key, &a->hash, name, len))
            return 0;
        cache_resize_check(c, a, &key);
    } while (cache_store_drop(c, a, &key, &answers) == STORE_RETIRED);
    return answers;
}

struct suffix {
    const uint8_t *name;
    size_t len;
};

static bool entry_is_below(uint8_t kind, const uint8_t *entry, size_t len,
                           const struct suffix *s)
{
    uint8_t name[DNS_NAME_MAX];
    size_t key_len = cache_key_len(kind, entry, len);
    if (kind == KEY_FINGERPRINT || key_len == SIZE_MAX)
        return false;
    size_t head = kind == KEY_LONG ? 1 : 0;
    size_t n = cache_namecode_decode(name, entry + head, key_len - head);
    return n > 0 && name_below(name, n, s->name, s->len);
}

static size_t arena_flush_suffix(struct cache *c, struct cache_arena *a, const void *arg)
{
    size_t answers = 0;
    for (size_t i = 0; i < a->pages; i++) {
        struct cache_page *p = &a->page[i];
        if (page_is_empty(p))
            continue;
        cache_page_lock(p);
        size_t off = PAGE_BODY;
        for (unsigned s = 0; s < p->n;) {
            size_t len = page_len(p, s);
            uint8_t kind = page_meta(p, s) & META_KIND;
            off -= len;
            if (!entry_is_below(kind, p->body + off, len, arg)) {
                s++;
                continue;
            }
            answers += cache_entry_answers(kind, p->body + off, len);
            cache_room_remove(c, p, s, off);
            off += len;
        }
        cache_page_unlock(p);
    }
    return answers;
}

size_t cache_flush_suffix(struct cache *c, const uint8_t *name, size_t len)
{
    const struct suffix s = {.name = name, .len = len};
    if (name_wire_len(name, len) != len)
        return 0;
    return arenas_do(c, arena_flush_suffix, &s);
}

void cache_forget_failures(struct cache *c)
{
    __atomic_fetch_add(&c->epoch, 1, __ATOMIC_RELAXED);
}
