/* fuzz_snapshot.c - snapshots that were damaged: no crash, no wrong answer.
 *
 * An input damages a good snapshot of many entries:
 *
 *   0        1                 5
 *   +--------+-----------------+-----------------+---
 *   | how    | change          | change          |
 *   +--------+-----------------+-----------------+---
 *   how:    1 the CRCs are made anew afterwards, 2 into a cache of another size, 4 the file is
 *           cut at the first place
 *   change: place, 16 bits; what; value
 *
 * With wrong CRCs every answer has to be as it was put. With right ones the answers are
 * whatever the file says, but they have to be sound, and so do the pages. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/cache.h"
#include "cache/check.h"
#include "cache/crc.h"
#include "cache/snapshot.h"
#include "fuzz.h"
#include "unit/made.h"
#include "unit/plain.h"

enum { ENTRIES = 64, FILE_MAX = 1 << 18, START_S = 5000, AWAY_S = 3 };

struct entry {
    struct cache_key key;
    struct ecs subnet;
    uint8_t qname[64];
    uint32_t life_s;
    struct plain_message put;
};

static struct entry entries[ENTRIES];
static uint8_t good[FILE_MAX], bad[FILE_MAX + 65536];
static size_t good_len;
static int memory_file;
static char memory_path[64];

static void entry_put(struct cache *c, struct random *r, size_t k)
{
    static uint8_t msg[MADE_MAX];
    struct entry *e = &entries[k];
    struct dns_reply reply;
    e->key.qname = e->qname;
    e->key.qname_len = made_name(r, e->qname + 3, 60) + 3;
    e->qname[0] = 2; /* no two names are equal */
    e->qname[1] = (uint8_t)('a' + k / 26);
    e->qname[2] = (uint8_t)('a' + k % 26);
    e->key.qtype = (uint16_t[]){1, 28, 16, 15}[k % 4];
    size_t len;
    do /* one for the large pages, of a size that leaves the fuzzer some speed */
        len = made_reply(r, k == 7 ? MADE_LARGE : (enum made_shape)(k % MADE_LARGE), e->qname,
                         e->key.qname_len, e->key.qtype, msg);
    while (k == 7 && (len < 1500 || len > 5000));
    CHECK(reply_parse(&reply, msg, len) && plain_parse(&e->put, msg, len));
    e->life_s = 300;
    struct cache_put_options o = {.now_s = START_S, .life_s = e->life_s, .ede = DNS_EDE_NONE};
    if (k % 5 == 3) {
        e->subnet = (struct ecs){.family = ADDR_V4, .source = 24, .ip = {192, 0, (uint8_t)k}};
        e->key.subnet = &e->subnet;
        o.scope = 24;
    }
    cache_put(c, &e->key, &reply, &o);
}

static void make_good(void)
{
    char path[64];
    struct random r;
    random_seed(&r, 77);
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    CHECK(c != NULL);
    for (size_t k = 0; k < ENTRIES; k++)
        entry_put(c, &r, k);
    snprintf(path, sizeof path, "fuzz-snapshot-%ld", (long)getpid());
    CHECK(cache_save(c, path, START_S, 1000000) == ERR_OK);
    cache_destroy(c);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    good_len = fread(good, 1, sizeof good, f);
    CHECK(good_len > sizeof(struct snapshot_header) && good_len < sizeof good);
    fclose(f);
    unlink(path);
    memory_file = memfd_create("snapshot", MFD_CLOEXEC);
    CHECK(memory_file >= 0);
    snprintf(memory_path, sizeof memory_path, "/proc/self/fd/%d", memory_file);
}

/* One change at a place; returns the new length. */
static size_t change(size_t len, const uint8_t *data)
{
    size_t at = ((size_t)data[0] << 8 | data[1]) * len >> 16, n = data[3] + 1u;
    switch (data[2] % 6) {
    case 0:
        bad[at] ^= (uint8_t)(1u << data[3] % 8);
        break;
    case 1:
        bad[at] = data[3];
        break;
    case 2: /* take out */
        if (n >= len - at)
            break;
        memmove(bad + at, bad + at + n, len - at - n);
        return len - n;
    case 3: /* twice */
        if (n > len - at || len + n > sizeof bad)
            break;
        memmove(bad + at + n, bad + at, len - at);
        return len + n;
    case 4: /* from elsewhere */
        memmove(bad + at, bad + data[3] * (len / 256), len - at < 64 ? len - at : 64);
        break;
    default:
        bad[data[3] % (sizeof(struct snapshot_header) + 16)] ^= data[0];
    }
    return len;
}

static void mend_crcs(size_t len)
{
    struct snapshot_block b;
    uint32_t crc = cache_crc(0, bad, offsetof(struct snapshot_header, crc));
    memcpy(bad + offsetof(struct snapshot_header, crc), &crc, sizeof crc);
    for (size_t at = sizeof(struct snapshot_header); at + sizeof b < len;
         at += sizeof b + b.len) {
        memcpy(&b, bad + at, sizeof b);
        if (b.len > len - at - sizeof b)
            break;
        b.crc = cache_crc(0, bad + at + sizeof b, b.len);
        memcpy(bad + at, &b, sizeof b);
    }
}

static size_t damage(const uint8_t *data, size_t size)
{
    size_t len = good_len, how = data[0];
    memcpy(bad, good, good_len);
    for (size_t at = 1; at + 4 <= size && len > sizeof(struct snapshot_header) + 64; at += 4)
        len = change(len, data + at);
    if (how & 4 && size >= 3)
        len = ((size_t)data[1] << 8 | data[2]) * len >> 16;
    if (how & 1 && len >= sizeof(struct snapshot_header))
        mend_crcs(len);
    return len;
}

/* True when the answer was there. */
static bool check_entry(struct cache *c, const struct entry *e, bool as_put)
{
    static uint8_t out[DNS_MESSAGE_MAX];
    struct cache_answer a;
    struct cache_get_options o = {.now_s = START_S};
    struct plain_message got;
    if (cache_get(c, &e->key, &o, out, sizeof out, &a) == CACHE_MISS)
        return false;
    CHECK(plain_parse(&got, out, a.len));
    CHECK(got.qname_len == e->key.qname_len);
    CHECK(memcmp(got.qname, e->qname, got.qname_len) == 0 && got.qtype == e->key.qtype);
    const char *what = plain_difference(&e->put, &got, PLAIN_AGED(AWAY_S));
    if (as_put && what != NULL) {
        fprintf(stderr, "entry %zu: %s\n", (size_t)(e - entries), what);
        abort();
    }
    plain_free(&got);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (good_len == 0)
        make_good();
    if (size == 0)
        return 0;
    size_t len = damage(data, size), found = 0;
    CHECK(ftruncate(memory_file, 0) == 0);
    CHECK(pwrite(memory_file, bad, len, 0) == (ssize_t)len);
    struct cache *c = cache_create(CACHE_MIN_BYTES * (data[0] & 2 ? 2 : 1));
    CHECK(c != NULL);
    enum err e = cache_restore(c, memory_path, START_S, 1000000 + AWAY_S);
    CHECK(e == ERR_OK || e == ERR_FORMAT);
    char why[200];
    if (!cache_check(c, START_S, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    for (size_t k = 0; k < ENTRIES; k++)
        found += check_entry(c, &entries[k], !(data[0] & 1));
    /* The undamaged file brings everything back. */
    if (size == 1 && !(data[0] & 4))
        CHECK(found == ENTRIES);
    cache_destroy(c);
    return 0;
}
