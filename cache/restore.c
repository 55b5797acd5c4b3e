/* restore.c - entries from a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/clock.h"
#include "cache/crc.h"
#include "cache/refresh.h"
#include "cache/resize.h"
#include "cache/snapshot.h"
#include "cache/store.h"

enum {
    AWAY_MAX_S = 10 * 86400, /* what was past its life for longer is left out */
    ITEM_MAX = LARGE_MAX + 256,
};

struct restoring {
    struct cache *c;
    struct cache_arena *arena; /* not published yet */
    uint32_t saved_s, now_s, away_s;
    uint8_t *block; /* SNAPSHOT_BLOCK_MAX octets */
};

/* Moves the expiry of a record to the clock of now; false when the record is not worth it. */
static bool record_shift(const struct restoring *r, const struct cache_record *record,
                         uint8_t *at)
{
    uint32_t word;
    int32_t left = cache_record_left(record->expiry, r->saved_s);
    int64_t left_now = (int64_t)left - r->away_s;
    if (left_now < -(int64_t)AWAY_MAX_S)
        return false;
    if (record->flags &
        RECORD_FAILURE) { /* void ones were not saved, so it is of the epoch now */
        uint16_t epoch = (uint16_t)racy_load(&r->c->epoch);
        if (!(record->what & EXT_EPOCH))
            return false;
        memcpy(at + (record->body - record->start) - sizeof epoch, &epoch, sizeof epoch);
    }
    if (record->flags & RECORD_OPTOUT)
        racy_store(&r->c->has_optouts, 1);
    memcpy(&word, at + 2, sizeof word);
    word = (word & ~(uint32_t)RECORD_CLOCK) |
           ((uint32_t)((int64_t)r->now_s + left_now) & RECORD_CLOCK);
    memcpy(at + 2, &word, sizeof word);
    return true;
}

static void entry_put(const struct restoring *r, uint8_t meta, const struct cache_name *name,
                      const uint8_t *entry, size_t len)
{
    const struct cache_store_rule rule = {
        .now_s = r->now_s,
        .stale_max_s = UINT32_MAX,
        .if_absent = true,
        .meta = meta & (META_MAIN | META_ASKED),
    };
    cache_store_put_entry(r->c, r->arena, name, entry, len, &rule);
}

/* Copies key and records, their clocks moved, without those that are too old. Returns the
 * length; 0 when nothing is left, or it has what only a stub may be. */
static size_t records_restore(const struct restoring *r, uint8_t kind, uint8_t *data,
                              size_t len, uint8_t *out)
{
    struct cache_entry e;
    size_t n = cache_key_len(kind, data, len), last = SIZE_MAX;
    memcpy(out, data, n);
    for (bool more = cache_entry_first(&e, kind, data, len); more;
         more = cache_entry_next(&e)) {
        uint8_t *record = data + (e.record.start - data);
        size_t size = cache_record_size(&e.record, e.left);
        if (e.record.form == FORM_LARGE) /* stubs of large records are made here only */
            return 0;
        if (!record_shift(r, &e.record, record))
            continue;
        if (last != SIZE_MAX)
            out[last] |= RECORD_MORE;
        last = n;
        memcpy(out + n, record, size);
        out[n] &= (uint8_t)~RECORD_MORE;
        n += size;
    }
    memset(out + n, 0, 4);
    return last != SIZE_MAX ? (n + 3) & ~(size_t)3 : 0;
}

/* An entry: checked, its clocks moved, put. data has 4 octets of room behind len. */
static void entry_restore(struct restoring *r, uint8_t meta, uint8_t *data, size_t len)
{
    uint8_t entry[ENTRY_MAX + 8];
    struct cache_name name;
    uint8_t kind = meta & META_KIND;
    memset(data + len, 0, 4);
    len = (len + 3) & ~(size_t)3;
    if (len > ENTRY_MAX || !cache_entry_check(kind, data, len) ||
        !cache_key_from_entry(&name, &r->arena->hash, kind, data, len) || name.kind != kind)
        return;
    size_t n = records_restore(r, kind, data, len, entry);
    if (n > 0)
        entry_put(r, meta, &name, entry, n);
}

/* A key and a large record: the record goes to the large pages, its stub is put. */
static void large_restore(struct restoring *r, uint8_t meta, size_t key_len, uint8_t *data,
                          size_t len)
{
    uint8_t entry[ENTRY_MAX + 8];
    struct cache_name name;
    struct cache_record record;
    uint8_t kind = meta & META_KIND, *at = data + key_len;
    if (cache_key_len(kind, data, len) != key_len ||
        !cache_record_read(&record, at, len - key_len) || record.form == FORM_LARGE ||
        record.form == FORM_SUBNETS || (record.flags & RECORD_MORE) ||
        cache_record_size(&record, len - key_len) != len - key_len ||
        !record_shift(r, &record, at) ||
        !cache_key_from_entry(&name, &r->arena->hash, kind, data, len))
        return;
    memcpy(entry, data, key_len);
    uint64_t id = cache_refresh_id(name.hash, record.type, record.flags & RECORD_KEY);
    size_t stub = cache_large_put(r->c, r->arena, id, at, len - key_len, entry + key_len);
    if (stub == 0)
        return;
    size_t n = key_len + stub;
    memset(entry + n, 0, 4);
    n = (n + 3) & ~(size_t)3;
    if (cache_entry_check(kind, entry, n))
        entry_put(r, meta, &name, entry, n);
}

/* data may be changed. */
static void item_restore(struct restoring *r, const struct snapshot_item *h, uint8_t *data)
{
    if (h->key_len > h->len)
        return;
    if (h->what == SNAPSHOT_ENTRY)
        entry_restore(r, h->meta, data, h->len);
    else if (h->what == SNAPSHOT_LARGE)
        large_restore(r, h->meta, h->key_len, data, h->len);
}

/* The items of a block, whose CRC was right. */
static void block_restore(struct restoring *r, size_t len)
{
    uint8_t item[ITEM_MAX + 8];
    struct snapshot_item h;
    for (size_t pos = 0; len - pos >= sizeof h; pos += h.len) {
        memcpy(&h, r->block + pos, sizeof h);
        pos += sizeof h;
        if (h.len > len - pos || h.len > ITEM_MAX)
            return;
        memcpy(item, r->block + pos, h.len);
        item_restore(r, &h, item);
    }
}

/* All blocks up to one that is cut; those whose CRC is wrong are left out. */
static void blocks_restore(struct restoring *r, FILE *f)
{
    struct snapshot_block h;
    while (fread(&h, sizeof h, 1, f) == 1) {
        if (h.len > SNAPSHOT_BLOCK_MAX || fread(r->block, 1, h.len, f) != h.len)
            return;
        if (cache_crc(0, r->block, h.len) == h.crc)
            block_restore(r, h.len);
        cache_arena_check(r->arena, racy_load(&r->c->used));
    }
}

static bool header_read(struct snapshot_header *h, FILE *f)
{
    return fread(h, sizeof *h, 1, f) == 1 &&
           memcmp(h->magic, SNAPSHOT_MAGIC, sizeof h->magic) == 0 &&
           h->version == SNAPSHOT_VERSION && h->byte_order == SNAPSHOT_BYTE_ORDER &&
           h->crc == cache_crc(0, h, offsetof(struct snapshot_header, crc));
}

/* No head that is made from now on draws a generation that one in the file has. */
static void generation_raise(struct cache *c, uint32_t to)
{
    uint32_t is = racy_load(&c->generation);
    while ((int32_t)(to - is) > 0 &&
           !__atomic_compare_exchange_n(&c->generation, &is, to, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

/* About as much as its entries will take. */
static uint64_t file_size(FILE *f)
{
    struct stat st;
    return fstat(fileno(f), &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static enum err file_restore(struct cache *c, FILE *f, uint32_t now_s, int64_t wall_s)
{
    struct snapshot_header h;
    struct restoring r = {.c = c, .now_s = now_s};
    if (!header_read(&h, f))
        return ERR_FORMAT;
    /* a clock that was set back does not make entries younger */
    uint64_t away_s = wall_s > h.wall_s ? (uint64_t)wall_s - (uint64_t)h.wall_s : 0;
    if (away_s > AWAY_MAX_S)
        return ERR_OK; /* nothing in it is good for anything */
    r.away_s = (uint32_t)away_s;
    r.saved_s = h.now_s;
    r.block = malloc(SNAPSHOT_BLOCK_MAX);
    if (r.block == NULL)
        return ERR_NOMEM;
    r.arena = cache_arena_create(cache_arena_first(c, file_size(f)), c->bytes, &h.key);
    if (r.arena == NULL) {
        free(r.block);
        return ERR_NOMEM;
    }
    cache_clock_check(c, now_s);
    generation_raise(c, h.generation);
    blocks_restore(&r, f);
    cache_resize_to(c, r.arena, true, now_s);
    free(r.block);
    return ERR_OK;
}

enum err cache_restore(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return errno == ENOENT ? ERR_MISSING : ERR_SYSTEM;
    pthread_mutex_lock(&c->admin);
    enum err err = file_restore(c, f, now_s, wall_s);
    pthread_mutex_unlock(&c->admin);
    fclose(f);
    return err;
}
