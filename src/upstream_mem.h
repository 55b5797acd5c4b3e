/* upstream_mem.h - the memory that getdns works in: free lists of a few sizes, one pool a
 * thread.
 *
 * A reply costs getdns some 150 small allocations, all of which it frees again a moment later;
 * lists without locks take 5 us off a miss. Blocks never go back to the system before the pool
 * does, so a pool is as large as its busiest moment: about 6 KiB an outstanding query, which is
 * capped. Owner: the upstream set. Thread: its worker only. */
#ifndef PITH_UPSTREAM_MEM_H
#define PITH_UPSTREAM_MEM_H

#include <stddef.h>

struct upstream_mem;

struct upstream_mem *upstream_mem_create(void);
/* Everything that was allocated is gone with it. */
void upstream_mem_destroy(struct upstream_mem *m);

/* In the shape getdns_context_create_with_extended_memory_functions() takes; `mem` is the pool.
 * Aligned for any object. NULL when memory is out. */
void *upstream_mem_malloc(void *mem, size_t n);
void *upstream_mem_realloc(void *mem, void *p, size_t n);
void upstream_mem_free(void *mem, void *p);

/* Octets taken from the system. */
size_t upstream_mem_size(const struct upstream_mem *m);

#endif
