/* resize.c - from one arena to another while callers go on. */
#include "cache/resize.h"

#include <string.h>

#include "cache/clock.h"
#include "cache/large.h"
#include "cache/refresh.h"
#include "cache/room.h"
#include "cache/store.h"

enum {
    DROP_PAGES = 256,     /* 1 MiB: memory is given back in such lots */
    RETIRED_KEPT_S = 600, /* nobody is inside an arena any more that was retired so long ago */
};

/* Kept apart for its buffer of 64 KiB. */
__attribute__((noinline)) size_t cache_resize_large(struct cache *c,
                                                    const struct cache_arena *from,
                                                    uint64_t from_id, struct cache_arena *to,
                                                    uint64_t to_id,
                                                    const struct cache_record *r, uint8_t *stub)
{
    uint8_t record[LARGE_MAX + 8];
    size_t len = cache_large_get(from, from_id, r, record);
    return len > 0 ? cache_large_put(c, to, to_id, record, len, stub) : 0;
}

/* One arena to the other. */
struct move {
    struct cache *c;
    struct cache_arena *from, *to;
    bool same_key;
    struct cache_store_rule rule;
};

/* Writes what of an entry can go: not the head of subnets under another hash key, not large
 * records that are overwritten. Returns its length, 0 when that is nothing. */
static size_t entry_carry(const struct move *m, const struct cache_name *from,
                          const struct cache_name *to, const uint8_t *entry, size_t len,
                          uint8_t *out)
{
    struct cache_entry e;
    size_t n = to->key_len, last = SIZE_MAX;
    memcpy(out, to->key, n);
    for (bool more = cache_entry_first(&e, to->kind, entry, len); more;
         more = cache_entry_next(&e)) {
        const struct cache_record *r = &e.record;
        uint8_t stub[LARGE_STUB_MAX];
        const uint8_t *record = r->start;
        size_t record_len = cache_record_size(r, e.left);
        if (r->form == FORM_SUBNETS && !m->same_key)
            continue;
        if (r->form == FORM_LARGE) {
            uint8_t flags = r->flags & RECORD_KEY;
            record = stub;
            record_len =
                cache_resize_large(m->c, m->from, cache_refresh_id(from->hash, r->type, flags),
                                   m->to, cache_refresh_id(to->hash, r->type, flags), r, stub);
        }
        if (record_len == 0)
            continue;
        if (last != SIZE_MAX)
            out[last] |= RECORD_MORE;
        last = n;
        memcpy(out + n, record, record_len);
        out[n] &= (uint8_t)~RECORD_MORE;
        n += record_len;
    }
    if (last == SIZE_MAX)
        return 0;
    memset(out + n, 0, 4);
    return (n + 3) & ~(size_t)3;
}

/* Puts a copy of an entry of the old arena into the new one. */
static void entry_move(struct move *m, uint8_t meta, const uint8_t *entry, size_t len)
{
    struct cache_name from, to;
    uint8_t kind = meta & META_KIND, carried[ENTRY_MAX + 8];
    if (kind == KEY_FINGERPRINT && !m->same_key)
        return;
    if (!cache_key_from_entry(&from, &m->from->hash, kind, entry, len) ||
        !cache_key_from_entry(&to, &m->to->hash, kind, entry, len))
        return;
    size_t n = entry_carry(m, &from, &to, entry, len, carried);
    if (n == 0)
        return;
    m->rule.meta = meta & (META_MAIN | META_ASKED);
    cache_store_put_entry(m->c, m->to, &to, carried, n, &m->rule);
}

static struct move move_of(struct cache *c, struct cache_arena *from, struct cache_arena *to,
                           uint32_t now_s)
{
    return (struct move){
        .c = c,
        .from = from,
        .to = to,
        .same_key =
            from->hash.sip.k0 == to->hash.sip.k0 && from->hash.sip.k1 == to->hash.sip.k1,
        .rule = {.now_s = now_s,
                 .stale_max_s = UINT32_MAX,
                 .if_absent = !racy_load(&c->move_replaces)},
    };
}

/* Moves the entries of a page that are of a name, or all; the page is held. */
static void page_move(struct move *m, struct cache_page *p, const struct cache_name *only)
{
    size_t off = PAGE_BODY;
    for (unsigned i = 0; i < p->n;) {
        size_t len = page_len(p, i);
        uint8_t meta = (uint8_t)page_meta(p, i);
        off -= len;
        if (only != NULL && ((meta & META_KIND) != only->kind || len < only->key_len ||
                             memcmp(p->body + off, only->key, only->key_len) != 0)) {
            i++;
            continue;
        }
        entry_move(m, meta, p->body + off, len);
        cache_room_remove(m->c, p, i, off);
        off += len;
    }
}

void cache_resize_pull(struct cache *c, struct cache_arena *old, struct cache_arena *fresh,
                       const struct cache_name *name)
{
    struct move m = move_of(c, old, fresh, racy_load(&c->clock_s));
    struct cache_name there;
    if ((name->kind == KEY_FINGERPRINT && !m.same_key) ||
        !cache_key_from_entry(&there, &old->hash, name->kind, name->key, name->key_len))
        return;
    struct cache_page *home = cache_arena_home(old, there.hash);
    struct cache_page *other = cache_arena_other(old, there.hash);
    if (racy_load(&home->n) == 0 && racy_load(&other->n) == 0 && !(racy_load(&home->seq) & 1) &&
        !(racy_load(&other->seq) & 1))
        return;
    cache_store_lock(home, other);
    page_move(&m, home, &there);
    if (other != home)
        page_move(&m, other, &there);
    cache_store_unlock(home, other);
}

/* Puts an arena aside. Callers may still be in it, so its addresses stay for a while. */
static void retire(struct cache *c, struct cache_arena *old, uint32_t now_s)
{
    cache_arena_drop(old, 0, old->pages);
    old->retired_s = now_s;
    struct cache_arena **at = &c->retired;
    while (*at != NULL) {
        struct cache_arena *a = *at;
        if (now_s - a->retired_s >= RETIRED_KEPT_S) {
            *at = a->next;
            cache_arena_destroy(a);
        } else {
            at = &a->next;
        }
    }
    old->next = NULL;
    *at = old;
}

void cache_resize_to(struct cache *c, struct cache_arena *fresh, bool replaces, uint32_t now_s)
{
    struct cache_arena *old = c->arena;
    racy_store(&c->move_replaces, replaces);
    __atomic_store_n(&c->old, old, __ATOMIC_SEQ_CST);
    __atomic_store_n(&c->arena, fresh, __ATOMIC_SEQ_CST);
    __atomic_store_n(&old->retired, true, __ATOMIC_SEQ_CST);
    cache_arena_is(c, fresh);

    struct move m = move_of(c, old, fresh, now_s);
    for (size_t i = 0; i < old->pages; i++) {
        struct cache_page *p = &old->page[i];
        /* an untouched page stays so; who is about to put something into it will find the arena
         * retired */
        if (__atomic_load_n(&p->seq, __ATOMIC_SEQ_CST) != 0) {
            cache_page_lock(p);
            page_move(&m, p, NULL);
            cache_page_unlock(p);
        }
        if ((i + 1) % DROP_PAGES == 0)
            cache_arena_drop(old, i + 1 - DROP_PAGES, i + 1);
    }
    cache_large_clear(c, old);
    cache_clock_new_arena(c, now_s);
    __atomic_store_n(&c->old, NULL, __ATOMIC_RELEASE);
    retire(c, old, now_s);
}

/* The caller holds c->admin. */
static enum err move_to(struct cache *c, size_t arena_bytes, uint32_t now_s)
{
    struct cache_arena *fresh = cache_arena_create(arena_bytes, c->bytes, &c->arena->hash.sip);
    if (fresh == NULL)
        return ERR_NOMEM;
    cache_resize_to(c, fresh, false, now_s);
    return ERR_OK;
}

enum err cache_resize(struct cache *c, size_t bytes, uint32_t now_s)
{
    enum err err = ERR_OK;
    if (bytes < CACHE_MIN_BYTES)
        return ERR_NOMEM;
    pthread_mutex_lock(&c->admin);
    size_t before = c->bytes;
    __atomic_store_n(&c->bytes, bytes, __ATOMIC_RELAXED);
    size_t arena = cache_arena_first(c, racy_load(&c->used));
    if (arena != c->arena->bytes)
        err = move_to(c, arena, now_s);
    else
        cache_arena_is(c, c->arena);
    if (err != ERR_OK) {
        __atomic_store_n(&c->bytes, before, __ATOMIC_RELAXED);
        cache_arena_is(c, c->arena);
    }
    pthread_mutex_unlock(&c->admin);
    return err;
}

enum err cache_grow(struct cache *c, uint32_t now_s)
{
    enum err err = ERR_OK;
    pthread_mutex_lock(&c->admin);
    if (c->arena->bytes < cache_arena_most(c)) {
        err = move_to(c, cache_arena_most(c), now_s);
        /* Entries are all over it by now, so it costs no memory to have it in large pieces, and
         * here nobody waits for it. */
        while (err == ERR_OK && cache_arena_join(c->arena))
            ;
        if (err != ERR_OK)
            cache_arena_is(c, c->arena);
    }
    pthread_mutex_unlock(&c->admin);
    return err;
}
