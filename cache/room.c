/* room.c - making room in a page.
 *
 * While the cache as a whole has space, an entry that does not fit moves another one to that
 * one's second page (one step of cuckoo hashing). Afterwards something must go: what is past
 * its life, else what S3-FIFO (Yang et al., SOSP 2023) picks, run over the entries of the page:
 * a small FIFO of newcomers, a main FIFO with second chances, and ghosts, the keys that left
 * the small one unasked. */
#include "cache/room.h"

#include <assert.h>

enum {
    SMALL_SHARE = 24,    /* the small FIFO has 1/24 of a page's entries, one or two */
    FULL_PERMILLE = 970, /* with more in use, displacement only costs time */
    REPORT_BYTES = 4096, /* a thread's lot of COUNT_BYTES */
};

/* Counts octets, and now and then adds what this thread has counted to the sum of all. */
static void count_bytes(struct cache *c, int64_t n)
{
    cache_count(c, COUNT_BYTES, n);
    if (cache_stats_thread == STATS_LINES) {
        __atomic_fetch_add(&c->used, (uint64_t)n, __ATOMIC_RELAXED);
        return;
    }
    const uint64_t *line = c->lines[cache_stats_thread - 1].count;
    int64_t more = (int64_t)(racy_load(&line[COUNT_BYTES]) - racy_load(&line[COUNT_REPORTED]));
    if (more < REPORT_BYTES && more > -REPORT_BYTES)
        return;
    cache_count(c, COUNT_REPORTED, more);
    __atomic_fetch_add(&c->used, (uint64_t)more, __ATOMIC_RELAXED);
}

static inline void count_record(struct cache *c, unsigned form, int sign)
{
    cache_count(c, (enum cache_count)(COUNT_FORM + form), sign);
    if (form != FORM_SUBNETS)
        cache_count(c, COUNT_ENTRIES, sign);
}

void cache_room_count(struct cache *c, uint8_t kind, const uint8_t *entry, size_t len, int sign)
{
    struct cache_entry e;
    count_bytes(c, sign * (int64_t)(len + PAGE_BLOCK / PAGE_BLOCK_SLOTS));
    const uint8_t *single = cache_entry_single(kind, entry, len);
    if (single != NULL) {
        count_record(c, single[6] >> 5, sign);
        return;
    }
    for (bool more = cache_entry_first(&e, kind, entry, len); more; more = cache_entry_next(&e))
        count_record(c, e.record.form, sign);
}

static inline uint8_t kind_of(const struct cache_page *p, unsigned i)
{
    return page_meta(p, i) & META_KIND;
}

void cache_room_remove(struct cache *c, struct cache_page *p, unsigned i, size_t off)
{
    cache_room_count(c, kind_of(p, i), p->body + off, page_len(p, i), -1);
    cache_page_remove(p, i, off);
}

/* The unit of 64 s in which an entry with so much life left is past its life; not in the past,
 * so that it does not become too old to be told from the future too soon. */
static inline uint16_t soonest_of(int32_t left_s, uint32_t now_s)
{
    return (uint16_t)(((now_s + (left_s > 0 ? (uint32_t)left_s : 0)) & RECORD_CLOCK) >> 6);
}

static inline uint16_t unit_of(uint32_t now_s)
{
    return (uint16_t)((now_s & RECORD_CLOCK) >> 6);
}

/* Seen from now: two that are within 24 days of it may be further from each other. */
static inline bool is_before(uint16_t a, uint16_t b, uint16_t now)
{
    return (int16_t)(uint16_t)(a - now) < (int16_t)(uint16_t)(b - now);
}

void cache_room_soonest(struct cache_page *p, uint8_t kind, const uint8_t *entry, size_t len,
                        uint32_t now_s)
{
    uint16_t soonest = soonest_of(cache_entry_life_left(kind, entry, len, now_s), now_s);
    if (p->n == 0 || is_before(soonest, p->soonest, unit_of(now_s)))
        racy_store(&p->soonest, soonest);
}

void cache_room_soonest_all(struct cache_page *p, uint32_t now_s)
{
    uint16_t now = unit_of(now_s), soonest = now;
    size_t off = PAGE_BODY;
    for (unsigned i = 0; i < p->n; i++) {
        size_t len = page_len(p, i);
        off -= len;
        uint16_t s =
            soonest_of(cache_entry_life_left(kind_of(p, i), p->body + off, len, now_s), now_s);
        if (i == 0 || is_before(s, soonest, now))
            soonest = s;
    }
    racy_store(&p->soonest, soonest);
}

void cache_room_append(struct cache *c, struct cache_page *p, uint8_t tag, uint8_t meta,
                       const uint8_t *entry, size_t len, uint32_t now_s)
{
    cache_room_soonest(p, meta & META_KIND, entry, len, now_s);
    cache_page_append(p, tag, meta, entry, len);
    cache_room_count(c, meta & META_KIND, entry, len, 1);
}

/* The first entry that is past its life, taken out. False without one, and `soonest` is exact
 * then. */
static bool evict_expired(struct cache *c, struct cache_page *p, uint32_t now_s)
{
    uint16_t now = unit_of(now_s), soonest = now;
    size_t off = PAGE_BODY;
    if (is_before(now, p->soonest, now))
        return false;
    for (unsigned i = 0; i < p->n; i++) {
        size_t len = page_len(p, i);
        off -= len;
        int32_t left = cache_entry_life_left(kind_of(p, i), p->body + off, len, now_s);
        if (left <= 0) {
            cache_room_remove(c, p, i, off);
            cache_count(c, COUNT_EVICTIONS, 1);
            cache_count(c, COUNT_EVICTED_EXPIRED, 1);
            return true;
        }
        uint16_t s = soonest_of(left, now_s);
        if (i == 0 || is_before(s, soonest, now))
            soonest = s;
    }
    racy_store(&p->soonest, soonest);
    return false;
}

static void evict(struct cache *c, struct cache_page *p, unsigned i)
{
    size_t off = cache_page_offset(p, i);
    cache_room_remove(c, p, i, off);
    cache_count(c, COUNT_EVICTIONS, 1);
}

static unsigned small_entries(const struct cache_page *p)
{
    unsigned n = 0;
    for (unsigned base = 0; base < p->n; base += PAGE_SCAN)
        n += (unsigned)__builtin_popcountll(cache_page_small(p, base));
    return n;
}

/* The first of them; there is one. */
static unsigned small_oldest(const struct cache_page *p)
{
    unsigned base = 0;
    uint64_t small;
    while ((small = cache_page_small(p, base)) == 0)
        base += PAGE_SCAN;
    return base + (unsigned)__builtin_ctzll(small);
}

/* The oldest newcomer leaves the small FIFO: evicted, or into the main one when it was asked
 * for. True when evicted. */
static bool evict_small(struct cache *c, struct cache_page *p)
{
    unsigned i = small_oldest(p), meta = page_meta(p, i);
    if (meta & META_ASKED) {
        cache_page_set_meta(p, i, (uint8_t)((meta & META_KIND) | META_MAIN));
        return false;
    }
    const uint8_t *entry = p->body + cache_page_offset(p, i);
    size_t key_len = cache_key_len(meta & META_KIND, entry, page_len(p, i));
    uint16_t ghost = cache_page_ghost_of((uint8_t)page_tag(p, i), entry, key_len);
    evict(c, p, i);
    cache_page_add_ghost(p, ghost);
    return true;
}

/* The CLOCK over the main FIFO. */
static void evict_main(struct cache *c, struct cache_page *p)
{
    for (unsigned i = p->hand;; i++) {
        if (i >= p->n)
            i = 0;
        unsigned meta = page_meta(p, i);
        if (!(meta & META_MAIN))
            continue;
        if (!(meta & META_ASKED)) {
            racy_store(&p->hand, (uint8_t)i);
            evict(c, p, i);
            return;
        }
        cache_page_set_meta(p, i, (uint8_t)(meta - META_ASKED_ONE));
    }
}

static void evict_one(struct cache *c, struct cache_page *p, uint32_t now_s)
{
    if (evict_expired(c, p, now_s))
        return;
    for (;;) {
        unsigned small = small_entries(p);
        if (small < p->n && small * SMALL_SHARE < p->n) {
            evict_main(c, p);
            return;
        }
        if (evict_small(c, p))
            return;
    }
}

static inline bool has_space(const struct cache *c)
{
    return racy_load(&c->used) < racy_load(&c->capacity) / 1000 * FULL_PERMILLE;
}

/* Moves entry i of p to its other page, if that has room and nobody holds it. Once the arena is
 * retired its pages may have been emptied for good already (resize.c): the flag is looked at
 * with the page in hand. */
static bool displace_one(const struct cache_room *r, struct cache_page *p, unsigned i,
                         size_t off)
{
    struct cache_name name;
    size_t len = page_len(p, i);
    uint8_t meta = (uint8_t)page_meta(p, i);

    if (!cache_key_from_entry(&name, &r->a->hash, meta & META_KIND, p->body + off, len))
        return false;
    struct cache_page *to = cache_arena_home(r->a, name.hash);
    if (to == p)
        to = cache_arena_other(r->a, name.hash);
    if (to == p || cache_page_room(to) < (int)len)
        return false;
    bool held = to == r->home || to == r->other;
    if (!held && !cache_page_trylock(to))
        return false;
    bool fits = cache_page_room(to) >= (int)len &&
                (held || !__atomic_load_n(&r->a->retired, __ATOMIC_SEQ_CST));
    if (fits) {
        cache_room_soonest(to, meta & META_KIND, p->body + off, len, r->now_s);
        cache_page_append(to, name.tag, meta, p->body + off, len);
        cache_page_remove(p, i, off);
    }
    if (!held)
        cache_page_unlock(to);
    return fits;
}

/* Moves entries out of p until len octets fit: one that is large enough alone, or several. */
static bool displace(const struct cache_room *r, struct cache_page *p, size_t len)
{
    bool any = false; /* whether small ones are taken too */
    for (int pass = 0; pass < 2; pass++, any = true) {
        size_t off = PAGE_BODY;
        for (unsigned i = 0; i < p->n;) {
            size_t n = page_len(p, i);
            off -= n;
            bool enough = cache_page_room(p) + (int)n >= (int)len;
            if ((enough || any) && displace_one(r, p, i, off)) {
                if (cache_page_room(p) >= (int)len)
                    return true;
                off += n; /* the next entry has moved up to here */
            } else {
                i++;
            }
        }
    }
    return false;
}

struct cache_page *cache_room_make(const struct cache_room *r, size_t len)
{
    int home = cache_page_room(r->home), other = cache_page_room(r->other);
    struct cache_page *p = other > home ? r->other : r->home;
    struct cache_page *q = p == r->home ? r->other : r->home;

    if (cache_page_room(p) >= (int)len)
        return p;
    if (has_space(r->c)) {
        if (displace(r, p, len))
            return p;
        if (q != p && displace(r, q, len))
            return q;
    }
    while (cache_page_room(p) < (int)len)
        evict_one(r->c, p, r->now_s);
    assert(p->n < PAGE_SLOTS_MAX);
    return p;
}
