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
    uint8_t meta;
    const uint8_t *record, *end; /* within copy */
    uint64_t copy[(ENTRY_MAX + OCTETS_LOT) / 8 + 1];
};

/* Looks a record up and copies its entry; takes no lock unless writers are in the way all the
 * time. */
bool cache_store_find(const struct cache_arena *a, const struct cache_name *name, uint32_t type,
                      uint8_t key_flags, struct cache_found *found);

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

#endif
