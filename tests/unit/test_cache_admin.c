/* test_cache_admin.c - flush, walk, resize, save and restore. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/crc.h"
#include "cache_help.h"
#include "unit/made.h"

enum { NOW = 5000, NAMES = 3000, WALL = 1700000000 };

static const struct cache_put_options usual = {
    .now_s = NOW, .life_s = 300, .ede = DNS_EDE_NONE, .stale_max_s = 1000};

static const char *name_of(unsigned i)
{
    static char name[64];
    snprintf(name, sizeof name, "n%u.%s.example", i, i % 3 == 0 ? "left" : "right");
    return name;
}

static void fill(struct cache *c)
{
    struct asked a;
    for (unsigned i = 0; i < NAMES; i++)
        put_a(c, ask(&a, name_of(i), i % 2 ? RR_A : RR_HTTPS), (uint8_t)(i % 250 + 1), 300,
              &usual);
}

/* How many are still there; those that are must be right. */
static unsigned count(struct cache *c, uint32_t now_s, uint32_t age_s)
{
    struct asked a;
    unsigned n = 0;
    for (unsigned i = 0; i < NAMES; i++) {
        enum cache_outcome outcome;
        struct cache_answer answer;
        uint8_t got =
            get_a(c, ask(&a, name_of(i), i % 2 ? RR_A : RR_HTTPS), now_s, 0, &outcome, &answer);
        if (outcome == CACHE_MISS)
            continue;
        assert_int_equal(got, i % 250 + 1);
        assert_int_equal(answer.ttl_s, 300 - age_s);
        n++;
    }
    return n;
}

static size_t flush(struct cache *c, const char *name, bool suffix)
{
    struct asked a;
    ask(&a, name, RR_A);
    return suffix ? cache_flush_suffix(c, a.qname, a.key.qname_len)
                  : cache_flush_name(c, a.qname, a.key.qname_len);
}

static void test_flush(void **state)
{
    (void)state;
    struct cache *c = cache_create(4 << 20);
    struct cache_stats stats;
    fill(c);
    assert_int_equal(count(c, NOW, 0), NAMES);
    assert_int_equal(flush(c, "n7.right.example", false), 1);
    assert_int_equal(flush(c, "n7.right.example", false), 0);
    assert_int_equal(flush(c, "ight.example", true), 0); /* no label of that name */
    assert_int_equal(flush(c, "LEFT.example", true), NAMES / 3);
    assert_int_equal(count(c, NOW, 0), NAMES - NAMES / 3 - 1);
    assert_sound(c);
    cache_flush_all(c);
    assert_int_equal(count(c, NOW, 0), 0);
    cache_stats(c, &stats);
    assert_int_equal(stats.entries + stats.bytes_used + stats.bytes_large, 0);
    assert_sound(c);
    cache_destroy(c);
}

struct seen {
    unsigned n, stop_at;
    bool name[NAMES];
};

static bool each(void *arg, const struct cache_entry_info *info)
{
    struct seen *s = arg;
    char text[NAME_TEXT_SIZE];
    unsigned i = 0;
    assert_int_equal(sscanf(name_to_text(info->qname, info->qname_len, text), "n%u.", &i), 1);
    assert_true(i < NAMES && !s->name[i]);
    s->name[i] = true;
    assert_int_equal(info->qtype, i % 2 ? RR_A : RR_HTTPS);
    assert_int_equal(info->life_left_s, 290);
    return ++s->n != s->stop_at;
}

static void test_walk(void **state)
{
    (void)state;
    struct cache *c = cache_create(4 << 20);
    struct seen all = {.n = 0}, some = {.stop_at = 10};
    fill(c);
    cache_walk(c, NOW + 10, each, &all);
    assert_int_equal(all.n, NAMES);
    cache_walk(c, NOW + 10, each, &some);
    assert_int_equal(some.n, 10);
    cache_destroy(c);
}

static void test_resize(void **state)
{
    (void)state;
    struct cache *c = cache_create(2 << 20);
    static const size_t sizes[] = {8 << 20, 3 << 20, 1 << 20, 16 << 20};
    fill(c);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cache_stats stats;
        assert_int_equal(cache_resize(c, sizes[i], NOW), ERR_OK);
        cache_stats(c, &stats);
        assert_int_equal(stats.bytes_total, sizes[i]);
        assert_int_equal(count(c, NOW + 10, 10), NAMES);
        assert_sound(c);
    }
    assert_int_equal(cache_resize(c, CACHE_MIN_BYTES - 1, NOW), ERR_NOMEM);
    assert_int_equal(count(c, NOW + 10, 10), NAMES);
    cache_destroy(c);
}

/* A large answer, and how long it is when it comes out. */
static void put_large(struct cache *c, struct cache_key *key);

static void note_crowded(void *arg)
{
    ++*(unsigned *)arg;
}

static void put_many(struct cache *c, unsigned from, unsigned to)
{
    struct asked a;
    char name[40];
    for (unsigned i = from; i < to; i++) {
        snprintf(name, sizeof name, "m%u.many.example", i);
        put_a(c, ask(&a, name, RR_A), (uint8_t)(i % 250 + 1), 300, &usual);
    }
}

static unsigned count_many(struct cache *c, unsigned n)
{
    struct asked a;
    char name[40];
    unsigned found = 0;
    for (unsigned i = 0; i < n; i++) {
        enum cache_outcome outcome;
        struct cache_answer answer;
        snprintf(name, sizeof name, "m%u.many.example", i);
        uint8_t got = get_a(c, ask(&a, name, RR_A), NOW, 0, &outcome, &answer);
        if (outcome != CACHE_MISS)
            assert_int_equal(got, i % 250 + 1);
        found += outcome != CACHE_MISS;
    }
    return found;
}

/* It begins small, tells once when that gets crowded, and nothing is lost on the way to all. */
static void test_grow(void **state)
{
    (void)state;
    enum { MANY = 60000 };
    unsigned told = 0, n = 0;
    struct cache_stats stats;
    struct cache *c = cache_create_growing(16 << 20, note_crowded, &told);
    assert_non_null(c);
    size_t first = c->arena->bytes;
    assert_true(first < 2 << 20);
    assert_int_equal(cache_grow(c, NOW),
                     ERR_OK); /* by hand, too early: it is done all the same */
    assert_true(c->arena->bytes > 15 << 20);
    cache_destroy(c);

    c = cache_create_growing(16 << 20, note_crowded, &told);
    for (; told == 0 && n < MANY; n += 100)
        put_many(c, n, n + 100);
    assert_true(told == 1 && n < MANY / 2);
    cache_stats(c, &stats);
    assert_true(stats.bytes_total == 16 << 20 && stats.bytes_used > first / 2);
    assert_int_equal(cache_grow(c, NOW), ERR_OK);
    assert_int_equal(count_many(c, n), n);
    assert_sound(c);
    put_many(c, n, MANY);
    assert_int_equal(count_many(c, MANY), MANY);
    cache_stats(c, &stats);
    assert_int_equal(stats.evictions + stats.evicted_expired, 0);
    assert_int_equal(told, 1);

    /* less is all at once; more is there when it is needed */
    assert_int_equal(cache_resize(c, 2 << 20, NOW), ERR_OK);
    assert_true(count_many(c, MANY) > MANY / 3);
    assert_int_equal(cache_resize(c, 64 << 20, NOW), ERR_OK);
    n = count_many(c, MANY);
    assert_true(n > MANY / 3);
    put_many(c, 0, MANY);
    cache_grow(c, NOW);
    assert_true(count_many(c, MANY) >= n);
    assert_sound(c);
    cache_destroy(c);
}

/* Large answers have a sixteenth of the arena to themselves, and it grows for them as well. */
static void test_grow_for_large(void **state)
{
    (void)state;
    unsigned told = 0;
    struct cache *c = cache_create_growing(32 << 20, note_crowded, &told);
    assert_non_null(c);
    for (unsigned i = 0; told == 0 && i < 200; i++) {
        struct asked a;
        char name[40];
        snprintf(name, sizeof name, "large%u.example", i);
        put_large(c, ask(&a, name, RR_TXT));
    }
    assert_int_equal(told, 1);
    cache_destroy(c);
}

static void put_large(struct cache *c, struct cache_key *key)
{
    static uint8_t msg[MADE_MAX];
    struct random r;
    struct dns_reply reply;
    random_seed(&r, 3);
    size_t len;
    do
        len = made_reply(&r, MADE_LARGE, key->qname, key->qname_len, key->qtype, msg);
    while (len < 5000);
    assert_true(reply_parse(&reply, msg, len));
    assert_int_equal(cache_put(c, key, &reply, &usual), ERR_OK);
}

static void test_snapshot(void **state)
{
    (void)state;
    char path[64];
    struct stat st;
    struct asked large;
    struct cache_answer answer, again;
    enum cache_outcome outcome;
    snprintf(path, sizeof path, "cache-admin-%ld.snapshot", (long)getpid());
    struct cache *c = cache_create(4 << 20);
    assert_int_equal(cache_restore(c, path, NOW, WALL), ERR_MISSING);
    fill(c);
    put_large(c, ask(&large, "large.example", RR_TXT));
    get_a(c, &large.key, NOW, 0, &outcome, &answer);
    assert_int_equal(cache_save(c, path, NOW + 10, WALL), ERR_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    cache_destroy(c);

    /* another size and another clock, 20 s later; what was put meanwhile is newer */
    static const size_t sizes[] = {4 << 20, 1 << 20, 16 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct asked a;
        struct cache_put_options o = usual;
        o.now_s = 77;
        c = cache_create(sizes[i]);
        put_a(c, ask(&a, "n1.right.example", RR_A), 2, 300, &o);
        put_a(c, ask(&a, "later.example", RR_A), 9, 300, &o);
        assert_int_equal(cache_restore(c, path, 77, WALL + 20), ERR_OK);
        assert_int_equal(get_a(c, &a.key, 77, 0, &outcome, &again), 9);
        get_a(c, ask(&a, "n1.right.example", RR_A), 77, 0, &outcome, &again);
        assert_int_equal(again.ttl_s, 300);
        assert_int_equal(flush(c, "n1.right.example", false), 1);
        assert_int_equal(count(c, 77, 30), NAMES - 1);
        get_a(c, &large.key, 77, 0, &outcome, &again);
        assert_int_equal(outcome, CACHE_HIT);
        assert_int_equal(again.len, answer.len);
        assert_sound(c);
        cache_destroy(c);
    }

    /* after weeks nothing is of use, and a clock set back makes nothing younger */
    c = cache_create(4 << 20);
    assert_int_equal(cache_restore(c, path, 77, WALL + 30 * 86400), ERR_OK);
    assert_int_equal(count(c, 77, 0), 0);
    assert_int_equal(cache_restore(c, path, 77, WALL - 86400), ERR_OK);
    assert_int_equal(count(c, 77, 10), NAMES);
    cache_destroy(c);
    unlink(path);
}

/* What is too old of a name's answers is left out of a snapshot, not the others with it. */
static void test_snapshot_of_old(void **state)
{
    (void)state;
    enum { DAY = 86400 };
    char path[64];
    struct asked fresh, old;
    struct cache_put_options o = usual;
    struct cache_answer answer;
    enum cache_outcome outcome;
    snprintf(path, sizeof path, "cache-old-%ld.snapshot", (long)getpid());
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    o.life_s = 60;
    put_a(c, ask(&old, "two.example", RR_HTTPS), 1, 60, &o);
    o.life_s = 14 * DAY;
    put_a(c, ask(&fresh, "two.example", RR_A), 2, 14 * DAY, &o);
    o.life_s = 60;
    put_a(c, ask(&old, "two.example", RR_HTTPS), 3, 60, &o);
    assert_int_equal(cache_save(c, path, NOW + 5 * DAY, WALL), ERR_OK);
    cache_destroy(c);

    c = cache_create(CACHE_MIN_BYTES);
    assert_int_equal(cache_restore(c, path, 77, WALL + 6 * DAY), ERR_OK);
    assert_int_equal(get_a(c, &fresh.key, 77, 0, &outcome, &answer), 2);
    assert_int_equal(outcome, CACHE_HIT);
    assert_int_equal(answer.ttl_s, 3 * DAY);
    get_a(c, &old.key, 77, 20 * DAY, &outcome, &answer);
    assert_int_equal(outcome, CACHE_MISS);
    assert_sound(c);
    cache_destroy(c);
    unlink(path);
}

static uint8_t *file_read(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    uint8_t *data = malloc(*len);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    fclose(f);
    return data;
}

static void file_write(const char *path, const uint8_t *data, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    fclose(f);
}

/* The CRC of the first block made right again, so that what is behind it is put to the test. */
static void crc_mend(uint8_t *data, size_t len)
{
    enum { FILE_HEADER = 56, BLOCK_HEADER = 8 };
    uint32_t block, crc;
    if (len < FILE_HEADER + BLOCK_HEADER)
        return;
    memcpy(&block, data + FILE_HEADER, sizeof block);
    if (block > len - FILE_HEADER - BLOCK_HEADER)
        return;
    crc = cache_crc(0, data + FILE_HEADER + BLOCK_HEADER, block);
    memcpy(data + FILE_HEADER + 4, &crc, sizeof crc);
}

static void test_damaged_snapshot(void **state)
{
    (void)state;
    char path[64];
    struct random r;
    size_t len, restored = 0;
    random_seed(&r, 4);
    snprintf(path, sizeof path, "cache-damaged-%ld.snapshot", (long)getpid());
    struct cache *c = cache_create(4 << 20);
    struct asked large;
    put_large(c, ask(&large, "large.example", RR_TXT));
    fill(c);
    assert_int_equal(cache_save(c, path, NOW, WALL), ERR_OK);
    cache_destroy(c);
    uint8_t *good = file_read(path, &len), *bad = malloc(len);
    assert_non_null(bad);
    for (int i = 0; i < 150; i++) {
        struct cache_stats stats;
        size_t cut = i % 3 == 0 ? random_below(&r, (uint32_t)len) : len;
        memcpy(bad, good, len);
        for (int k = 0; k < i % 50; k++)
            bad[random_below(&r, (uint32_t)len)] = (uint8_t)random_next(&r);
        if (i % 2)
            crc_mend(bad, cut);
        file_write(path, bad, cut);
        c = cache_create(CACHE_MIN_BYTES);
        enum err err = cache_restore(c, path, NOW, WALL);
        assert_true(err == ERR_OK || err == ERR_FORMAT);
        cache_stats(c, &stats);
        assert_true(stats.entries <= NAMES + 1);
        restored += stats.entries;
        assert_sound(c);
        cache_destroy(c);
    }
    assert_true(restored > NAMES);
    free(good);
    free(bad);
    unlink(path);
}

/* 60000 octets in one record, of a type that has no form of its own. */
static void put_huge(struct cache *c, const struct cache_key *key)
{
    static uint8_t msg[DNS_MESSAGE_MAX], rdata[60000];
    struct dns_builder b;
    struct dns_reply reply;
    assert_true(build_start(&b, msg, sizeof msg, 7, DNS_QR | DNS_RA, key->qname, key->qname_len,
                            key->qtype, DNS_CLASS_IN));
    assert_true(
        build_rr(&b, DNS_ANSWER, NULL, 0, key->qtype, DNS_CLASS_IN, 300, rdata, sizeof rdata));
    assert_true(reply_parse(&reply, msg, build_finish(&b)));
    assert_int_equal(cache_put(c, key, &reply, &usual), ERR_OK);
}

/* Nothing of a page that large answers come from is gathered once a write has failed. */
static void test_disk_full(void **state)
{
    (void)state;
    char path[64], temporary[sizeof path + 4];
    struct cache *c = cache_create(64 << 20);
    struct rlimit before, little;
    struct asked a;
    snprintf(path, sizeof path, "cache-admin-%ld.snapshot", (long)getpid());
    for (uint16_t type = 1000; type < 1020; type++) /* of one name, so in two pages */
        put_huge(c, ask(&a, "large.example", type));

    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    little = (struct rlimit){.rlim_cur = 100000, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    assert_int_equal(cache_save(c, path, NOW, WALL), ERR_SYSTEM);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);

    snprintf(temporary, sizeof temporary, "%s.new", path);
    assert_int_equal(access(temporary, F_OK), -1);
    assert_int_equal(cache_save(c, path, NOW, WALL), ERR_OK);
    cache_destroy(c);
    unlink(path);
}

static void test_crc(void **state)
{
    (void)state;
    assert_int_equal(cache_crc(0, "123456789", 9), 0xe3069283); /* RFC 3720's check value */
    assert_int_equal(cache_crc(cache_crc(0, "12345", 5), "6789", 4), 0xe3069283);
    assert_int_equal(cache_crc(0, "", 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flush),           cmocka_unit_test(test_walk),
        cmocka_unit_test(test_resize),          cmocka_unit_test(test_grow),
        cmocka_unit_test(test_grow_for_large),  cmocka_unit_test(test_snapshot),
        cmocka_unit_test(test_snapshot_of_old), cmocka_unit_test(test_damaged_snapshot),
        cmocka_unit_test(test_disk_full),       cmocka_unit_test(test_crc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
