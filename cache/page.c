/* page.c - the layout of a page. */
#include "cache/page.h"

#include <assert.h>
#include <string.h>

void cache_page_lock(struct cache_page *p)
{
    while (!cache_page_trylock(p))
        racy_pause();
}

bool cache_page_copy(struct cache_page *p, struct cache_page *copy)
{
    uint32_t seq;
    for (unsigned i = 0; i < 8; i++) {
        if (!cache_page_begin(p, &seq))
            continue;
        if (racy_load(&p->n) == 0)
            return false;
        racy_read(copy, p, sizeof *copy);
        if (cache_page_still(p, seq))
            return true;
    }
    cache_page_lock(p);
    racy_read(copy, p, sizeof *copy);
    cache_page_unlock(p);
    return copy->n > 0;
}

size_t cache_page_offset(const struct cache_page *p, unsigned i)
{
    uint64_t lanes = page_lanes(p->block[i / 8].lengths & UINT64_MAX >> (56 - 8 * (i % 8)));
    for (unsigned b = 0; b < i / 8; b++)
        lanes += page_lanes(p->block[b].lengths);
    return PAGE_BODY - 4 * (size_t)page_lanes_sum(lanes);
}

static inline void octet_set(uint64_t *word, unsigned i, unsigned v)
{
    uint64_t w = *word & ~((uint64_t)0xff << (8 * i));
    racy_store(word, w | (uint64_t)v << (8 * i));
}

void cache_page_append(struct cache_page *p, uint8_t tag, uint8_t meta, const uint8_t *entry,
                       size_t len)
{
    unsigned i = p->n;
    struct cache_block *b = &p->block[i / 8];

    assert(len >= 4 && len <= ENTRY_MAX && len % 4 == 0 && (int)len <= cache_page_room(p));
    size_t used = p->used + len;
    racy_write(p->body + PAGE_BODY - used, entry, len);
    racy_store(&p->used, (uint16_t)used);
    octet_set(&b->tags, i % 8, tag);
    octet_set(&b->lengths, i % 8, (unsigned)(len / 4));
    octet_set(&b->metas, i % 8, meta);
    racy_store(&p->n, (uint8_t)(i + 1));
}

/* Moves the octets behind octet i of a column one down; stride is that of blocks. */
static inline void column_remove(uint64_t *w, unsigned i, unsigned n)
{
    const unsigned stride = PAGE_BLOCK / sizeof *w;
    unsigned b = i / 8, last = (n - 1) / 8;
    uint64_t keep = ((uint64_t)1 << (8 * (i % 8))) - 1;
    for (; b <= last; b++, keep = 0) {
        uint64_t next = b < last ? w[(b + 1) * stride] << 56 : 0;
        uint64_t v = w[b * stride];
        racy_store(&w[b * stride], (v & keep) | ((v >> 8 | next) & ~keep));
    }
}

void cache_page_remove(struct cache_page *p, unsigned i, size_t off)
{
    unsigned n = p->n;
    size_t len = page_len(p, i), top = PAGE_BODY - (size_t)p->used;

    assert(i < n && off == cache_page_offset(p, i));
    racy_move(p->body + top + len, p->body + top, off - top);
    racy_store(&p->used, (uint16_t)(p->used - len));
    column_remove(&p->block[0].tags, i, n);
    column_remove(&p->block[0].lengths, i, n);
    column_remove(&p->block[0].metas, i, n);
    racy_store(&p->n, (uint8_t)(n - 1));
    if (p->hand > i)
        racy_store(&p->hand, (uint8_t)(p->hand - 1));
}

void cache_page_set_meta(struct cache_page *p, unsigned i, uint8_t meta)
{
    octet_set(&p->block[i / 8].metas, i % 8, meta);
}

bool cache_page_ghost(const struct cache_page *p, uint16_t ghost)
{
    const uint64_t low = 0x0001000100010001, high = low << 15;
    uint64_t found = 0;
    for (unsigned i = 0; i < PAGE_GHOSTS; i += 4) {
        uint64_t four;
        memcpy(&four, &p->ghost[i], sizeof four);
        four ^= low * ghost;
        found |= (four - low) & ~four & high;
    }
    return found != 0;
}

void cache_page_add_ghost(struct cache_page *p, uint16_t ghost)
{
    racy_store(&p->ghost[p->ghost_at % PAGE_GHOSTS], ghost);
    racy_store(&p->ghost_at, (uint8_t)((p->ghost_at + 1) % PAGE_GHOSTS));
}
