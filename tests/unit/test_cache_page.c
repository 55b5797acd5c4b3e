/* test_cache_page.c - a page against a list of what is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bench/workload.h"
#include "cache/page.h"

enum { LIST_MAX = 256 };

struct item {
    uint8_t tag, meta, octet; /* the entry is filled with that */
    size_t len;
};

struct list {
    struct item item[LIST_MAX];
    unsigned n;
};

static struct cache_page page;

static void assert_same(const struct list *l)
{
    size_t off = PAGE_BODY, used = 0;
    assert_int_equal(page.n, l->n);
    for (unsigned i = 0; i < l->n; i++) {
        const struct item *t = &l->item[i];
        off -= t->len;
        used += t->len;
        assert_int_equal(page_tag(&page, i), t->tag);
        assert_int_equal(page_meta(&page, i), t->meta);
        assert_int_equal(page_len(&page, i), t->len);
        assert_int_equal(cache_page_offset(&page, i), off);
        for (size_t k = 0; k < t->len; k++)
            assert_int_equal(page.body[off + k], t->octet);
    }
    assert_int_equal(page.used, used);
}

/* Every slot with this tag and kind is found, in order, and no other. */
static void assert_found(const struct list *l, uint8_t tag, uint8_t kind)
{
    const struct cache_name name = {.tag = tag, .kind = kind};
    struct cache_cursor c;
    cache_page_find(&c, &page, &name);
    for (unsigned i = 0; i < l->n; i++) {
        if (l->item[i].tag != tag || (l->item[i].meta & META_KIND) != kind)
            continue;
        assert_true(cache_page_next(&c, &page));
        assert_int_equal(c.slot, i);
        assert_int_equal(c.len, l->item[i].len);
        assert_int_equal(c.off, cache_page_offset(&page, i));
    }
    assert_false(cache_page_next(&c, &page));
}

static void add(struct list *l, struct random *r, size_t len)
{
    uint8_t entry[ENTRY_MAX];
    /* few tags and kinds, so that they collide */
    struct item t = {
        .tag = (uint8_t)random_below(r, 4),
        .meta = (uint8_t)((random_next(r) & (META_MAIN | META_ASKED)) | random_below(r, 3)),
        .octet = (uint8_t)random_next(r),
        .len = len};
    memset(entry, t.octet, sizeof entry);
    cache_page_append(&page, t.tag, t.meta, entry, t.len);
    l->item[l->n++] = t;
}

static void test_random(void **state)
{
    (void)state;
    struct random r;
    struct list l = {.n = 0};
    random_seed(&r, 3);
    memset(&page, 0, sizeof page);
    for (int i = 0; i < 30000; i++) {
        /* eras of small and of large entries */
        size_t len = 4 + 4 * (size_t)random_below(&r, i / 3000 % 2 ? 5 : 255);
        if (cache_page_room(&page) >= (int)len && random_below(&r, 8) > 0) {
            add(&l, &r, len);
        } else if (l.n > 0) {
            unsigned at = random_below(&r, l.n);
            cache_page_remove(&page, at, cache_page_offset(&page, at));
            memmove(&l.item[at], &l.item[at + 1], (l.n - at - 1) * sizeof l.item[0]);
            l.n--;
        }
        assert_same(&l);
        assert_found(&l, (uint8_t)random_below(&r, 4), (uint8_t)random_below(&r, 3));
    }
}

/* Slots and entries never meet, whatever the sizes. */
static void test_full(void **state)
{
    (void)state;
    struct random r;
    random_seed(&r, 4);
    for (size_t len = 4; len <= ENTRY_MAX; len += 4) {
        struct list l = {.n = 0};
        memset(&page, 0, sizeof page);
        while (cache_page_room(&page) >= (int)len)
            add(&l, &r, len);
        assert_true(l.n == PAGE_SLOTS_MAX ||
                    page.used + len + 3 * (l.n + 1) > PAGE_BODY - PAGE_BLOCK);
        assert_same(&l);
    }
}

/* Nothing that a torn header can say makes the search leave the body. */
static void test_torn(void **state)
{
    (void)state;
    struct random r;
    random_seed(&r, 5);
    for (int i = 0; i < 20000; i++) {
        const struct cache_name name = {.tag = 0, .kind = 0};
        struct cache_cursor c;
        uint64_t *w = (uint64_t *)(void *)&page;
        for (size_t k = 0; k < sizeof page / 8; k++)
            w[k] = random_next(&r) & random_next(&r) & random_next(&r);
        cache_page_find(&c, &page, &name);
        while (cache_page_next(&c, &page))
            assert_true(c.off <= PAGE_BODY && c.len <= PAGE_BODY - c.off);
    }
}

static void test_ghosts(void **state)
{
    (void)state;
    memset(&page, 0, sizeof page);
    for (unsigned i = 0; i < 3 * PAGE_GHOSTS; i++) {
        uint16_t ghost = (uint16_t)(0x8000 + 7 * i);
        assert_false(cache_page_ghost(&page, ghost));
        cache_page_add_ghost(&page, ghost);
        assert_true(cache_page_ghost(&page, ghost));
        for (unsigned k = 0; k < i; k++) /* the last PAGE_GHOSTS are known */
            assert_int_equal(cache_page_ghost(&page, (uint16_t)(0x8000 + 7 * k)),
                             k + PAGE_GHOSTS > i);
    }
    assert_int_not_equal(cache_page_ghost_of(0, (const uint8_t *)"", 0), 0);
}

static void test_lock(void **state)
{
    (void)state;
    uint32_t seq;
    memset(&page, 0, sizeof page);
    assert_true(cache_page_begin(&page, &seq));
    assert_true(cache_page_still(&page, seq));
    cache_page_lock(&page);
    uint32_t meanwhile;
    assert_false(cache_page_begin(&page, &meanwhile));
    assert_false(cache_page_still(&page, seq));
    assert_false(cache_page_trylock(&page));
    cache_page_unlock(&page);
    assert_false(cache_page_still(&page, seq));
    assert_false(cache_page_lock_at(&page, seq));
    assert_true(cache_page_trylock(&page));
    cache_page_unlock(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_full), cmocka_unit_test(test_torn),
        cmocka_unit_test(test_ghosts), cmocka_unit_test(test_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
