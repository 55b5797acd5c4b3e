/* arena.c - the memory of a cache. */
#include "cache/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

struct cache_arena *cache_arena_create(size_t bytes, const struct hash_key *key)
{
    struct cache_arena *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->larges = bytes / ARENA_LARGE_SHARE / LARGE_PAGE_SIZE;
    if (a->larges == 0)
        a->larges = 1;
    a->pages = (bytes - a->larges * LARGE_PAGE_SIZE) / PAGE_SIZE;
    a->key = *key;
    a->map_len = a->pages * PAGE_SIZE + a->larges * LARGE_PAGE_SIZE;
    a->map = mmap(NULL, a->map_len, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->map == MAP_FAILED) {
        free(a);
        return NULL;
    }
    a->page = a->map;
    a->large = (uint8_t *)a->map + a->pages * PAGE_SIZE;
    return a;
}

void cache_arena_destroy(struct cache_arena *a)
{
    if (a == NULL)
        return;
    munmap(a->map, a->map_len);
    free(a);
}

void cache_arena_drop(struct cache_arena *a, size_t first, size_t end)
{
    size_t len = (end - first) * PAGE_SIZE;
    if (end == a->pages)
        len += a->larges * LARGE_PAGE_SIZE;
    madvise(a->page + first, len, MADV_DONTNEED);
}

void cache_arena_lock(struct cache_arena *a)
{
    uint32_t open = 0;
    while (!__atomic_compare_exchange_n(&a->large_lock, &open, 1, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
        open = 0;
        racy_pause();
    }
}

void cache_arena_unlock(struct cache_arena *a)
{
    __atomic_store_n(&a->large_lock, 0, __ATOMIC_RELEASE);
}
