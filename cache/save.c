/* save.c - all entries to a file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/clock.h"
#include "cache/crc.h"
#include "cache/refresh.h"
#include "cache/snapshot.h"
#include "cache/store.h"

struct saving {
    struct cache *c;
    struct cache_arena *arena;
    int fd;
    bool failed;
    size_t len; /* in block */
    uint8_t *block;
};

static bool write_all(int fd, const void *data, size_t len)
{
    const uint8_t *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
    return true;
}

static void block_flush(struct saving *s)
{
    struct snapshot_block h = {.len = (uint32_t)s->len, .crc = cache_crc(0, s->block, s->len)};
    if (s->len == 0 || s->failed)
        return;
    s->failed = !write_all(s->fd, &h, sizeof h) || !write_all(s->fd, s->block, s->len);
    s->len = 0;
}

static void item_add(struct saving *s, uint8_t what, uint8_t meta, const uint8_t *key,
                     size_t key_len, const uint8_t *data, size_t len)
{
    struct snapshot_item h = {.len = (uint32_t)(key_len + len),
                              .what = what,
                              .meta = meta,
                              .key_len = (uint16_t)key_len};
    if (s->failed) /* the block is no longer emptied */
        return;
    if (s->len + sizeof h + h.len > SNAPSHOT_BLOCK_MAX)
        block_flush(s);
    uint8_t *p = s->block + s->len;
    memcpy(p, &h, sizeof h);
    memcpy(p + sizeof h, key, key_len);
    memcpy(p + sizeof h + key_len, data, len);
    s->len += sizeof h + h.len;
}

/* Kept apart for its buffer of 64 KiB. */
__attribute__((noinline)) static void large_add(struct saving *s, uint8_t meta,
                                                const struct cache_name *name,
                                                const struct cache_record *r)
{
    uint8_t record[LARGE_MAX + 8];
    uint64_t id = cache_refresh_id(name->hash, r->type, r->flags & RECORD_KEY);
    size_t len = cache_large_get(s->arena, id, r, record);
    if (len > 0)
        item_add(s, SNAPSHOT_LARGE, meta, name->key, name->key_len, record, len);
}

static void entry_add(struct saving *s, uint8_t meta, const uint8_t *entry, size_t len)
{
    uint8_t rest[ENTRY_MAX + 8];
    size_t n = 0, last = SIZE_MAX;
    struct cache_name name;
    struct cache_entry e;
    uint8_t kind = meta & META_KIND;
    if (!cache_key_from_entry(&name, &s->arena->hash, kind, entry, len))
        return;
    for (bool more = cache_entry_first(&e, kind, entry, len); more;
         more = cache_entry_next(&e)) {
        size_t size = cache_record_size(&e.record, e.left);
        if ((e.record.flags & RECORD_FAILURE) &&
            e.record.epoch != (uint16_t)racy_load(&s->c->epoch))
            continue; /* void */
        if (e.record.form == FORM_LARGE) {
            large_add(s, meta, &name, &e.record);
            continue;
        }
        if (last != SIZE_MAX)
            rest[last] |= RECORD_MORE;
        last = n;
        memcpy(rest + n, e.record.start, size);
        rest[n] &= (uint8_t)~RECORD_MORE;
        n += size;
    }
    if (n > 0)
        item_add(s, SNAPSHOT_ENTRY, meta, name.key, name.key_len, rest, n);
}

static void pages_save(struct saving *s)
{
    struct cache_page copy;
    for (size_t i = 0; i < s->arena->pages && !s->failed; i++) {
        if (!cache_page_copy(&s->arena->page[i], &copy))
            continue;
        size_t off = PAGE_BODY;
        for (unsigned k = 0; k < copy.n; k++) {
            size_t len = page_len(&copy, k);
            off -= len;
            entry_add(s, (uint8_t)page_meta(&copy, k), copy.body + off, len);
        }
    }
    block_flush(s);
}

static bool header_save(const struct saving *s, uint32_t now_s, int64_t wall_s)
{
    struct snapshot_header h = {
        .version = SNAPSHOT_VERSION,
        .byte_order = SNAPSHOT_BYTE_ORDER,
        .key = s->arena->hash.sip,
        .wall_s = wall_s,
        .now_s = now_s,
        .generation = racy_load(&s->c->generation),
    };
    memcpy(h.magic, SNAPSHOT_MAGIC, sizeof h.magic);
    h.crc = cache_crc(0, &h, offsetof(struct snapshot_header, crc));
    return write_all(s->fd, &h, sizeof h);
}

/* The folder of a path, synced, so that the new name in it is there after a crash. */
static void folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    if (n >= sizeof folder)
        return;
    memcpy(folder, path, n);
    folder[n] = 0;
    int fd = open(slash == NULL ? "."
                  : n == 0      ? "/"
                                : folder,
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

static bool file_save(struct saving *s, const char *temporary, const char *path, uint32_t now_s,
                      int64_t wall_s)
{
    s->fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->fd < 0)
        return false;
    s->failed = fchmod(s->fd, 0600) != 0 || !header_save(s, now_s, wall_s);
    if (!s->failed)
        pages_save(s);
    if (!s->failed)
        s->failed = fsync(s->fd) != 0;
    int saved = errno;
    close(s->fd);
    if (!s->failed && rename(temporary, path) == 0) {
        folder_sync(path);
        return true;
    }
    if (s->failed)
        errno = saved;
    else
        saved = errno;
    unlink(temporary);
    errno = saved;
    return false;
}

enum err cache_save(struct cache *c, const char *path, uint32_t now_s, int64_t wall_s)
{
    char temporary[PATH_MAX];
    enum err err = ERR_OK;
    int n = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (n < 0 || (size_t)n >= sizeof temporary)
        return ERR_SPACE;
    struct saving s = {.c = c, .block = malloc(SNAPSHOT_BLOCK_MAX)};
    if (s.block == NULL)
        return ERR_NOMEM;
    pthread_mutex_lock(&c->admin);
    cache_clock_check(c, now_s);
    s.arena = c->arena;
    if (!file_save(&s, temporary, path, now_s, wall_s))
        err = ERR_SYSTEM;
    pthread_mutex_unlock(&c->admin);
    free(s.block);
    return err;
}
