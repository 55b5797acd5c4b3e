/* large.c - answers that do not fit an entry. */
#include "cache/large.h"

#include <string.h>

enum { READ_TRIES = 64 };

struct large_page {
    uint32_t seq, spare;
    uint64_t starts[LARGE_UNITS / 64];
};

struct large_head {
    uint32_t stamp, len;
    uint64_t id;
};
_Static_assert(sizeof(struct large_head) == LARGE_HEAD, "as large.h has it");

static inline uint8_t *page_at(const struct cache_arena *a, uint32_t page)
{
    return a->large + (size_t)page * LARGE_PAGE_SIZE;
}

static inline bool starts_at(const struct large_page *p, uint32_t unit)
{
    return racy_load(&p->starts[unit / 64]) >> (unit % 64) & 1;
}

static inline size_t units_of(size_t len)
{
    return (LARGE_HEAD + len + LARGE_UNIT - 1) / LARGE_UNIT;
}

/* Takes out what begins in these units; returns the units it had. The log goes on behind them,
 * so whatever it had beyond is overwritten next. */
static size_t units_free(uint8_t *page, uint32_t unit, size_t n)
{
    struct large_page *p = (struct large_page *)(void *)page;
    size_t freed = 0;
    for (uint32_t u = unit; u < unit + n; u++) {
        if (!starts_at(p, u))
            continue;
        struct large_head h;
        memcpy(&h, page + (size_t)u * LARGE_UNIT, sizeof h);
        freed += units_of(h.len);
        racy_store(&p->starts[u / 64], p->starts[u / 64] & ~((uint64_t)1 << (u % 64)));
    }
    return freed;
}

static inline void page_lock(struct large_page *p)
{
    racy_store(&p->seq, racy_load(&p->seq) + 1);
    racy_write_fence();
}

static inline void page_unlock(struct large_page *p)
{
    __atomic_store_n(&p->seq, (racy_load(&p->seq) + 1) & ~(uint32_t)1, __ATOMIC_RELEASE);
}

/* Where the next n units are: behind the newest record, or at the start of the next page. */
static void log_step(struct cache_arena *a, size_t n)
{
    if (a->large_next == 0)
        a->large_next = 1;
    if (a->large_next + n <= LARGE_UNITS)
        return;
    a->large_at = (uint32_t)((a->large_at + 1) % a->larges);
    a->large_next = 1;
}

/* The head of the record, what of its extension is asked for without reading it, and where it
 * is. */
static size_t stub_write(uint8_t *stub, const uint8_t *record, size_t len,
                         const uint32_t where[3])
{
    struct cache_record r;
    size_t n = record[1] == RECORD_TYPE_LONG ? RECORD_HEAD + 2 : RECORD_HEAD;
    memcpy(stub, record, n);
    stub[0] &= (uint8_t) ~(RECORD_EXT | RECORD_MORE);
    stub[6] = FORM_LARGE << 5;
    if (cache_record_read(&r, record, len)) {
        unsigned what =
            (r.what & (EXT_V6 | EXT_EPOCH)) | (r.rcode != DNS_RCODE_NOERROR ? EXT_RCODE : 0u);
        if (what != 0) {
            stub[0] |= RECORD_EXT;
            stub[n++] = (uint8_t)what;
        }
        if (what & EXT_RCODE) {
            memcpy(stub + n, &r.rcode, sizeof r.rcode);
            n += sizeof r.rcode;
        }
        if (what & EXT_EPOCH) {
            memcpy(stub + n, &r.epoch, sizeof r.epoch);
            n += sizeof r.epoch;
        }
    }
    memcpy(stub + n, where, 3 * sizeof where[0]);
    return n + LARGE_STUB;
}

size_t cache_large_put(struct cache *c, struct cache_arena *a, uint64_t id,
                       const uint8_t *record, size_t len, uint8_t *stub)
{
    size_t n = units_of(len);
    if (len < RECORD_HEAD || len > LARGE_MAX)
        return 0;

    cache_arena_lock(a);
    if (racy_load(&a->retired)) { /* nobody would count it off */
        cache_arena_unlock(a);
        return 0;
    }
    log_step(a, n);
    struct large_head h = {.stamp = ++a->large_stamp, .len = (uint32_t)len, .id = id};
    uint32_t where[3] = {a->large_at, a->large_next, h.stamp};
    uint8_t *page = page_at(a, where[0]);
    struct large_page *p = (struct large_page *)(void *)page;
    uint8_t *at = page + (size_t)where[1] * LARGE_UNIT;
    page_lock(p);
    size_t freed = units_free(page, where[1], n);
    racy_write(at, &h, sizeof h);
    racy_write(at + LARGE_HEAD, record, len & ~(size_t)3);
    if (len % 4 != 0) {
        uint8_t tail[4] = {0};
        memcpy(tail, record + (len & ~(size_t)3), len % 4);
        racy_write(at + LARGE_HEAD + (len & ~(size_t)3), tail, sizeof tail);
    }
    racy_store(&p->starts[where[1] / 64],
               p->starts[where[1] / 64] | (uint64_t)1 << (where[1] % 64));
    page_unlock(p);
    a->large_next += (uint32_t)n;
    cache_arena_unlock(a);
    cache_count(c, COUNT_LARGE_BYTES, ((int64_t)n - (int64_t)freed) * LARGE_UNIT);
    if (freed > 0 && racy_load(&c->crowded_at) != UINT64_MAX)
        racy_store(&c->crowded_at, 0); /* these pages have come round */

    return stub_write(stub, record, len, where);
}

size_t cache_large_get(const struct cache_arena *a, uint64_t id,
                       const struct cache_record *stub, uint8_t *out)
{
    uint32_t where[3];
    memcpy(where, stub->body, sizeof where);
    if (where[0] >= a->larges || where[1] == 0 || where[1] >= LARGE_UNITS)
        return 0;
    const uint8_t *page = page_at(a, where[0]);
    const struct large_page *p = (const struct large_page *)(const void *)page;
    const uint8_t *at = page + (size_t)where[1] * LARGE_UNIT;

    for (unsigned i = 0; i < READ_TRIES; i++) {
        struct large_head h;
        uint32_t seq = __atomic_load_n(&p->seq, __ATOMIC_ACQUIRE);
        if (seq & 1)
            continue;
        racy_read(&h, at, sizeof h);
        bool found = starts_at(p, where[1]) && h.stamp == where[2] && h.id == id &&
                     h.len <= (LARGE_UNITS - where[1]) * LARGE_UNIT - LARGE_HEAD;
        if (found)
            racy_read(out, at + LARGE_HEAD, (h.len + 3u) & ~3u);
        racy_read_fence();
        if (racy_load(&p->seq) == seq)
            return found ? h.len : 0;
    }
    return 0; /* as good as overwritten */
}

void cache_large_clear(struct cache *c, struct cache_arena *a)
{
    size_t freed = 0;
    cache_arena_lock(a);
    for (uint32_t i = 0; i < a->larges; i++) {
        uint8_t *page = page_at(a, i);
        struct large_page *p = (struct large_page *)(void *)page;
        if ((p->starts[0] | p->starts[1] | p->starts[2] | p->starts[3]) == 0)
            continue;
        page_lock(p);
        freed += units_free(page, 1, LARGE_UNITS - 1);
        page_unlock(p);
    }
    cache_arena_unlock(a);
    cache_count(c, COUNT_LARGE_BYTES, -(int64_t)freed * LARGE_UNIT);
}

uint64_t cache_large_bytes(const struct cache_arena *a)
{
    uint64_t units = 0;
    for (uint32_t i = 0; i < a->larges; i++) {
        const uint8_t *page = page_at(a, i);
        for (uint32_t u = 1; u < LARGE_UNITS; u++) {
            struct large_head h;
            if (!starts_at((const struct large_page *)(const void *)page, u))
                continue;
            memcpy(&h, page + (size_t)u * LARGE_UNIT, sizeof h);
            units += units_of(h.len);
        }
    }
    return units * LARGE_UNIT;
}
