/* upstream_mem.c - the memory that getdns works in. See upstream_mem.h.
 *
 *      block:  | header 16 octets: class, size | what the caller sees ... | slack of read
 * buffers |
 *
 * Classes 1..16 are 32 octets apart up to 512, then the sizes double up to 16 KiB; one more is
 * for read buffers. What is larger goes to malloc() as class 0. A free block holds the pointer
 * to the next one in the caller's part.
 *
 * Slack: the parser of getdns 1.6.0 believes the RDLENGTH of a record at the end of a malformed
 * reply, and reads up to 64 KiB behind the message. Datagrams are checked before it sees them,
 * but what comes over a stream it decrypts and parses itself. Such a message lies in a buffer
 * of 4 KiB, doubled until it fits, and nothing else of getdns has just those sizes: so buffers
 * of these sizes get as much behind them as can be read, and the octets go no further than a
 * dict that nobody looks at.
 *
 * Builds with a sanitizer use malloc() for everything, so that a use after free is seen. */
#include "upstream_mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "autoconfig.h"

enum {
    STEP = 32,
    SMALL = 16,       /* classes of one step each */
    READ = SMALL + 6, /* read buffers of the first size; before it 1 KiB .. 16 KiB */
    CLASSES,
    CHUNK_SIZE = 256 * 1024,
    READ_SIZE = 4096,
    READ_SIZE_MAX = 65536,
    SLACK = 65536 + 1024, /* RDLENGTH, and what may come before the rdata */
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

/* What has to be readable behind a block of n octets. */
static size_t slack(size_t n)
{
    bool power = (n & (n - 1)) == 0;
    return power && n >= READ_SIZE && n <= READ_SIZE_MAX ? SLACK : 0;
}

static unsigned class_of(size_t n)
{
#ifdef PITH_SANITIZER
    (void)n;
    return 0;
#else
    if (n <= STEP * SMALL)
        return n ? (unsigned)((n + STEP - 1) / STEP) : 1;
    if (slack(n))
        return n == READ_SIZE ? READ : 0;
    size_t size = 2 * STEP * SMALL;
    for (unsigned c = SMALL + 1; c < READ; c++, size *= 2)
        if (n <= size)
            return c;
    return 0;
#endif
}

static size_t class_size(unsigned c)
{
    if (c == READ)
        return READ_SIZE;
    return c <= SMALL ? (size_t)c * STEP : (size_t)(STEP * SMALL) << (c - SMALL);
}

static struct block *carve(struct upstream_mem *m, size_t n)
{
    if ((size_t)(m->end - m->cur) < n) {
        struct chunk *c = malloc(CHUNK_SIZE);
        if (!c)
            return NULL;
        c->next = m->chunks;
        m->chunks = c;
        m->size += CHUNK_SIZE;
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
    if (c == 0) {
        if (n > SIZE_MAX - sizeof *b - SLACK || !(b = malloc(sizeof *b + n + slack(n))))
            return NULL;
        b->size = n;
    } else if (m->free[c]) {
        void *p = m->free[c];
        memcpy(&m->free[c], p, sizeof m->free[c]);
        return p;
    } else {
        if (!(b = carve(m, sizeof *b + class_size(c) + (c == READ ? SLACK : 0))))
            return NULL;
        b->size = class_size(c);
    }
    b->class = c;
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
