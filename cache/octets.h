/* octets.h - sixteen octets at a time, of memory that a writer may be changing (racy.h).
 *
 * With SSE2, which every x86-64 has, in one register; elsewhere, and under the thread
 * sanitizer, in two words that are loaded as racy.h has it. */
#ifndef PITH_CACHE_OCTETS_H
#define PITH_CACHE_OCTETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cache/racy.h"

enum { OCTETS_LOT = 64 };

#if defined(__SSE2__) && !CACHE_TSAN
#define CACHE_SSE2 1
#include <emmintrin.h>
#else
#define CACHE_SSE2 0
#endif

#if CACHE_SSE2

typedef __m128i octets16;

/* p is aligned to 16. */
static inline octets16 octets_load(const uint8_t *p)
{
    return _mm_load_si128((const __m128i *)(const void *)p);
}

/* Bit i: octet i of a is `tag`, and of b under a mask `kind`. */
static inline unsigned octets_match(octets16 a, uint8_t tag, octets16 b, uint8_t mask,
                                    uint8_t kind)
{
    __m128i is_tag = _mm_cmpeq_epi8(a, _mm_set1_epi8((char)tag));
    __m128i of_kind = _mm_and_si128(b, _mm_set1_epi8((char)mask));
    __m128i is_kind = _mm_cmpeq_epi8(of_kind, _mm_set1_epi8((char)kind));
    return (unsigned)_mm_movemask_epi8(_mm_and_si128(is_tag, is_kind));
}

/* Bit i: the top bit of octet i. */
static inline unsigned octets_top(octets16 v)
{
    return (unsigned)_mm_movemask_epi8(v);
}

/* Whether the first n (up to 32) octets at a and b, private memory of 32 octets each, are
 * equal.
 */
static inline bool octets_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
    const __m128i *x = (const __m128i *)(const void *)a, *y = (const __m128i *)(const void *)b;
    __m128i low = _mm_cmpeq_epi8(_mm_loadu_si128(x), _mm_loadu_si128(y));
    __m128i high = _mm_cmpeq_epi8(_mm_loadu_si128(x + 1), _mm_loadu_si128(y + 1));
    uint64_t equal =
        (uint64_t)(unsigned)_mm_movemask_epi8(high) << 16 | (unsigned)_mm_movemask_epi8(low);
    return (equal | UINT64_MAX << n) == UINT64_MAX;
}

/* Copies n octets at src, aligned to 4, in lots of 64, so up to 63 octets behind come along,
 * which must be memory of the same kind. dst has room for n + OCTETS_LOT. Returns where in dst
 * the copy is. */
static inline const uint8_t *octets_copy_lots(uint64_t *dst, const uint8_t *src, size_t n)
{
    const __m128i *s = (const __m128i *)(const void *)src;
    __m128i *d = (__m128i *)(void *)dst;
    for (size_t at = 0;; at += OCTETS_LOT, s += 4, d += 4) {
        __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
        __m128i e = _mm_loadu_si128(s + 2), f = _mm_loadu_si128(s + 3);
        _mm_storeu_si128(d, a);
        _mm_storeu_si128(d + 1, b);
        _mm_storeu_si128(d + 2, e);
        _mm_storeu_si128(d + 3, f);
        if (__builtin_expect(at + OCTETS_LOT >= n, 1))
            return (const uint8_t *)dst;
    }
}

/* Sums octets: octets_sums() begins, octets_add() adds the first n octets of v (of none when n
 * < 0, of all when n > 16), octets_total() is what they come to. */
typedef __m128i octets_sum;

static inline octets_sum octets_sums(void)
{
    return _mm_setzero_si128();
}

static inline octets_sum octets_add(octets_sum sum, octets16 v, int n)
{
    const __m128i place = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i first = _mm_and_si128(v, _mm_cmpgt_epi8(_mm_set1_epi8((char)n), place));
    return _mm_add_epi32(sum, _mm_sad_epu8(first, _mm_setzero_si128()));
}

static inline unsigned octets_total(octets_sum sum)
{
    return (unsigned)_mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum)));
}

/* Whether one of the 8 * n words of 16 bits at p, aligned to 16, is v. */
static inline bool octets_have16(const uint16_t *p, size_t n, uint16_t v)
{
    const __m128i *at = (const __m128i *)(const void *)p, sought = _mm_set1_epi16((short)v);
    __m128i found = _mm_setzero_si128();
    for (size_t i = 0; i < n; i++)
        found = _mm_or_si128(found, _mm_cmpeq_epi16(_mm_load_si128(at + i), sought));
    return _mm_movemask_epi8(found) != 0;
}

/* What lies at p without octet i, those behind it moved one down and `next` behind all. */
static inline void octets_remove(uint8_t *p, unsigned i, uint8_t next)
{
    const __m128i place = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i v = octets_load(p);
    __m128i before = _mm_cmpgt_epi8(_mm_set1_epi8((char)i), place);
    __m128i moved =
        _mm_or_si128(_mm_srli_si128(v, 1), _mm_slli_si128(_mm_cvtsi32_si128(next), 15));
    _mm_store_si128((__m128i *)(void *)p,
                    _mm_or_si128(_mm_and_si128(before, v), _mm_andnot_si128(before, moved)));
}

#else

typedef struct {
    uint64_t word[2];
} octets16;

static inline octets16 octets_load(const uint8_t *p)
{
    const uint64_t *w = (const uint64_t *)(const void *)p;
    octets16 v = {{racy_load(&w[0]), racy_load(&w[1])}};
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v.word[0] = __builtin_bswap64(v.word[0]);
    v.word[1] = __builtin_bswap64(v.word[1]);
#endif
    return v;
}

/* Bit i: octet i of w is 0. */
static inline unsigned octets_zeros(uint64_t w)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7f;
    uint64_t zeros = ~(((w & low) + low) | w | low); /* the top bit of each that is, exactly */
    return (unsigned)((zeros >> 7) * 0x0102040810204080 >> 56);
}

static inline unsigned octets_top(octets16 v)
{
    const uint64_t top = 0x8080808080808080;
    return octets_zeros(~v.word[0] & top) | octets_zeros(~v.word[1] & top) << 8;
}

static inline bool octets_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
    return memcmp(a, b, n) == 0;
}

static inline const uint8_t *octets_copy_lots(uint64_t *dst, const uint8_t *src, size_t n)
{
    size_t head = (uintptr_t)src & 4;
    const uint64_t *s = (const uint64_t *)(const void *)(src - head);
    for (size_t words = (head + n + 7) / 8, i = 0; i < words; i++)
        dst[i] = racy_load(&s[i]);
    return (const uint8_t *)dst + head;
}

static inline unsigned octets_match(octets16 a, uint8_t tag, octets16 b, uint8_t mask,
                                    uint8_t kind)
{
    const uint64_t all = 0x0101010101010101;
    unsigned found = 0;
    for (unsigned i = 0; i < 2; i++)
        found |= octets_zeros((a.word[i] ^ all * tag) | ((b.word[i] & all * mask) ^ all * kind))
                 << 8 * i;
    return found;
}

typedef uint64_t octets_sum; /* four lanes, enough for 64 words */

static inline octets_sum octets_sums(void)
{
    return 0;
}

static inline octets_sum octets_add(octets_sum sum, octets16 v, int n)
{
    const uint64_t even = 0x00ff00ff00ff00ff;
    for (int i = 0; i < 2; i++, n -= 8) {
        uint64_t w = n <= 0 ? 0 : n >= 8 ? v.word[i] : v.word[i] & UINT64_MAX >> (64 - 8 * n);
        sum += (w & even) + (w >> 8 & even);
    }
    return sum;
}

static inline unsigned octets_total(octets_sum sum)
{
    return (unsigned)(sum * 0x0001000100010001 >> 48);
}

static inline bool octets_have16(const uint16_t *p, size_t n, uint16_t v)
{
    bool found = false;
    for (size_t i = 0; i < 8 * n; i++)
        found |= racy_load(&p[i]) == v;
    return found;
}

static inline void octets_remove(uint8_t *p, unsigned i, uint8_t next)
{
    for (; i < 15; i++)
        racy_store(&p[i], racy_load(&p[i + 1]));
    racy_store(&p[15], next);
}

#endif

#endif
