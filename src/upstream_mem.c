/* upstream_mem.c - the memory that getdns works in. See upstream_mem.h.
 *
 *      chunk:  | next | block | block | ... | unused | slack |
 *      block:  | class, size: 16 octets | what the caller sees ... |
 *
 * Classes 1..16 are 32 octets apart up to 512, then the sizes double up to 16 KiB. What is
 * larger goes to malloc() as class 0. A free block holds the pointer to the next one in the
 * caller's part.
 *
 * Slack: the parser of getdns 1.6.0 believes lengths inside of rdata (HIP, for one), and reads
 * up to 64 KiB behind a malformed message, into a dict that nobody looks at. Over UDP we check
 * what we know of a message before it may see it, over TLS it is the first to see it at all. So
 * as much as can be read lies behind the blocks of a chunk, and behind each block that is large
 * enough to hold messages and not in a chunk.
 *
 * Builds with a sanitizer use malloc() for everything, so that a use after free is seen. */
#include "upstream_mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "autoconfig.h"

enum {
    STEP = 32,
    SMALL = 16,              /* classes of one step each */
    CLASSES = SMALL + 5 + 1, /* 1 KiB .. 16 KiB, and class 0 */
    CHUNK_SIZE = 256 * 1024,
    MESSAGES = 4096,      /* no block smaller than this holds a whole message that came in */
    SLACK = 65536 + 1024, /* the largest length, and what may come before it */
};

struct block {
    uint32_t class;
    uint32_t pad;
    size_t size; /* of what the caller sees */
};
_Static_assert(sizeof(struct block) == 16, "the caller's part has to be aligned");

struct chunk {
    struct chunk *next;
    size_t pad;
};

struct upstream_mem {
    void *free[CLASSES];
    uint8_t *cur, *end; /* the unused part of the newest chunk */
    struct chunk *chunks;
    size_t size;
};

struct upstream_mem *upstream_mem_create(void)
{
    return calloc(1, sizeof(struct upstream_mem));
}

void upstream_mem_destroy(struct upstream_mem *m)
{
    if (!m)
        return;
    while (m->chunks) {
        struct chunk *c = m->chunks;
        m->chunks = c->next;
        free(c);
    }
    free(m);
}

static unsigned class_of(size_t n)
{
#ifdef PITH_SANITIZER
    (void)n;
    return 0;
#else
    if (n <= STEP * SMALL)
        return n ? (unsigned)((n + STEP - 1) / STEP) : 1;
    size_t size = 2 * STEP * SMALL;
    for (unsigned c = SMALL + 1; c < CLASSES; c++, size *= 2)
        if (n <= size)
            return c;
    return 0;
#endif
}

static size_t class_size(unsigned c)
{
    return c <= SMALL ? (size_t)c * STEP : (size_t)(STEP * SMALL) << (c - SMALL);
}

static struct block *carve(struct upstream_mem *m, size_t n)
{
    if ((size_t)(m->end - m->cur) < n) {
        struct chunk *c = malloc(CHUNK_SIZE + SLACK);
        if (!c)
            return NULL;
        c->next = m->chunks;
        m->chunks = c;
        m->size += CHUNK_SIZE + SLACK;
        m->cur = (uint8_t *)(c + 1);
        m->end = (uint8_t *)c + CHUNK_SIZE;
    }
    struct block *b = (struct block *)(void *)m->cur;
    m->cur += n;
    return b;
}

void *upstream_mem_malloc(void *mem, size_t n)
{
    struct upstream_mem *m = mem;
    unsigned c = class_of(n);
    struct block *b;
    if (c && m->free[c]) {
        void *p = m->free[c];
        memcpy(&m->free[c], p, sizeof m->free[c]);
        return p;
    }
    if (c) {
        b = carve(m, sizeof *b + class_size(c));
    } else {
        size_t slack = n < MESSAGES ? 0 : SLACK;
        b = n > SIZE_MAX - sizeof *b - slack ? NULL : malloc(sizeof *b + n + slack);
    }
    if (!b)
        return NULL;
    b->class = c;
    b->size = c ? class_size(c) : n;
    return b + 1;
}

void upstream_mem_free(void *mem, void *p)
{
    struct upstream_mem *m = mem;
    if (!p)
        return;
    struct block *b = (struct block *)p - 1;
    if (b->class == 0) {
        free(b);
        return;
    }
    memcpy(p, &m->free[b->class], sizeof m->free[b->class]);
    m->free[b->class] = p;
}

void *upstream_mem_realloc(void *mem, void *p, size_t n)
{
    if (!p)
        return upstream_mem_malloc(mem, n);
    size_t old = ((struct block *)p - 1)->size;
    if (n <= old)
        return p;
    void *q = upstream_mem_malloc(mem, n);
    if (!q)
        return NULL;
    memcpy(q, p, old);
    upstream_mem_free(mem, p);
    return q;
}

size_t upstream_mem_size(const struct upstream_mem *m)
{
    return m->size;
}
