/* test_pool.c - blocks of all sizes, reuse, other threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "http/pool.h"

enum { MANY = 3 * 256 };

static void sizes(void **state)
{
    (void)state;
    for (size_t size = 0; size < 3 * POOL_BLOCK_MAX; size++) {
        uint8_t *p = pool_take(size);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        memset(p, 0x5a, size);
        p = pool_resize(p, 2 * size + 1);
        assert_non_null(p);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0x5a);
        memset(p, 0xa5, 2 * size + 1);
        p = pool_resize(p, size / 3);
        for (size_t i = 0; i < size / 3; i++)
            assert_int_equal(p[i], 0xa5);
        pool_give(p);
    }
    pool_give(NULL);
    assert_null(pool_take(SIZE_MAX));
}

static void reuses(void **state)
{
    void *p = pool_take(100), *q;

    (void)state;
    if (!POOL_KEEPS) {
        pool_give(p);
        skip();
    }
    pool_give(p);
    q = pool_take(128); /* of the same class */
    assert_ptr_equal(p, q);
    pool_give(q);
}

/* More than are kept: none is lost, none is in two hands (a sanitizer tells). */
static void many(void **state)
{
    static uint32_t *blocks[MANY];

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            blocks[i] = pool_take(sizeof(*blocks[i]));
            *blocks[i] = i;
        }
        for (uint32_t i = 0; i < MANY; i++) {
            assert_int_equal(*blocks[i], i);
            pool_give(blocks[i]);
        }
    }
}

/* One a thread, however often it is taken, and it outlives its thread for who still has it. */
static void *scratch_thread(void *ours)
{
    void *p = pool_take_scratch(20000);

    assert_non_null(p);
    assert_ptr_not_equal(p, ours);
    memset(p, 7, 20000);
    assert_ptr_equal(pool_take_scratch(20000), p);
    pool_give(p);
    return p;
}

static void scratch(void **state)
{
    void *p = pool_take_scratch(20000), *theirs;
    pthread_t t;

    (void)state;
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_ptr_equal(pool_take_scratch(20000), p);
    assert_null(pool_take_scratch(20001));
    memset(p, 1, 20000);
    pool_give(p);
    pool_give(p);
    assert_ptr_equal(pool_take_scratch(20000), p);
    assert_int_equal(pthread_create(&t, NULL, scratch_thread, p), 0);
    assert_int_equal(pthread_join(t, &theirs), 0);
    assert_int_equal(*(uint8_t *)theirs, 7);
    theirs = pool_resize(theirs, 30000);
    assert_int_equal(*(uint8_t *)theirs, 7);
    pool_give(theirs);
    pool_give(p);
}

static void *other_thread(void *block)
{
    void *p = pool_take(200);

    pool_give(block);
    pool_give(p);
    return pool_take(300); /* outlives its thread */
}

static void threads(void **state)
{
    pthread_t t;
    void *result;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, other_thread, pool_take(200)), 0);
    assert_int_equal(pthread_join(t, &result), 0);
    pool_give(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),   cmocka_unit_test(reuses),  cmocka_unit_test(many),
        cmocka_unit_test(scratch), cmocka_unit_test(threads),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
