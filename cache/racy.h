/* racy.h - access to bytes that a writer may be changing.
 *
 * Readers of a page take no lock: they copy what they need and then look whether the page's
 * sequence number is still the one they began with (page.h). Until then the copy may be torn,
 * so it is only compared, never parsed.
 *
 * Readers' loads are relaxed atomics of aligned words, which C11 allows to race and compilers
 * turn into plain moves. Writers hold the page's lock, so among themselves nothing races;
 * against readers their stores ought to be atomic too. Under the thread sanitizer they are,
 * word by word. In other builds they are memcpy() and memmove(), which store every octet at
 * least once with what belongs there, and nothing more is asked of them: a reader throws away
 * whatever it loaded meanwhile. */
#ifndef PITH_CACHE_RACY_H
#define PITH_CACHE_RACY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SANITIZE_THREAD__)
#define CACHE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CACHE_TSAN 1
#endif
#endif
#ifndef CACHE_TSAN
#define CACHE_TSAN 0
#endif

#define racy_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define racy_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)

/* Orders the loads before it before the check of the sequence number. The thread sanitizer does
 * not know fences; it needs none, as all that races is atomic there. */
static inline void racy_read_fence(void)
{
#if CACHE_TSAN
    __asm__ volatile("" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/* Orders the store of an odd sequence number before the stores after it. */
static inline void racy_write_fence(void)
{
#if CACHE_TSAN
    __asm__ volatile("" ::: "memory");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/* Between two tries of a lock. */
static inline void racy_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Copies n octets out of shared memory; src is aligned to 4, n a multiple of 4. */
static inline void racy_read(void *dst, const void *src, size_t n)
{
    const uint8_t *s = src;
    uint8_t *d = dst;
    if (((uintptr_t)s & 4) && n >= 4) {
        uint32_t w = racy_load((const uint32_t *)(const void *)s);
        memcpy(d, &w, 4);
        s += 4, d += 4, n -= 4;
    }
    for (; n >= 8; s += 8, d += 8, n -= 8) {
        uint64_t w = racy_load((const uint64_t *)(const void *)s);
        memcpy(d, &w, 8);
    }
    if (n >= 4) {
        uint32_t w = racy_load((const uint32_t *)(const void *)s);
        memcpy(d, &w, 4);
    }
}

/* Writes and moves within shared memory under the lock; dst (and src of a move) aligned to 4, n
 * a multiple of 4. */
#if CACHE_TSAN
static inline void racy_write(void *dst, const void *src, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t w;
        memcpy(&w, (const uint8_t *)src + i, 4);
        racy_store((uint32_t *)(void *)((uint8_t *)dst + i), w);
    }
}

static inline void racy_move(void *dst, const void *src, size_t n)
{
    uint32_t *d = dst;
    const uint32_t *s = src;
    if ((uintptr_t)d < (uintptr_t)s) {
        for (size_t i = 0; i < n / 4; i++)
            racy_store(d + i, racy_load(s + i));
    } else {
        for (size_t i = n / 4; i-- > 0;)
            racy_store(d + i, racy_load(s + i));
    }
}
#else
static inline void racy_write(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
}

static inline void racy_move(void *dst, const void *src, size_t n)
{
    memmove(dst, src, n);
}
#endif

#endif
