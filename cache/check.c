/* check.c - everything about a cache that must always hold. */
#include "cache/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cache/internal.h"
#include "cache/large.h"
#include "cache/store.h"

struct check {
    struct cache *c;
    struct cache_arena *a;
    uint32_t now_s;
    size_t page;
    unsigned slot;
    char *why;
    size_t size;
    uint64_t entries, bytes, forms[8];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct check *k, const char *fmt, ...)
{
    char text[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(k->why, k->size, "page %zu, slot %u: %s", k->page, k->slot, text);
    return false;
}

/* How often a record is in a page. */
static unsigned times_in(const struct cache_page *p, const struct cache_name *name,
                         const struct cache_record *r)
{
    struct cache_cursor c;
    unsigned n = 0;
    cache_page_find(&c, p, name);
    while (cache_page_next(&c, p)) {
        const uint8_t *entry = p->body + c.off, *rest = entry + name->key_len;
        if (c.len < name->key_len || memcmp(entry, name->key, name->key_len) != 0)
            continue;
        size_t left = c.len - name->key_len;
        n += (r->form == FORM_SUBNETS
                  ? cache_record_find_subnets(rest, left)
                  : cache_record_find(rest, left, r->type, r->flags & RECORD_KEY)) != NULL;
    }
    return n;
}

static bool record_check(struct check *k, const struct cache_name *name,
                         const struct cache_record *r)
{
    struct cache_page *home = cache_arena_home(k->a, name->hash);
    struct cache_page *other = cache_arena_other(k->a, name->hash);
    unsigned n = times_in(home, name, r) + (other != home ? times_in(other, name, r) : 0);
    k->forms[r->form]++;
    k->entries += r->form != FORM_SUBNETS;
    return n == 1 || fail(k, "type %u is there %u times", r->type, n);
}

/* What a hint says of an entry where it is. */
static bool hint_check(struct check *k, const struct cache_page *p, uint64_t hash, size_t off)
{
    uint64_t hint = cache_hint_get(cache_hints_of(&k->a->hints, hash), hash);
    const struct cache_page *at = cache_hint_is_other(hint) ? cache_arena_other(k->a, hash)
                                                            : cache_arena_home(k->a, hash);
    if (hint == 0 || at != p || (uint32_t)hint != p->seq || cache_hint_slot(hint) != k->slot)
        return true;
    return cache_hint_offset(hint) == off || fail(k, "a hint says it is elsewhere");
}

static bool entry_check(struct check *k, struct cache_page *p, size_t off, size_t len)
{
    struct cache_name name;
    struct cache_entry e;
    const uint8_t *entry = p->body + off;
    uint8_t kind = page_meta(p, k->slot) & META_KIND;

    if (!cache_entry_check(kind, entry, len))
        return fail(k, "malformed entry of kind %u, %zu octets", kind, len);
    if (!cache_key_from_entry(&name, &k->a->hash, kind, entry, len) || name.kind != kind)
        return fail(k, "malformed key");
    if (name.tag != page_tag(p, k->slot))
        return fail(k, "tag is not of the key");
    if (cache_arena_home(k->a, name.hash) != p && cache_arena_other(k->a, name.hash) != p)
        return fail(k, "in a page that is not the key's");
    if (!hint_check(k, p, name.hash, off))
        return false;
    uint16_t now = (uint16_t)((k->now_s & RECORD_CLOCK) >> 6);
    int32_t soonest = -1;
    for (bool more = cache_entry_first(&e, kind, entry, len); more;
         more = cache_entry_next(&e)) {
        int32_t end = (int16_t)(uint16_t)((e.record.expiry >> 6) - now);
        int32_t late = (end > 0 ? end : 0) - (int16_t)(uint16_t)(p->soonest - now);
        if (late > soonest)
            soonest = late;
        if (!record_check(k, &name, &e.record))
            return false;
    }
    k->bytes += len + PAGE_BLOCK / PAGE_BLOCK_SLOTS;
    return soonest >= 0 || fail(k, "past its life before the page says");
}

static bool page_check(struct check *k, struct cache_page *p)
{
    size_t used = 0, blocks = (p->n + PAGE_BLOCK_SLOTS - 1u) / PAGE_BLOCK_SLOTS;
    k->slot = 0;
    if (p->seq & 1)
        return fail(k, "is locked");
    if (p->n > PAGE_SLOTS_MAX)
        return fail(k, "%u slots", p->n);
    for (unsigned i = 0; i < p->n; i++)
        used += page_len(p, i);
    if (used != p->used)
        return fail(k, "entries have %zu octets, it says %u", used, p->used);
    if (used + PAGE_BLOCK * blocks > PAGE_BODY)
        return fail(k, "slots and entries overlap");
    for (size_t off = PAGE_BODY; k->slot < p->n; k->slot++) {
        size_t len = page_len(p, k->slot);
        off -= len;
        if (!entry_check(k, p, off, len))
            return false;
    }
    return true;
}

static bool counter_check(struct check *k, enum cache_count what, uint64_t is, const char *name)
{
    uint64_t counted = cache_stats_sum(k->c->lines, what);
    if (counted == is)
        return true;
    snprintf(k->why, k->size, "%s: counted %llu, there are %llu", name,
             (unsigned long long)counted, (unsigned long long)is);
    return false;
}

bool cache_check(struct cache *c, uint32_t now_s, char *why, size_t size)
{
    struct check k = {.c = c, .a = c->arena, .now_s = now_s, .why = why, .size = size};
    for (; k.page < k.a->pages; k.page++) {
        if (!page_check(&k, &k.a->page[k.page]))
            return false;
    }
    for (unsigned i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "form %u", i);
        if (!counter_check(&k, (enum cache_count)(COUNT_FORM + i), k.forms[i], name))
            return false;
    }
    return counter_check(&k, COUNT_ENTRIES, k.entries, "entries") &&
           counter_check(&k, COUNT_BYTES, k.bytes, "bytes") &&
           counter_check(&k, COUNT_LARGE_BYTES, cache_large_bytes(k.a), "large bytes");
}
