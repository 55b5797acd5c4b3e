/* store.c - records into and out of the two pages of a key. */
#include "cache/store.h"

#include <assert.h>
#include <string.h>

#include "cache/room.h"

enum { READ_TRIES = 8 };

/* ---- reading */

enum look { LOOK_FOUND, LOOK_NONE, LOOK_AGAIN };

static enum look look_in(struct cache_page *p, const struct cache_name *name, uint32_t type,
                         uint8_t key_flags, struct cache_found *f, uint32_t *seq)
{
    struct cache_cursor c;
    if (!cache_page_begin(p, seq))
        return LOOK_AGAIN;
    cache_page_find(&c, p, name);
    while (cache_page_next(&c, p)) {
        if (!store_entry_copy(f, p, &c, name))
            continue;
        if (!cache_page_still(p, *seq))
            return LOOK_AGAIN;
        f->seq = *seq;
        if (store_found_in(f, type, key_flags))
            return LOOK_FOUND;
    }
    return cache_page_still(p, *seq) ? LOOK_NONE : LOOK_AGAIN;
}

/* The same while holding the page, so that no writer is in the way; seq is that of afterwards.
 */
static enum look look_locked(struct cache_page *p, const struct cache_name *name, uint32_t type,
                             uint8_t key_flags, struct cache_found *f)
{
    struct cache_cursor c;
    cache_page_find(&c, p, name);
    f->seq = racy_load(&p->seq) + 1;
    while (cache_page_next(&c, p)) {
        if (store_entry_copy(f, p, &c, name) && store_found_in(f, type, key_flags))
            return LOOK_FOUND;
    }
    return LOOK_NONE;
}

/* Two pages at once, and slots of theirs that are yet to be looked at. */
struct both {
    struct cache_page *home, *other;
    uint32_t seq, other_seq;
    uint64_t hits, other_hits; /* from slot `base` on */
    unsigned base;
};

/* The next of the slots; which of the pages has it is as random as the key, and a branch on
 * that would be guessed wrong every other time. */
static inline struct cache_page *both_next(struct both *b, struct cache_cursor *c,
                                           uint32_t *seq)
{
    uintptr_t home = (uintptr_t)b->home, other = (uintptr_t)b->other;
    uintptr_t is_other = (uintptr_t)(b->hits != 0) - 1; /* all ones when it is */
    uint64_t hits = b->hits | (b->other_hits & is_other);
    struct cache_page *p = (struct cache_page *)(home ^ ((home ^ other) & is_other));
    c->slot = b->base + (unsigned)__builtin_ctzll(hits);
    *seq = b->seq ^ ((b->seq ^ b->other_seq) & (uint32_t)is_other);
    b->hits &= b->hits - 1;
    b->other_hits &= b->other_hits - (is_other & 1);
    return p;
}

/* Both pages are looked through at once. LOOK_AGAIN when a writer came in between. */
static inline enum look look_in_both(struct cache_page *home, struct cache_page *other,
                                     const struct cache_name *name, uint32_t type,
                                     uint8_t key_flags, struct cache_found *f)
{
    struct both b = {.home = home, .other = other};
    struct cache_cursor c;
    bool open =
        (unsigned)cache_page_begin(home, &b.seq) & cache_page_begin(other, &b.other_seq);
    unsigned n = cache_page_slots(home), m = cache_page_slots(other);
    if (!open)
        return LOOK_AGAIN;
    do {
        b.hits = cache_page_match(home, b.base, n, name);
        b.other_hits = cache_page_match(other, b.base, m, name);
        while (__builtin_expect((b.hits | b.other_hits) != 0, 1)) {
            struct cache_page *p = both_next(&b, &c, &f->seq);
            size_t upto = cache_page_upto(p, c.slot);
            c.len = page_len(p, c.slot);
            c.off = PAGE_BODY - upto;
            if (upto > PAGE_BODY)
                return LOOK_AGAIN;
            if (!store_entry_copy(f, p, &c, name))
                continue;
            if (!cache_page_still(p, f->seq))
                return LOOK_AGAIN;
            f->off = c.off;
            if (__builtin_expect(store_found_in(f, type, key_flags), 1))
                return LOOK_FOUND;
        }
        b.base += PAGE_SCAN;
    } while (b.base < n || b.base < m);
    /* in this order, as entries may move from one to the other */
    return cache_page_still(other, b.other_seq) && cache_page_still(home, b.seq) ? LOOK_NONE
                                                                                 : LOOK_AGAIN;
}

__attribute__((noinline)) static bool
find_patiently(struct cache_page *home, struct cache_page *other, const struct cache_name *name,
               uint32_t type, uint8_t key_flags, struct cache_found *f)
{
    uint32_t seq, other_seq;
    for (unsigned i = 0; i < READ_TRIES; i++) {
        enum look look = look_in(home, name, type, key_flags, f, &seq);
        if (look == LOOK_NONE)
            look = look_in(other, name, type, key_flags, f, &other_seq);
        if (look == LOOK_FOUND)
            return true;
        /* an entry may have moved from the other page to this one meanwhile */
        if (look == LOOK_NONE && cache_page_still(home, seq))
            return false;
    }
    cache_store_lock(home, other);
    enum look look = look_locked(home, name, type, key_flags, f);
    if (look == LOOK_NONE && other != home)
        look = look_locked(other, name, type, key_flags, f);
    cache_store_unlock(home, other);
    return look == LOOK_FOUND;
}

bool cache_store_search(const struct cache_arena *a, const struct cache_name *name,
                        uint32_t type, uint8_t key_flags, struct cache_found *f)
{
    struct cache_page *home = cache_arena_home(a, name->hash);
    struct cache_page *other = cache_arena_other(a, name->hash);
    enum look look = look_in_both(home, other, name, type, key_flags, f);
    if (__builtin_expect(look == LOOK_AGAIN, 0))
        return find_patiently(home, other, name, type, key_flags, f);
    if (look != LOOK_FOUND)
        return false;
    /* what is not known well will be written to when it is asked for (cache_store_asked()) */
    if ((f->meta & META_ASKED) == META_ASKED)
        cache_hint_put(cache_hints_of(&a->hints, name->hash), name->hash,
                       cache_hint_make(f->page == other, f->slot, f->off, f->seq));
    return true;
}

/* ---- writing */

void cache_store_lock(struct cache_page *home, struct cache_page *other)
{
    struct cache_page *first = home < other ? home : other;
    cache_page_lock(first);
    if (home != other)
        cache_page_lock(first == home ? other : home);
}

void cache_store_unlock(struct cache_page *home, struct cache_page *other)
{
    cache_page_unlock(home);
    if (home != other)
        cache_page_unlock(other);
}

/* An entry of the name, in a page that is held. */
struct place {
    struct cache_page *page; /* NULL: there is none */
    unsigned slot;
    size_t off, len;
    const uint8_t *record; /* the one sought, in the page; NULL without */
};

/* Looks for the entry that has the record; else any entry of the name. */
static void find_in(struct cache_page *p, const struct cache_name *name, uint32_t type,
                    uint8_t key_flags, struct place *at)
{
    struct cache_cursor c;
    cache_page_find(&c, p, name);
    while (at->record == NULL && cache_page_next(&c, p)) {
        const uint8_t *entry = p->body + c.off;
        if (c.len < name->key_len || memcmp(entry, name->key, name->key_len) != 0)
            continue;
        const uint8_t *record =
            store_record_find(entry + name->key_len, c.len - name->key_len, type, key_flags);
        if (at->page != NULL && record == NULL)
            continue;
        *at = (struct place){
            .page = p, .slot = c.slot, .off = c.off, .len = c.len, .record = record};
    }
}

/* An entry that is put together. */
struct draft {
    uint8_t octets[2 * ENTRY_MAX + 8];
    size_t len;
};

static void draft_add(struct draft *d, const uint8_t *record, size_t len, size_t *last)
{
    if (*last != SIZE_MAX)
        d->octets[*last] |= RECORD_MORE;
    *last = d->len;
    memcpy(d->octets + d->len, record, len);
    d->octets[d->len] &= (uint8_t)~RECORD_MORE;
    d->len += len;
}

static void draft_pad(struct draft *d)
{
    memset(d->octets + d->len, 0, 4);
    d->len = (d->len + 3) & ~(size_t)3;
}

/* Key, the new record, and those of the entry at `at` that are good for something, without the
 * old one. */
static void draft_make(struct draft *d, const struct cache_name *name, const uint8_t *record,
                       size_t len, const struct place *at, const struct cache_store_rule *rule)
{
    size_t last = SIZE_MAX; /* where the record before begins */
    memcpy(d->octets, name->key, name->key_len);
    d->len = name->key_len;
    if (record != NULL)
        draft_add(d, record, len, &last);
    if (at->page != NULL) {
        const uint8_t *entry = at->page->body + at->off, *end = entry + at->len;
        struct cache_record r;
        const uint8_t *p = entry + name->key_len;
        while (cache_record_read(&r, p, (size_t)(end - p))) {
            size_t n = cache_record_size(&r, (size_t)(end - p));
            if (n == 0)
                break;
            if (p != at->record &&
                cache_record_left(r.expiry, rule->now_s) > -(int64_t)rule->stale_max_s)
                draft_add(d, p, n, &last);
            if (!(r.flags & RECORD_MORE))
                break;
            p += n;
        }
    }
    draft_pad(d);
}

/* Whether what is there is to stay. */
static bool is_kept(const uint8_t *old, size_t left, const struct cache_store_rule *rule)
{
    struct cache_record r;
    if (rule->if_absent)
        return true;
    return rule->failure && cache_record_read(&r, old, left) && !(r.flags & RECORD_FAILURE) &&
           cache_record_left(r.expiry, rule->now_s) > -(int64_t)rule->stale_max_s;
}

/* Puts the draft where the entry was, if it is as long, else somewhere in the two pages. */
static void draft_put(const struct cache_room *room, const struct cache_name *name,
                      const struct draft *d, const struct place *at, uint8_t meta)
{
    struct cache *c = room->c;
    if (at->page != NULL) {
        meta = (uint8_t)page_meta(at->page, at->slot);
        if (d->len == at->len) {
            cache_room_count(c, name->kind, at->page->body + at->off, at->len, -1);
            cache_room_count(c, name->kind, d->octets, d->len, 1);
            racy_write(at->page->body + at->off, d->octets, d->len);
            cache_room_soonest(at->page, name->kind, d->octets, d->len, room->now_s);
            return;
        }
        cache_room_remove(c, at->page, at->slot, at->off);
        if (d->len <= name->key_len + 3) /* nothing left in it */
            return;
    }
    struct cache_page *p = cache_room_make(room, d->len);
    cache_room_append(c, p, name->tag, meta, d->octets, d->len, room->now_s);
}

/* What is to be put, and where. */
struct putting {
    struct cache_room room;
    const struct cache_name *name;
    const struct cache_store_rule *rule;
};

static void find_both(const struct putting *p, uint32_t type, uint8_t key_flags,
                      struct place *at)
{
    *at = (struct place){.page = NULL};
    find_in(p->room.home, p->name, type, key_flags, at);
    if (at->record == NULL && p->room.other != p->room.home)
        find_in(p->room.other, p->name, type, key_flags, at);
}

static inline size_t place_left(const struct place *at)
{
    return (size_t)(at->page->body + at->off + at->len - at->record);
}

/* Meta of a new entry: into the main FIFO at once when its ghost is there. */
static uint8_t new_meta(const struct putting *p)
{
    uint8_t meta = p->rule->meta | p->name->kind;
    uint16_t ghost = cache_page_ghost_of(p->name->tag, p->name->key, p->name->key_len);
    if (p->rule->meta == 0 &&
        (cache_page_ghost(p->room.home, ghost) || cache_page_ghost(p->room.other, ghost)))
        meta |= META_MAIN;
    return meta;
}

static enum cache_store_result put_locked(const struct putting *p, uint32_t type,
                                          uint8_t key_flags, const uint8_t *record, size_t len)
{
    const struct cache_store_rule *rule = p->rule;
    uint8_t made[ENTRY_MAX];
    struct place at;
    struct draft d;

    find_both(p, type, key_flags, &at);
    bool replaces = at.record != NULL;
    if (replaces && is_kept(at.record, place_left(&at), rule))
        return STORE_KEPT;
    if (!replaces && rule->if_present)
        return STORE_KEPT;
    if (rule->make != NULL) {
        len = rule->make(rule->make_arg, at.record, replaces ? place_left(&at) : 0, made);
        record = made;
    }
    if (len == 0 || p->name->key_len + len > ENTRY_MAX)
        return STORE_KEPT;
    draft_make(&d, p->name, record, len, &at, rule);
    if (d.len > ENTRY_MAX) { /* not all of them in one entry: the new one gets its own */
        if (replaces) {
            draft_make(&d, p->name, NULL, 0, &at, rule);
            draft_put(&p->room, p->name, &d, &at, 0);
        }
        at = (struct place){.page = NULL};
        draft_make(&d, p->name, record, len, &at, rule);
    }
    draft_put(&p->room, p->name, &d, &at, new_meta(p));
    return replaces ? STORE_REPLACED : STORE_ADDED;
}

/* Locks the pages of a name; false, and nothing locked, when the arena is retired. */
static bool putting_start(struct putting *p, struct cache *c, struct cache_arena *a,
                          const struct cache_name *name, const struct cache_store_rule *rule)
{
    *p = (struct putting){
        .room = {.c = c,
                 .a = a,
                 .home = cache_arena_home(a, name->hash),
                 .other = cache_arena_other(a, name->hash),
                 .now_s = rule->now_s},
        .name = name,
        .rule = rule,
    };
    cache_store_lock(p->room.home, p->room.other);
    if (!__atomic_load_n(&a->retired, __ATOMIC_SEQ_CST))
        return true;
    cache_store_unlock(p->room.home, p->room.other);
    return false;
}

static void putting_end(const struct putting *p)
{
    cache_store_unlock(p->room.home, p->room.other);
}

enum cache_store_result cache_store_put(struct cache *c, struct cache_arena *a,
                                        const struct cache_name *name, uint32_t type,
                                        uint8_t key_flags, const uint8_t *record, size_t len,
                                        const struct cache_store_rule *rule)
{
    struct putting p;
    if (!putting_start(&p, c, a, name, rule))
        return STORE_RETIRED;
    enum cache_store_result result = put_locked(&p, type, key_flags, record, len);
    putting_end(&p);
    return result;
}

/* The records of an entry, one by one. */
static void put_records(const struct putting *p, const uint8_t *entry, size_t len)
{
    struct cache_entry e;
    for (bool more = cache_entry_first(&e, p->name->kind, entry, len); more;
         more = cache_entry_next(&e)) {
        uint32_t type = e.record.form == FORM_SUBNETS ? (uint32_t)STORE_SUBNETS : e.record.type;
        put_locked(p, type, e.record.flags & RECORD_KEY, e.record.start,
                   cache_record_size(&e.record, e.left));
    }
}

enum cache_store_result cache_store_put_entry(struct cache *c, struct cache_arena *a,
                                              const struct cache_name *name,
                                              const uint8_t *entry, size_t len,
                                              const struct cache_store_rule *rule)
{
    struct putting p;
    struct place at;
    if (!putting_start(&p, c, a, name, rule))
        return STORE_RETIRED;
    find_both(&p, STORE_NOTHING, 0, &at);
    if (at.page != NULL) {
        put_records(&p, entry, len);
    } else {
        struct cache_page *page = cache_room_make(&p.room, len);
        cache_room_append(c, page, name->tag, new_meta(&p), entry, len, rule->now_s);
    }
    putting_end(&p);
    return STORE_ADDED;
}

/* For taking something out: all else stays. Who does that does not say what time it is. */
static struct cache_store_rule keep_others(const struct cache *c)
{
    return (struct cache_store_rule){.now_s = racy_load(&c->clock_s),
                                     .stale_max_s = UINT32_MAX};
}

enum cache_store_result cache_store_drop(struct cache *c, struct cache_arena *a,
                                         const struct cache_name *name, size_t *answers)
{
    const struct cache_store_rule rule = keep_others(c);
    struct putting p;
    struct place at;
    if (!putting_start(&p, c, a, name, &rule))
        return STORE_RETIRED;
    for (find_both(&p, STORE_NOTHING, 0, &at); at.page != NULL;
         find_both(&p, STORE_NOTHING, 0, &at)) {
        *answers += cache_entry_answers(name->kind, at.page->body + at.off, at.len);
        cache_room_remove(c, at.page, at.slot, at.off);
    }
    putting_end(&p);
    return STORE_DROPPED;
}

enum cache_store_result cache_store_drop_record(struct cache *c, struct cache_arena *a,
                                                const struct cache_name *name, uint32_t type,
                                                uint8_t key_flags)
{
    struct putting p;
    struct place at;
    struct draft d;
    const struct cache_store_rule rule = keep_others(c);
    if (!putting_start(&p, c, a, name, &rule))
        return STORE_RETIRED;
    find_both(&p, type, key_flags, &at);
    if (at.record != NULL) {
        draft_make(&d, name, NULL, 0, &at, &rule);
        draft_put(&p.room, name, &d, &at, 0);
    }
    putting_end(&p);
    return STORE_DROPPED;
}

/* Writes an entry anew without what is no good any more; false, and nothing done, when that is
 * none. */
static bool entry_sweep(struct cache *c, struct cache_arena *a, struct cache_page *p,
                        unsigned slot, size_t off, const struct cache_store_rule *rule)
{
    struct cache_name name;
    struct cache_entry e;
    struct draft d;
    uint8_t meta = (uint8_t)page_meta(p, slot), kind = meta & META_KIND;
    size_t len = page_len(p, slot);
    const uint8_t *entry = p->body + off;
    const struct place at = {.page = p, .slot = slot, .off = off, .len = len};
    bool dead = false;

    for (bool more = cache_entry_first(&e, kind, entry, len); more; more = cache_entry_next(&e))
        dead |= cache_record_left(e.record.expiry, rule->now_s) <= -(int64_t)rule->stale_max_s;
    if (!dead || !cache_key_from_entry(&name, &a->hash, kind, entry, len))
        return false;
    draft_make(&d, &name, NULL, 0, &at, rule);
    cache_room_remove(c, p, slot, off);
    if (d.len > name.key_len + 3) /* it is shorter now, so there is room */
        cache_room_append(c, p, name.tag, meta, d.octets, d.len, rule->now_s);
    return true;
}

void cache_store_sweep(struct cache *c, struct cache_arena *a, struct cache_page *p,
                       uint32_t now_s, uint32_t stale_max_s)
{
    const struct cache_store_rule rule = {.now_s = now_s, .stale_max_s = stale_max_s};
    size_t off = PAGE_BODY;
    if (racy_load(&p->n) == 0 && !(racy_load(&p->seq) & 1))
        return; /* untouched memory stays so */
    cache_page_lock(p);
    unsigned left = p->n; /* those written anew come last and are not looked at again */
    for (unsigned i = 0; left > 0; left--) {
        size_t len = page_len(p, i);
        off -= len;
        if (entry_sweep(c, a, p, i, off, &rule))
            off += len;
        else
            i++;
    }
    cache_room_soonest_all(p, now_s);
    cache_page_unlock(p);
}
