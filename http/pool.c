/* pool.c - free lists by size.
 *
 *      +----------------+---------------------------+
 *      | struct head    | block, 16-octet aligned   |
 *      +----------------+---------------------------+
 *        size class       `next` while it is free */
#include "http/pool.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = POOL_BLOCK_MAX / POOL_STEP + 1, LARGE = 0, SCRATCH = CLASSES };

/* In front of each block. */
struct head {
    alignas(16) size_t class; /* size in steps, LARGE or SCRATCH; `size` tells for these */
    size_t size;
};

/* The scratch block lives as long as its thread or who took it, whichever is longer. */
struct scratch {
    alignas(16) atomic_size_t refs;
    struct head head;
};

struct block {
    struct block *next;
};

struct pool {
    struct block *free[CLASSES];
    unsigned n[CLASSES];
    struct scratch *scratch;
};

static _Thread_local struct pool *own;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool usable;

static struct head *head_of(void *block)
{
    return (struct head *)block - 1;
}

static void scratch_unref(struct scratch *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1)
        free(s);
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
    scratch_unref(p->scratch);
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
        class = LARGE;
    if (size > SIZE_MAX - sizeof(*h) - POOL_STEP)
        return NULL;
    h = malloc(sizeof(*h) + (class != LARGE ? class * POOL_STEP : size));
    if (!h)
        return NULL;
    h->class = class;
    h->size = size;
    return h + 1;
}

void *pool_take_scratch(size_t size)
{
    struct scratch *s;

    if (!own)
        create();
    if (!own)
        return NULL;
    s = own->scratch;
    if (!s) {
        s = malloc(sizeof(*s) + size);
        if (!s)
            return NULL;
        atomic_init(&s->refs, 1);
        s->head = (struct head){.class = SCRATCH, .size = size};
        own->scratch = s;
    }
    if (s->head.size != size)
        return NULL;
    atomic_fetch_add(&s->refs, 1);
    return s + 1;
}

void pool_give(void *block)
{
    struct block *b = block;
    size_t class;

    if (!block)
        return;
    class = head_of(block)->class;
    if (class == SCRATCH) {
        scratch_unref((struct scratch *)block - 1);
        return;
    }
    if (!own)
        create();
    if (!POOL_KEEPS || class == LARGE || !own || own->n[class] >= POOL_KEPT_MAX) {
        free(head_of(block));
        return;
    }
    b->next = own->free[class];
    own->free[class] = b;
    own->n[class]++;
}

void *pool_resize(void *block, size_t size)
{
    const struct head *h;
    size_t have;
    void *bigger;

    if (!block)
        return pool_take(size);
    h = head_of(block);
    have = h->class == LARGE || h->class == SCRATCH ? h->size : h->class * POOL_STEP;
    if (size <= have && have - size < 4 * POOL_STEP)
        return block;
    bigger = pool_take(size);
    if (!bigger)
        return NULL;
    memcpy(bigger, block, have < size ? have : size);
    pool_give(block);
    return bigger;
}
