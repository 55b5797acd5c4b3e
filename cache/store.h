/* store.h - records into and out of the two pages of a key. */
#ifndef PITH_CACHE_STORE_H
#define PITH_CACHE_STORE_H

#include "cache/entry.h"
#include "cache/internal.h"

struct cache_store_rule {
    uint32_t now_s;
    uint32_t stale_max_s; /* answers older than this past their life are good for nothing */
    bool failure;         /* does not replace what is no failure and good for something */
    bool if_absent;       /* does not replace anything */
    bool if_present;      /* only replaces */
    uint8_t meta;         /* main and asked bits to begin with, or 0 */
    /* Makes the record to put from the one that is there (NULL without), with the pages held.
     * out has ENTRY_MAX octets; returns the length, 0 to leave all as it is. NULL: the record
     * is given. */
    size_t (*make)(void *arg, const uint8_t *old, size_t left, uint8_t *out);
    void *make_arg;
};

enum cache_store_result {
    STORE_ADDED,
    STORE_REPLACED,
    STORE_DROPPED,
    STORE_KEPT,    /* what was there stays */
    STORE_RETIRED, /* the arena is no longer in use: load it again */
};

/* `type` for the head of ecs.h, and for no record at all; below are those of answers. */
enum { STORE_SUBNETS = 0x10000, STORE_NOTHING = 0x20000 };

/* Puts a record (without MORE; key and record at most ENTRY_MAX together) into one of its key's
 * pages, instead of an older one of the same type and flags. Records of one name are put into
 * one entry as long as that is at most ENTRY_MAX long. */
enum cache_store_result cache_store_put(struct cache *c, struct cache_arena *a,
                                        const struct cache_name *name, uint32_t type,
                                        uint8_t key_flags, const uint8_t *record, size_t len,
                                        const struct cache_store_rule *rule);

/* Puts a whole entry: as it is if its name is not there, else record by record. */
enum cache_store_result cache_store_put_entry(struct cache *c, struct cache_arena *a,
                                              const struct cache_name *name,
                                              const uint8_t *entry, size_t len,
                                              const struct cache_store_rule *rule);

/* A record found and copied. */
struct cache_found {
    struct cache_page *page;
    uint32_t seq;
    unsigned slot;
    size_t off; /* of the entry in the page's body, if it was looked for in both pages */
    uint8_t meta;
    const uint8_t *record, *end; /* within copy */
    uint64_t copy[(ENTRY_MAX + OCTETS_LOT) / 8 + 1];
};

/* Looks a record up and copies its entry; takes no lock unless writers are in the way all the
 * time. */
static inline bool cache_store_find(const struct cache_arena *a, const struct cache_name *name,
                                    uint32_t type, uint8_t key_flags, struct cache_found *f);

/* Notes that a found entry was asked for, unless a writer came between or it is known well
 * enough. */
static inline void cache_store_asked(const struct cache_found *f)
{
    if ((f->meta & META_ASKED) == META_ASKED || !cache_page_lock_at(f->page, f->seq))
        return;
    cache_page_set_meta(f->page, f->slot, (uint8_t)(f->meta + META_ASKED_ONE));
    cache_page_unlock(f->page);
}

/* Locks the two pages of a key in the order of their addresses, and back. */
void cache_store_lock(struct cache_page *home, struct cache_page *other);
void cache_store_unlock(struct cache_page *home, struct cache_page *other);

/* Takes all entries of a name out and adds to *answers how many were in them. */
enum cache_store_result cache_store_drop(struct cache *c, struct cache_arena *a,
                                         const struct cache_name *name, size_t *answers);

/* Takes one record out, if it is there. */
enum cache_store_result cache_store_drop_record(struct cache *c, struct cache_arena *a,
                                                const struct cache_name *name, uint32_t type,
                                                uint8_t key_flags);

/* Takes what is past its life by stale_max_s out of a page. */
void cache_store_sweep(struct cache *c, struct cache_arena *a, struct cache_page *p,
                       uint32_t now_s, uint32_t stale_max_s);

/* ---- inside */

/* Looks through both pages, without hints. */
bool cache_store_search(const struct cache_arena *a, const struct cache_name *name,
                        uint32_t type, uint8_t key_flags, struct cache_found *f);

static inline const uint8_t *store_record_find(const uint8_t *p, size_t left, uint32_t type,
                                               uint8_t key_flags)
{
    if (type > UINT16_MAX)
        return type == STORE_SUBNETS ? cache_record_find_subnets(p, left) : NULL;
    return cache_record_find(p, left, (uint16_t)type, key_flags);
}

static inline bool store_key_is(const uint8_t *entry, size_t len, const struct cache_name *name)
{
    if (__builtin_expect(name->kind == KEY_LONG, 0))
        return len >= name->key_len && memcmp(entry, name->key, name->key_len) == 0;
    return len >= name->key_len && octets_equal(entry, name->key, name->key_len);
}

/* Copies the entry that a cursor is at. False when it is another name's. */
static inline bool store_entry_copy(struct cache_found *f, struct cache_page *p,
                                    const struct cache_cursor *c, const struct cache_name *name)
{
    const uint8_t *entry = octets_copy_lots(f->copy, p->body + c->off, c->len);
    if (!store_key_is(entry, c->len, name))
        return false;
    f->meta = page_meta(p, c->slot);
    f->page = p;
    f->slot = c->slot;
    f->record = entry + name->key_len;
    f->end = entry + c->len;
    return true;
}

/* Looks for the record in the copy of an entry; with it f is complete. */
static inline bool store_found_in(struct cache_found *f, uint32_t type, uint8_t key_flags)
{
    f->record = store_record_find(f->record, (size_t)(f->end - f->record), type, key_flags);
    return f->record != NULL;
}

/* Looks where a hint says that the entry is. False when it is not there any more, or never was.
 */
static inline bool store_look_at(uint64_t hint, struct cache_page *p,
                                 const struct cache_name *name, uint32_t type,
                                 uint8_t key_flags, struct cache_found *f)
{
    struct cache_cursor c = {.slot = cache_hint_slot(hint), .off = cache_hint_offset(hint)};
    if (!cache_page_begin(p, &f->seq) || f->seq != (uint32_t)hint)
        return false;
    c.len = page_len(p, c.slot);
    if (c.off + c.len > PAGE_BODY || (page_meta(p, c.slot) & META_KIND) != name->kind)
        return false;
    return store_entry_copy(f, p, &c, name) && cache_page_still(p, f->seq) &&
           store_found_in(f, type, key_flags);
}

static inline bool cache_store_find(const struct cache_arena *a, const struct cache_name *name,
                                    uint32_t type, uint8_t key_flags, struct cache_found *f)
{
    uint64_t hint = cache_hint_get(cache_hints_of(&a->hints, name->hash), name->hash);
    if (hint != 0 && store_look_at(hint,
                                   cache_hint_is_other(hint) ? cache_arena_other(a, name->hash)
                                                             : cache_arena_home(a, name->hash),
                                   name, type, key_flags, f))
        return true;
    return cache_store_search(a, name, type, key_flags, f);
}

#endif
