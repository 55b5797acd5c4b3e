/* arena.c - the memory of a cache. */
#include "cache/arena.h"

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    COLLAPSE = 25, /* MADV_COLLAPSE, which older headers lack */
    SYSTEM_PAGE = 4096,
    TRIES = 256, /* for the lock, between yields of the processor */
};

struct cache_arena *cache_arena_create(size_t bytes, size_t cache_bytes,
                                       const struct hash_key *key)
{
    struct cache_arena *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->bytes = bytes;
    a->larges = bytes / ARENA_LARGE_SHARE / LARGE_PAGE_SIZE;
    if (a->larges == 0)
        a->larges = 1;
    size_t sets = cache_hints_for(cache_bytes), hints = sets * sizeof *a->hints.sets;
    a->hints.mask = sets - 1;
    a->hints.sets = aligned_alloc(sizeof *a->hints.sets, hints);
    a->pages = (bytes - a->larges * LARGE_PAGE_SIZE - hints) / PAGE_SIZE;
    cache_hash_init(&a->hash, key);
    size_t small = (a->pages * PAGE_SIZE + SYSTEM_PAGE - 1) & ~(size_t)(SYSTEM_PAGE - 1);
    size_t len = small + a->larges * LARGE_PAGE_SIZE;
    a->map_len = len + ARENA_HUGE; /* addresses only, to begin at a huge page */
    a->map = mmap(NULL, a->map_len, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->map == MAP_FAILED || a->hints.sets == NULL) {
        if (a->map != MAP_FAILED)
            munmap(a->map, a->map_len);
        free(a->hints.sets);
        free(a);
        return NULL;
    }
    memset(a->hints.sets, 0, hints);
    uintptr_t start = ((uintptr_t)a->map + ARENA_HUGE - 1) & ~((uintptr_t)ARENA_HUGE - 1);
    a->page = (struct cache_page *)start;
    a->large = (uint8_t *)start + small;
    /* where the system joins by itself it would make 2 MiB resident for the first entry */
    madvise(a->page, len, MADV_NOHUGEPAGE);
    return a;
}

void cache_arena_destroy(struct cache_arena *a)
{
    if (a == NULL)
        return;
    munmap(a->map, a->map_len);
    free(a->hints.sets);
    free(a);
}

void cache_arena_drop(struct cache_arena *a, size_t first, size_t end)
{
    uint8_t *start = (uint8_t *)a->page;
    size_t from = first * PAGE_SIZE & ~(size_t)(SYSTEM_PAGE - 1);
    size_t upto = end == a->pages ? (size_t)(a->large - start) + a->larges * LARGE_PAGE_SIZE
                                  : end * PAGE_SIZE & ~(size_t)(SYSTEM_PAGE - 1);
    if (upto > from)
        madvise(start + from, upto - from, MADV_DONTNEED);
}

bool cache_arena_join(struct cache_arena *a)
{
    size_t all = a->pages * PAGE_SIZE / ARENA_HUGE;
    size_t at = __atomic_fetch_add(&a->huge_at, 1, __ATOMIC_RELAXED);
    if (at >= all) {
        racy_store(&a->huge_at, SIZE_MAX);
        return false;
    }
    uint8_t *start = (uint8_t *)a->page + at * ARENA_HUGE;
    madvise(start, ARENA_HUGE, MADV_HUGEPAGE);
    /* at once if the system can (Linux 6.1), else whenever it comes to it */
    madvise(start, ARENA_HUGE, COLLAPSE);
    return true;
}

void cache_arena_lock(struct cache_arena *a)
{
    uint32_t open = 0;
    for (unsigned tries = 1; !__atomic_compare_exchange_n(&a->large_lock, &open, 1, false,
                                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
         tries++, open = 0) {
        racy_pause();
        if (tries % TRIES == 0)
            sched_yield();
    }
}

void cache_arena_unlock(struct cache_arena *a)
{
    __atomic_store_n(&a->large_lock, 0, __ATOMIC_RELEASE);
}
