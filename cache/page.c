/* page.c - the layout of a page. */
#include "cache/page.h"

#include <assert.h>
#include <sched.h>
#include <string.h>

enum { TRIES = 256 };

void cache_page_lock(struct cache_page *p)
{
    for (unsigned tries = 1; !cache_page_trylock(p); tries++) {
        racy_pause();
        if (tries % TRIES == 0)
            sched_yield(); /* who holds it may be waiting for this processor */
    }
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

void cache_page_append(struct cache_page *p, uint8_t tag, uint8_t meta, const uint8_t *entry,
                       size_t len)
{
    unsigned i = p->n;
    struct cache_block *b = &p->block[i / PAGE_BLOCK_SLOTS];

    assert(len >= 4 && len <= ENTRY_MAX && len % 4 == 0 && (int)len <= cache_page_room(p));
    size_t used = p->used + len;
    racy_write(p->body + PAGE_BODY - used, entry, len);
    racy_store(&p->used, (uint16_t)used);
    racy_store(&b->tag[i % PAGE_BLOCK_SLOTS], tag);
    racy_store(&b->length[i % PAGE_BLOCK_SLOTS], (uint8_t)(len / 4));
    racy_store(&b->meta[i % PAGE_BLOCK_SLOTS], meta);
    racy_store(&p->n, (uint8_t)(i + 1));
}

/* Moves slots i+1..n-1 one down. */
static void slots_remove(struct cache_page *p, unsigned i, unsigned n)
{
    struct cache_block *b = &p->block[i / PAGE_BLOCK_SLOTS];
    for (unsigned at = i % PAGE_BLOCK_SLOTS; i < n; i += PAGE_BLOCK_SLOTS - at, at = 0, b++) {
        octets_remove(b->tag, at, b[1].tag[0]);
        octets_remove(b->length, at, b[1].length[0]);
        octets_remove(b->meta, at, b[1].meta[0]);
    }
}

void cache_page_remove(struct cache_page *p, unsigned i, size_t off)
{
    unsigned n = p->n;
    size_t len = page_len(p, i), top = PAGE_BODY - (size_t)p->used;

    assert(i < n && off == cache_page_offset(p, i));
    racy_move(p->body + top + len, p->body + top, off - top);
    racy_store(&p->used, (uint16_t)(p->used - len));
    slots_remove(p, i, n);
    racy_store(&p->n, (uint8_t)(n - 1));
    if (p->hand > i)
        racy_store(&p->hand, (uint8_t)(p->hand - 1));
}

void cache_page_set_meta(struct cache_page *p, unsigned i, uint8_t meta)
{
    racy_store(&p->block[i / PAGE_BLOCK_SLOTS].meta[i % PAGE_BLOCK_SLOTS], meta);
}

void cache_page_add_ghost(struct cache_page *p, uint16_t ghost)
{
    racy_store(&p->ghost[p->ghost_at % PAGE_GHOSTS], ghost);
    racy_store(&p->ghost_at, (uint8_t)((p->ghost_at + 1) % PAGE_GHOSTS));
}
