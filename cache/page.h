/* page.h - a page of the arena: slots, entries, and the lock.
 *
 *   0     4      6   7      8          9       10        12      16                     4096
 *   +-----+------+---+------+----------+-------+---------+-------+-------------+-----------+
 *   | seq | used | n | hand | ghost at | spare | soonest | spare | body        | 64 ghosts |
 *   +-----+------+---+------+----------+-------+---------+-------+-------------+-----------+
 *
 *   body:   | block 0 | block 1 | ...   free   ... | entry n-1 | ... | entry 1 | entry 0 |
 *   block:  8 tags, 8 lengths, 8 metas of one octet each: slots 8b .. 8b+7
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
 * some entry of the page is past its life. All words are in the machine's byte order with slot
 * 8b in the lowest octet of a word. */
#ifndef PITH_CACHE_PAGE_H
#define PITH_CACHE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/key.h"
#include "cache/racy.h"

enum {
    PAGE_SIZE = 4096,
    PAGE_GHOSTS = 64,
    PAGE_HEAD = 16,
    PAGE_BODY = PAGE_SIZE - PAGE_HEAD - 2 * PAGE_GHOSTS,
    PAGE_BLOCK = 24,
    PAGE_BLOCK_SLOTS = 8,
    PAGE_SLOTS_MAX = 248, /* n is an octet */
    ENTRY_MAX = 4 * 255,  /* octets of one entry */
};

enum { META_MAIN = 0x80, META_ASKED = 0x60, META_ASKED_ONE = 0x20, META_KIND = 0x1f };

struct cache_block {
    uint64_t tags, lengths, metas;
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
    union {
        struct cache_block block[PAGE_BODY / PAGE_BLOCK];
        uint8_t body[PAGE_BODY];
    };
    uint16_t ghost[PAGE_GHOSTS];
};
_Static_assert(sizeof(struct cache_page) == PAGE_SIZE, "a page fills a page");
_Static_assert(PAGE_BODY % 8 == 0, "entries are aligned");

/* Bit of octet i of a word that octets are numbered in from the lowest. */
static inline unsigned page_octet(uint64_t word, unsigned i)
{
    return (unsigned)(word >> (8 * i)) & 0xff;
}

/* Sums octets of up to 32 words: page_lanes() of each added up, then page_lanes_sum(). */
static inline uint64_t page_lanes(uint64_t w)
{
    const uint64_t even = 0x00ff00ff00ff00ff;
    return (w & even) + (w >> 8 & even);
}

static inline unsigned page_lanes_sum(uint64_t lanes)
{
    return (unsigned)(lanes * 0x0001000100010001 >> 48);
}

/* The top bit of each octet that is 0, exactly. */
static inline uint64_t page_zeros(uint64_t w)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return ~(((w & low) + low) | w | low);
}

static inline unsigned page_tag(const struct cache_page *p, unsigned i)
{
    return page_octet(racy_load(&p->block[i / 8].tags), i % 8);
}

static inline unsigned page_meta(const struct cache_page *p, unsigned i)
{
    return page_octet(racy_load(&p->block[i / 8].metas), i % 8);
}

static inline size_t page_len(const struct cache_page *p, unsigned i)
{
    return 4 * (size_t)page_octet(racy_load(&p->block[i / 8].lengths), i % 8);
}

/* Walks the slots that a key may be in. */
struct cache_cursor {
    uint64_t tags, kinds; /* of the key, in every octet */
    uint64_t hits;        /* the top bit of each slot of `block` that is yet to be looked at */
    unsigned n, block;
    unsigned slot;   /* found */
    size_t off, len; /* of its entry in the body */
};

static inline void cache_page_find(struct cache_cursor *c, const struct cache_page *p,
                                   const struct cache_name *name)
{
    const uint64_t all = 0x0101010101010101;
    c->tags = all * name->tag;
    c->kinds = all * name->kind;
    c->n = racy_load(&p->n);
    if (c->n > PAGE_SLOTS_MAX)
        c->n = PAGE_SLOTS_MAX; /* torn, or a snapshot's */
    c->block = UINT32_MAX;
    c->hits = 0;
}

/* Slots of a block whose tag and kind are the key's. */
static inline uint64_t cache_page_hits(const struct cache_cursor *c, const struct cache_page *p,
                                       uint64_t tags)
{
    uint64_t kinds = (racy_load(&p->block[c->block].metas) ^ c->kinds) & 0x1f1f1f1f1f1f1f1f;
    uint64_t hits = page_zeros(tags | kinds);
    unsigned left = c->n - 8 * c->block;
    return left < 8 ? hits & UINT64_MAX >> (64 - 8 * left) : hits;
}

/* Where the entry of the slot lies that the lowest of hits stands for. False when that is
 * nonsense. */
static inline bool cache_page_locate(struct cache_cursor *c, const struct cache_page *p)
{
    unsigned bit = (unsigned)__builtin_ctzll(c->hits);
    uint64_t lanes = 0;
    for (unsigned b = 0; b < c->block; b++)
        lanes += page_lanes(racy_load(&p->block[b].lengths));
    uint64_t lengths = racy_load(&p->block[c->block].lengths);
    lanes += page_lanes(lengths & UINT64_MAX >> (63 - bit));
    size_t upto = 4 * (size_t)page_lanes_sum(lanes);
    c->hits &= c->hits - 1;
    c->slot = 8 * c->block + bit / 8;
    c->len = 4 * (size_t)page_octet(lengths, bit / 8);
    c->off = PAGE_BODY - upto;
    return upto <= PAGE_BODY;
}

/* The next slot whose tag and kind are the key's and whose entry lies within the body. For
 * readers without the lock what it finds may be nonsense, though never outside of the body; seq
 * tells. */
static inline bool cache_page_next(struct cache_cursor *c, const struct cache_page *p)
{
    const uint64_t low = 0x0101010101010101, high = low << 7;
    while (c->hits == 0) {
        unsigned block = c->block + 1;
        for (;; block++) {
            if (8 * block >= c->n)
                return false;
            uint64_t tags = racy_load(&p->block[block].tags) ^ c->tags;
            if (__builtin_expect(((tags - low) & ~tags & high) == 0, 1))
                continue; /* no octet of it is 0 */
            c->block = block;
            c->hits = cache_page_hits(c, p, tags);
            break;
        }
    }
    return cache_page_locate(c, p);
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
size_t cache_page_offset(const struct cache_page *p, unsigned i);

/* Adds an entry of len octets (a multiple of 4, 4..ENTRY_MAX, at most cache_page_room()). */
void cache_page_append(struct cache_page *p, uint8_t tag, uint8_t meta, const uint8_t *entry,
                       size_t len);

/* Takes entry i, which begins at off, out. */
void cache_page_remove(struct cache_page *p, unsigned i, size_t off);

void cache_page_set_meta(struct cache_page *p, unsigned i, uint8_t meta);

/* Ghosts: 16 bits each of the keys that were evicted last without having been asked for. */
bool cache_page_ghost(const struct cache_page *p, uint16_t ghost);
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
