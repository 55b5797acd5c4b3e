/* buf.h - a byte queue: written at its end, consumed from its start.
 *
 * Owner: whoever embeds it. The memory grows by doubling and is given back by
 * buf_release(). Pointers into it are valid until the next buf_reserve(),
 * buf_append(), buf_consume() or buf_release(). Not thread-safe. */
#ifndef PITH_CORE_BUF_H
#define PITH_CORE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *mem;
    size_t start; /* first octet not yet consumed */
    size_t end;   /* one past the last octet written */
    size_t size;  /* octets at mem */
};

static inline size_t buf_len(const struct buf *b)
{
    return b->end - b->start;
}

static inline const uint8_t *buf_data(const struct buf *b)
{
    return b->mem ? b->mem + b->start : NULL; /* NULL + 0 is undefined */
}

/* Room for n more octets after the end: a pointer to it, or NULL when memory
 * is out. Nothing is added until buf_commit(). */
uint8_t *buf_reserve(struct buf *b, size_t n);

/* Adds the first n octets of what was reserved. */
static inline void buf_commit(struct buf *b, size_t n)
{
    b->end += n;
}

/* Copies n octets to the end; false (and nothing added) when memory is out. */
bool buf_append(struct buf *b, const void *data, size_t n);

/* Drops n octets (at most buf_len()) from the start. */
void buf_consume(struct buf *b, size_t n);

/* Gives the memory back; the buffer is empty and usable afterwards. */
void buf_release(struct buf *b);

#endif
