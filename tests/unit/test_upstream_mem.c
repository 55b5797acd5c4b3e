/* test_upstream_mem.c - the free lists that getdns works in: contents, alignment, reuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "autoconfig.h"
#include "upstream_mem.h"

enum { BLOCKS = 3000 };

static uint32_t next(uint32_t *x)
{
    *x = *x * 1103515245 + 12345;
    return *x >> 8;
}

static bool holds(const uint8_t *p, size_t n, uint8_t c)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != c)
            return false;
    return true;
}

/* Every live block keeps what was written to it, whatever happens around it. */
static void blocks_do_not_overlap(void **state)
{
    (void)state;
    static struct {
        uint8_t *p;
        size_t n;
        uint8_t c;
    } live[BLOCKS];
    struct upstream_mem *m = upstream_mem_create();
    uint32_t x = 7;
    assert_non_null(m);
    memset(live, 0, sizeof live);
    for (int round = 0; round < 100000; round++) {
        size_t i = next(&x) % BLOCKS,
               n = next(&x) % 40 == 0 ? next(&x) % 70000 : next(&x) % 700;
        if (live[i].p)
            assert_true(holds(live[i].p, live[i].n, live[i].c));
        switch (next(&x) % 3) {
        case 0:
            upstream_mem_free(m, live[i].p);
            live[i].p = NULL;
            continue;
        case 1: {
            size_t kept = !live[i].p ? 0 : live[i].n < n ? live[i].n : n;
            live[i].p = upstream_mem_realloc(m, live[i].p, n);
            assert_true(holds(live[i].p, kept, live[i].c));
            break;
        }
        default:
            upstream_mem_free(m, live[i].p);
            live[i].p = upstream_mem_malloc(m, n);
        }
        assert_non_null(live[i].p);
        assert_int_equal((uintptr_t)live[i].p % 16, 0);
        live[i].n = n;
        live[i].c = (uint8_t)round;
        memset(live[i].p, live[i].c, n);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        upstream_mem_free(m, live[i].p);
    upstream_mem_destroy(m);
}

static void freed_blocks_are_used_again(void **state)
{
    (void)state;
    struct upstream_mem *m = upstream_mem_create();
    void *p[100];
    size_t after_first = 0;
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 100; i++)
            assert_non_null(p[i] = upstream_mem_malloc(m, (size_t)i * 60));
        for (int i = 0; i < 100; i++)
            upstream_mem_free(m, p[i]);
        if (round == 0)
            after_first = upstream_mem_size(m);
    }
    assert_int_equal(upstream_mem_size(m), after_first);
    upstream_mem_destroy(m);
}

/* 64 KiB and some behind whatever may hold a message may be read. */
static void slack_lies_behind_messages(void **state)
{
    (void)state;
    static uint8_t copy[70000 + 65536 + 1024];
    struct upstream_mem *m = upstream_mem_create();
    for (size_t n = 4096; n <= 70000; n += 999) {
        uint8_t *p[70]; /* all the way through a chunk */
        for (int i = 0; i < 70; i++) {
            p[i] = upstream_mem_malloc(m, n);
            assert_non_null(p[i]);
            p[i][0] = 1;
            p[i][n - 1] = 2;
            memcpy(copy, p[i], n + 65536 + 1024); /* a sanitizer would see it */
            assert_int_equal(copy[0], 1);
            assert_int_equal(copy[n - 1], 2);
        }
        for (int i = 0; i < 70; i++)
            upstream_mem_free(m, p[i]);
    }
    upstream_mem_destroy(m);
}

static void odd_sizes(void **state)
{
    (void)state;
    struct upstream_mem *m = upstream_mem_create();
    upstream_mem_free(m, NULL);
    void *p = upstream_mem_malloc(m, 0);
    assert_non_null(p);
    p = upstream_mem_realloc(m, p, 17000);
    assert_non_null(p);
    assert_null(upstream_mem_malloc(m, SIZE_MAX - 3));
    assert_null(upstream_mem_realloc(m, p, SIZE_MAX - 3));
    upstream_mem_free(m, p);
    upstream_mem_destroy(m);
    upstream_mem_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(freed_blocks_are_used_again),
        cmocka_unit_test(slack_lies_behind_messages),
        cmocka_unit_test(odd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
