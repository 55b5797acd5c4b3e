/* walk.c - all entries, for dumps. */
#include "cache/cache.h"
#include "cache/clock.h"
#include "cache/internal.h"
#include "cache/store.h"
#include "dns/name.h"

struct walk {
    uint32_t now_s;
    uint16_t epoch;
    bool (*each)(void *arg, const struct cache_entry_info *info);
    void *arg;
};

static bool entry_show(const struct walk *w, uint8_t kind, const uint8_t *entry, size_t len)
{
    uint8_t name[DNS_NAME_MAX];
    struct cache_entry e;
    size_t key_len = cache_key_len(kind, entry, len), head = kind == KEY_LONG ? 1 : 0;
    size_t name_len = kind == KEY_FINGERPRINT || key_len == SIZE_MAX
                          ? 0
                          : cache_namecode_decode(name, entry + head, key_len - head);
    if (name_len == 0)
        return true;
    for (bool more = cache_entry_first(&e, kind, entry, len); more;
         more = cache_entry_next(&e)) {
        const struct cache_record *r = &e.record;
        if ((r->flags & RECORD_FAILURE) && r->epoch != w->epoch)
            continue; /* void */
        struct cache_entry_info info = {
            .qname = name,
            .qname_len = name_len,
            .qtype = r->type,
            .rcode = r->rcode,
            .dnssec_ok = r->flags & RECORD_DO,
            .checking_disabled = r->flags & RECORD_CD,
            .scoped = r->form == FORM_SUBNETS,
            .life_left_s = cache_record_left(r->expiry, w->now_s),
            .bytes = cache_record_size(r, e.left),
        };
        if (!w->each(w->arg, &info))
            return false;
    }
    return true;
}

static bool page_show(const struct walk *w, const struct cache_page *p)
{
    size_t off = PAGE_BODY;
    for (unsigned i = 0; i < p->n; i++) {
        size_t len = page_len(p, i);
        off -= len;
        if (!entry_show(w, page_meta(p, i) & META_KIND, p->body + off, len))
            return false;
    }
    return true;
}

void cache_walk(struct cache *c, uint32_t now_s,
                bool (*each)(void *arg, const struct cache_entry_info *info), void *arg)
{
    const struct walk w = {
        .now_s = now_s, .epoch = (uint16_t)racy_load(&c->epoch), .each = each, .arg = arg};
    struct cache_arena *a = cache_arena_load(&c->arena);
    struct cache_page copy;
    if (!cache_clock_check(c, now_s))
        return;
    for (size_t i = 0; i < a->pages; i++) {
        /* A callback may take its time, and retired arenas are unmapped in the end. */
        if (cache_arena_load(&c->arena) != a)
            return;
        if (cache_page_copy(&a->page[i], &copy) && !page_show(&w, &copy))
            return;
    }
}
