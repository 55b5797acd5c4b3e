/* pool.h - small blocks of memory for sessions, kept by thread.
 *
 * A query over HTTP/2 makes nghttp2 allocate and free about ten blocks. malloc's own per-thread
 * cache holds seven of a size, a wake-up may bring a hundred queries; so freed blocks wait
 * here, by size, for the next query. What a thread keeps is bounded and freed when it ends.
 *
 * A block may be freed by another thread than the one that took it. Not for blocks whose size
 * a client chooses: those above POOL_BLOCK_MAX are malloc's. */
#ifndef PITH_HTTP_POOL_H
#define PITH_HTTP_POOL_H

#include <stddef.h>

/* Under AddressSanitizer nothing is kept, or it would not see what is used after it was given
 * back. */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_KEEPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_KEEPS 0
#endif
#endif
#ifndef POOL_KEEPS
#define POOL_KEEPS 1
#endif

enum {
    POOL_STEP = 64,        /* sizes are multiples of this */
    POOL_BLOCK_MAX = 1536, /* the largest that is kept */
    POOL_KEPT_MAX = 256,   /* blocks of a size */
};

/* Like malloc(), free() and realloc(); contents are not zeroed. */
void *pool_take(size_t size);
/* The calling thread's one scratch block of `size` octets: every call returns the same, NULL
 * when memory is out or another size was asked for before. Who uses it cannot expect it to keep
 * anything while others run. Given back by pool_give(), by any thread. */
void *pool_take_scratch(size_t size);
void pool_give(void *block);
void *pool_resize(void *block, size_t size);

#endif
