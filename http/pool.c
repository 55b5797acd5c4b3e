/* pool.c - free lists by size.
 *
 *      +----------------+---------------------------+
 *      | struct head    | block, 16-octet aligned   |
 *      +----------------+---------------------------+
 *        size class       `next` while it is free */
#include "http/pool.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = POOL_BLOCK_MAX / POOL_STEP + 1 };

/* In front of each block. */
struct head {
    alignas(16) size_t class; /* size in steps; 0: larger than any, `size` tells */
    size_t size;
};

struct block {
    struct block *next;
};

struct pool {
    struct block *free[CLASSES];
    unsigned n[CLASSES];
};

static _Thread_local struct pool *own;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

/* The thread ends. */
static void destroy(void *arg)
{
    struct pool *p = arg;

    own = NULL;
    for (size_t i = 0; i < CLASSES; i++) {
        while (p->free[i]) {
            struct block *b = p->free[i];
            p->free[i] = b->next;
            free(head_of(b));
        }
    }
    free(p);
}

static void init_once(void)
{
    usable = pthread_key_create(&key, destroy) == 0;
}

/* Without memory for it there is no pool, and malloc does all. */
static void create(void)
{
    pthread_once(&once, init_once);
    own = usable ? calloc(1, sizeof(*own)) : NULL;
    if (own && pthread_setspecific(key, own) != 0) {
        free(own);
        own = NULL;
    }
}

void *pool_take(size_t size)
{
    size_t class = (size + POOL_STEP - 1) / POOL_STEP;
    struct head *h;

    if (class < CLASSES && own && own->free[class]) {
        struct block *b = own->free[class];
        own->free[class] = b->next;
        own->n[class]--;
        return b;
    }
    if (class == 0)
        class = 1;
    if (class >= CLASSES)
        class = 0;
    if (size > SIZE_MAX - sizeof(*h) - POOL_STEP)
        return NULL;
    h = malloc(sizeof(*h) + (class > 0 ? class * POOL_STEP : size));
    if (!h)
        return NULL;
    h->class = class;
    h->size = size;
    return h + 1;
}

void pool_give(void *block)
{
    struct block *b = block;
    size_t class;

    if (!block)
        return;
    class = head_of(block)->class;
    if (!own)
        create();
    if (class == 0 || !own || own->n[class] >= POOL_KEPT_MAX) {
        free(head_of(block));
        return;
    }
    b->next = own->free[class];
    own->free[class] = b;
    own->n[class]++;
}

void *pool_resize(void *block, size_t size)
{
    size_t have;
    void *bigger;

    if (!block)
        return pool_take(size);
    have = head_of(block)->class > 0 ? head_of(block)->class * POOL_STEP : head_of(block)->size;
    if (size <= have && have - size < 4 * POOL_STEP)
        return block;
    bigger = pool_take(size);
    if (!bigger)
        return NULL;
    memcpy(bigger, block, have < size ? have : size);
    pool_give(block);
    return bigger;
}
