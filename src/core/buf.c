/* buf.c - the byte queue's memory. */
#include "core/buf.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 512 };

/* Moves what is left to the front when that makes the room, else grows. */
static bool make_room(struct buf *b, size_t n)
{
    size_t len = buf_len(b);
    size_t size = b->size ? b->size : FIRST_SIZE;
    uint8_t *mem;

    if (n > SIZE_MAX / 4 - len)
        return false;
    if (b->start >= len && b->size - len >= n) {
        memcpy(b->mem, b->mem + b->start, len);
        b->start = 0;
        b->end = len;
        return true;
    }
    while (size < len + n)
        size *= 2;
    mem = malloc(size);
    if (!mem)
        return false;
    if (len > 0)
        memcpy(mem, b->mem + b->start, len);
    free(b->mem);
    *b = (struct buf){.mem = mem, .end = len, .size = size};
    return true;
}

uint8_t *buf_reserve(struct buf *b, size_t n)
{
    if (b->size - b->end < n && !make_room(b, n))
        return NULL;
    return b->mem ? b->mem + b->end : NULL;
}

bool buf_append(struct buf *b, const void *data, size_t n)
{
    uint8_t *p;

    if (n == 0)
        return true;
    p = buf_reserve(b, n);
    if (!p)
        return false;
    memcpy(p, data, n);
    b->end += n;
    return true;
}

void buf_consume(struct buf *b, size_t n)
{
    b->start += n;
    if (b->start == b->end)
        b->start = b->end = 0;
}

void buf_release(struct buf *b)
{
    free(b->mem);
    *b = (struct buf){0};
}
