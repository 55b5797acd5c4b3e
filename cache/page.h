/* page.h - a page of the arena: slots, entries, and the lock.
 *
 *   0     4      6   7      8          9       10        12      16                     4160
 *   +-----+------+---+------+----------+-------+---------+-------+-------------+-----------+
 *   | seq | used | n | hand | ghost at | spare | soonest | spare | body        | 64 ghosts |
 *   +-----+------+---+------+----------+-------+---------+-------+-------------+-----------+
 *
 *   body:   | block 0 | block 1 | ...   free   ... | entry n-1 | ... | entry 1 | entry 0 |
 *   block:  16 tags, 16 lengths, 16 metas of one octet each: slots 16b .. 16b+15
 *
 *   tag     8 bits of the key's hash
 *   length  of the entry, in units of 4 octets
 *   meta    main 1 | asked 2 | kind 5 bits (key.h has the kinds)
 *
 * Entries lie in the order of their slots from the end of the body down: entry i begins 4 *
 * (length 0 + .. + length i) octets before the end, so no offsets are kept. New ones are added
 * behind the last, so slots are in the order of arrival, the oldest first, and S3-FIFO's two
 * queues are the slots without and with the main bit (room.c).
 *
 * An entry is a key and one or more records of that name (record.h).
 *
 * seq is odd while a writer holds the page. Readers take no lock: they remember seq, copy, and
 * look at it again. `soonest` is a lower bound, in units of 64 s of the 22-bit clock, of when
 * some entry of the page is past its life. */
#ifndef PITH_CACHE_PAGE_H
#define PITH_CACHE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/key.h"
#include "cache/octets.h"
#include "cache/racy.h"

enum {
    PAGE_SIZE = 4096 + 64,
    PAGE_GHOSTS = 64,
    PAGE_HEAD = 16,
    PAGE_BODY = PAGE_SIZE - PAGE_HEAD - 2 * PAGE_GHOSTS,
    PAGE_BLOCK = 48,
    PAGE_BLOCK_SLOTS = 16,
    PAGE_SLOTS_MAX = 240, /* n is an octet */
    PAGE_SCAN = 64,       /* slots looked at together, whether there are so many or not */
    ENTRY_MAX = 4 * 255,  /* octets of one entry */
};

enum { META_MAIN = 0x80, META_ASKED = 0x60, META_ASKED_ONE = 0x20, META_KIND = 0x1f };

struct cache_block {
    uint8_t tag[PAGE_BLOCK_SLOTS], length[PAGE_BLOCK_SLOTS], meta[PAGE_BLOCK_SLOTS];
};

struct cache_page {
    uint32_t seq;
    uint16_t used; /* octets of all entries */
    uint8_t n;
    uint8_t hand; /* slot that the CLOCK over main entries looks at next */
    uint8_t ghost_at;
    uint8_t spare;
    uint16_t soonest;
    uint32_t spare4;
    _Alignas(16) union {
        struct cache_block block[PAGE_BODY / PAGE_BLOCK];
        uint8_t body[PAGE_BODY];
    };
    uint16_t ghost[PAGE_GHOSTS];
};
_Static_assert(sizeof(struct cache_page) == PAGE_SIZE, "a page fills a page");
_Static_assert(PAGE_BODY % 16 == 0, "entries are aligned");
_Static_assert(sizeof(struct cache_block) == PAGE_BLOCK, "no holes");
_Static_assert(PAGE_SCAN == 4 * PAGE_BLOCK_SLOTS, "as loops over a scan are written out");
_Static_assert((PAGE_SLOTS_MAX + PAGE_SCAN) / PAGE_BLOCK_SLOTS * PAGE_BLOCK < PAGE_BODY,
               "a scan stays inside");

static inline uint8_t page_tag(const struct cache_page *p, unsigned i)
{
    return racy_load(&p->block[i / PAGE_BLOCK_SLOTS].tag[i % PAGE_BLOCK_SLOTS]);
}

static inline uint8_t page_meta(const struct cache_page *p, unsigned i)
{
    return racy_load(&p->block[i / PAGE_BLOCK_SLOTS].meta[i % PAGE_BLOCK_SLOTS]);
}

static inline size_t page_len(const struct cache_page *p, unsigned i)
{
    return 4 * (size_t)racy_load(&p->block[i / PAGE_BLOCK_SLOTS].length[i % PAGE_BLOCK_SLOTS]);
}

static inline uint64_t block_match(const struct cache_block *b, const struct cache_name *name)
{
    return octets_match(octets_load(b->tag), name->tag, octets_load(b->meta), META_KIND,
                        name->kind);
}

/* Which slots of the PAGE_SCAN from `base` on (a multiple) have the tag and kind of a key. */
static inline uint64_t cache_page_match(const struct cache_page *p, unsigned base, unsigned n,
                                        const struct cache_name *name)
{
    const struct cache_block *b = &p->block[base / PAGE_BLOCK_SLOTS];
    uint64_t found = block_match(b, name) | block_match(b + 1, name) << 16 |
                     block_match(b + 2, name) << 32 | block_match(b + 3, name) << 48;
    unsigned left = n > base ? n - base : 0;
    return left < PAGE_SCAN ? found & (((uint64_t)1 << left) - 1) : found;
}

/* Slots of a page; when torn, or in a snapshot, it may say more than there can be. */
static inline unsigned cache_page_slots(const struct cache_page *p)
{
    unsigned n = racy_load(&p->n);
    return n <= PAGE_SLOTS_MAX ? n : (unsigned)PAGE_SLOTS_MAX;
}

static inline octets_sum blocks_sum(octets_sum sum, const struct cache_block *b, unsigned i)
{
    int n = (int)i + 1;
    sum = octets_add(sum, octets_load(b[0].length), n);
    sum = octets_add(sum, octets_load(b[1].length), n - 16);
    sum = octets_add(sum, octets_load(b[2].length), n - 32);
    return octets_add(sum, octets_load(b[3].length), n - 48);
}

/* Which of the first PAGE_SCAN slots have a tag, whatever their kind. */
static inline uint64_t cache_page_tagged(const struct cache_page *p, uint8_t tag)
{
    uint64_t found = 0;
    for (unsigned i = 0; i < PAGE_SCAN / PAGE_BLOCK_SLOTS; i++)
        found |= (uint64_t)octets_match(octets_load(p->block[i].tag), tag,
                                        octets_load(p->block[i].meta), 0, 0)
                 << PAGE_BLOCK_SLOTS * i;
    unsigned n = cache_page_slots(p);
    return n < PAGE_SCAN ? found & (((uint64_t)1 << n) - 1) : found;
}

/* Sum of the lengths of slots 0..i, in octets. */
static inline size_t cache_page_upto(const struct cache_page *p, unsigned i)
{
    octets_sum sum = octets_sums();
    const struct cache_block *b = p->block;
    for (; __builtin_expect(i >= PAGE_SCAN, 0); i -= PAGE_BLOCK_SLOTS)
        sum = octets_add(sum, octets_load((b++)->length), PAGE_BLOCK_SLOTS);
    return 4 * (size_t)octets_total(blocks_sum(sum, b, i));
}

/* Walks the slots that a key may be in. */
struct cache_cursor {
    const struct cache_name *name;
    uint64_t hits;    /* slots from `base` on that are yet to be looked at */
    unsigned n, base; /* slots in all; the first of those in hits */
    unsigned slot;    /* found */
    size_t off, len;  /* of its entry in the body */
};

static inline void cache_page_find(struct cache_cursor *c, const struct cache_page *p,
                                   const struct cache_name *name)
{
    c->name = name;
    c->n = cache_page_slots(p);
    c->base = 0;
    c->hits = cache_page_match(p, 0, c->n, name);
}

/* The next slot whose tag and kind are the key's and whose entry lies within the body. For
 * readers without the lock what it finds may be nonsense, though never outside of the body; seq
 * tells. */
static inline bool cache_page_next(struct cache_cursor *c, const struct cache_page *p)
{
    while (__builtin_expect(c->hits == 0, 0)) {
        if (c->base + PAGE_SCAN >= c->n)
            return false;
        c->base += PAGE_SCAN;
        c->hits = cache_page_match(p, c->base, c->n, c->name);
    }
    c->slot = c->base + (unsigned)__builtin_ctzll(c->hits);
    c->hits &= c->hits - 1;
    size_t upto = cache_page_upto(p, c->slot);
    c->len = page_len(p, c->slot);
    c->off = PAGE_BODY - upto;
    return upto <= PAGE_BODY;
}

/* Readers: false while a writer holds the page. */
static inline bool cache_page_begin(const struct cache_page *p, uint32_t *seq)
{
    *seq = __atomic_load_n(&p->seq, __ATOMIC_ACQUIRE);
    return !(*seq & 1);
}

/* True when nothing was written since cache_page_begin(). */
static inline bool cache_page_still(const struct cache_page *p, uint32_t seq)
{
    racy_read_fence();
    return racy_load(&p->seq) == seq;
}

/* Takes the page if seq is still this (even) number. In one order with the flag of a retired
 * arena: see cache_resize_to(). */
static inline bool cache_page_lock_at(struct cache_page *p, uint32_t seq)
{
    if (!__atomic_compare_exchange_n(&p->seq, &seq, seq + 1, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_RELAXED))
        return false;
    racy_write_fence();
    return true;
}

static inline bool cache_page_trylock(struct cache_page *p)
{
    uint32_t seq = racy_load(&p->seq);
    return !(seq & 1) && cache_page_lock_at(p, seq);
}

void cache_page_lock(struct cache_page *p);

static inline void cache_page_unlock(struct cache_page *p)
{
    /* even whatever it was: the memory of a retired arena is given back while late callers are
     * in it */
    __atomic_store_n(&p->seq, (racy_load(&p->seq) + 1) & ~(uint32_t)1, __ATOMIC_RELEASE);
}

/* Copies the whole page, without its lock unless writers are in the way all the time. False
 * when it is empty. */
bool cache_page_copy(struct cache_page *p, struct cache_page *copy);

/* What follows is for who holds the page. */

/* Octets that one more entry may have; below 0 when not even its slot fits. */
static inline int cache_page_room(const struct cache_page *p)
{
    unsigned n = racy_load(&p->n);
    int blocks = (int)(n / PAGE_BLOCK_SLOTS) + 1;
    if (n >= PAGE_SLOTS_MAX)
        return -1;
    return PAGE_BODY - PAGE_BLOCK * blocks - (int)racy_load(&p->used);
}

/* Where entry i begins in the body. */
static inline size_t cache_page_offset(const struct cache_page *p, unsigned i)
{
    return PAGE_BODY - cache_page_upto(p, i);
}

/* Adds an entry of len octets (a multiple of 4, 4..ENTRY_MAX, at most cache_page_room()). */
void cache_page_append(struct cache_page *p, uint8_t tag, uint8_t meta, const uint8_t *entry,
                       size_t len);

/* Takes entry i, which begins at off, out. */
void cache_page_remove(struct cache_page *p, unsigned i, size_t off);

void cache_page_set_meta(struct cache_page *p, unsigned i, uint8_t meta);

/* Which slots of the PAGE_SCAN from `base` on (a multiple) are not in the main FIFO. */
static inline uint64_t cache_page_small(const struct cache_page *p, unsigned base)
{
    const struct cache_block *b = &p->block[base / PAGE_BLOCK_SLOTS];
    uint64_t small = 0;
    for (unsigned i = 0; i < PAGE_SCAN / PAGE_BLOCK_SLOTS; i++)
        small |= (uint64_t)(octets_top(octets_load(b[i].meta)) ^ 0xffff)
                 << PAGE_BLOCK_SLOTS * i;
    unsigned left = p->n - base;
    return left < PAGE_SCAN ? small & (((uint64_t)1 << left) - 1) : small;
}

/* Ghosts: 16 bits each of the keys that were evicted last without having been asked for. */
static inline bool cache_page_ghost(const struct cache_page *p, uint16_t ghost)
{
    return octets_have16(p->ghost, PAGE_GHOSTS / 8, ghost);
}
void cache_page_add_ghost(struct cache_page *p, uint16_t ghost);

/* A key's ghost is made of its tag and first octets, so that it can be had without hashing
 * again. */
static inline uint16_t cache_page_ghost_of(uint8_t tag, const uint8_t *key, size_t key_len)
{
    uint32_t w = 0;
    memcpy(&w, key, key_len < 4 ? key_len : 4);
    w *= 0x9e3779b1;
    return (uint16_t)(w >> 25 << 8 | tag | 0x8000); /* never 0, which is no ghost */
}

#endif
