/* namecode.c - the code of names. */
#include "cache/namecode.h"

#include <stdbool.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "dns/name.h"
#include "dns/wire.h"

enum {
    NARROW = 5, /* bits of a symbol */
    WIDE = 6,
    NARROW_HYPHEN = 27,
    NARROW_STEP = 0,
    WIDE_STEP = '.',
    PLAIN = 0xff, /* first octet of a name that is not coded */
    LENGTH_MAX = 0x1f,
};

/* ---- symbol by symbol, for any name */

static inline bool is_letter(uint8_t c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* -1: there is none. */
static int symbol_of(uint8_t c, unsigned width)
{
    if (width == NARROW)
        return is_letter(c) ? c & 0x1f : c == '-' ? NARROW_HYPHEN : -1;
    if (c < 0x20 || c == WIDE_STEP || c == '?' || (c > 0x5f && !is_letter(c)))
        return -1;
    return (is_letter(c) ? c & ~0x20 : c) & 0x3f;
}

/* Whether a sound name, its root left out, can be said in symbols of a width. */
static bool has_symbols(const uint8_t *name, size_t len, unsigned width)
{
    for (size_t pos = 0; pos < len;) {
        size_t end = pos + 1 + name[pos];
        if (pos > 0 && name[pos] > LENGTH_MAX)
            return false;
        for (pos++; pos < end; pos++) {
            if (symbol_of(name[pos], width) < 0)
                return false;
        }
    }
    return true;
}

/* Bits from the lowest of the first octet on. */
struct output {
    uint8_t *pos;
    unsigned bits, n;
};

static void output_put(struct output *o, unsigned bits, unsigned n)
{
    o->bits |= bits << o->n;
    for (o->n += n; o->n >= 8; o->n -= 8, o->bits >>= 8)
        *o->pos++ = (uint8_t)o->bits;
}

static size_t symbols_put(uint8_t *out, const uint8_t *name, size_t len, unsigned width)
{
    struct output o = {.pos = out};
    output_put(&o, width == WIDE, 1);
    for (size_t pos = 0; pos < len;) {
        size_t end = pos + 1 + name[pos];
        if (pos > 0)
            output_put(&o, width == WIDE ? WIDE_STEP : NARROW_STEP, width);
        for (pos++; pos < end; pos++)
            output_put(&o, (unsigned)symbol_of(name[pos], width), width);
    }
    if (o.n > 0)
        output_put(&o, 0xffu >> o.n, 8 - o.n);
    return (size_t)(o.pos - out);
}

__attribute__((noinline)) static size_t encode_any(uint8_t *out, const uint8_t *name,
                                                   size_t len)
{
    size_t n = 0;
    if (name_wire_len(name, len) != len || len == 0)
        return SIZE_MAX;
    if (len > 1) {
        unsigned width = has_symbols(name, len - 1, NARROW) ? NARROW : WIDE;
        if (has_symbols(name, len - 1, width)) {
            n = symbols_put(out, name, len - 1, width);
        } else {
            out[n++] = PLAIN;
            name_lower(out + 1, name, len - 1);
            n += len - 1;
        }
    }
    return n;
}

/* ---- sixteen at a time, for names of usual length */

#if defined(__SSE2__)

/* Octet i of two of these, loaded at 32 - n: 0xff from i = n on. */
static const uint8_t behind[64] = {
    [32] = 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff,        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff,        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
};

static inline __m128i octets(int c)
{
    return _mm_set1_epi8((char)c);
}

static inline __m128i sixteen(const uint64_t *w)
{
    return _mm_set_epi64x((long long)w[1], (long long)w[0]);
}

/* Sixteen octets of a name, looked at. */
struct lanes {
    __m128i upper;  /* in upper case */
    __m128i letter; /* which are letters */
    __m128i step;   /* which are lengths of labels, as a control character would be */
    __m128i behind; /* which are behind the end */
    __m128i is_narrow, is_not_wide;
};

static inline struct lanes look(__m128i v, __m128i is_behind)
{
    struct lanes l;
    __m128i over = _mm_cmpgt_epi8(v, octets(0x5f));
    __m128i folded = _mm_andnot_si128(_mm_and_si128(over, octets(0x20)), v);
    l.behind = is_behind;
    l.letter = _mm_and_si128(_mm_cmpgt_epi8(folded, octets('A' - 1)),
                             _mm_cmpgt_epi8(octets('Z' + 1), folded));
    l.upper = folded;
    l.step = _mm_andnot_si128(is_behind, _mm_cmpgt_epi8(octets(0x20), v));
    __m128i fine = _mm_or_si128(_mm_or_si128(l.letter, _mm_cmpeq_epi8(v, octets('-'))), l.step);
    l.is_narrow = _mm_or_si128(fine, is_behind);
    __m128i taken =
        _mm_or_si128(_mm_cmpeq_epi8(v, octets(WIDE_STEP)), _mm_cmpeq_epi8(v, octets('?')));
    l.is_not_wide =
        _mm_andnot_si128(is_behind, _mm_or_si128(taken, _mm_andnot_si128(l.letter, over)));
    return l;
}

static inline __m128i chosen(__m128i which, __m128i a, __m128i b)
{
    return _mm_or_si128(_mm_and_si128(which, a), _mm_andnot_si128(which, b));
}

/* Symbols of up to 6 bits, of which those behind the end are ones only. */
static inline __m128i symbols(const struct lanes *l, unsigned width)
{
    if (width == WIDE) {
        __m128i s = chosen(l->step, octets(WIDE_STEP), l->upper);
        return _mm_and_si128(_mm_or_si128(s, l->behind), octets(0x3f));
    }
    /* what is no letter is a hyphen or a step */
    __m128i s = chosen(l->letter, _mm_and_si128(l->upper, octets(0x1f)),
                       _mm_andnot_si128(l->step, octets(NARROW_HYPHEN)));
    return _mm_and_si128(_mm_or_si128(s, l->behind), octets(0x1f));
}

/* Two lanes of 64 bits with eight symbols each, without holes: pairs, then pairs of pairs. */
static inline __m128i packed(__m128i s, unsigned width)
{
    __m128i low = _mm_and_si128(s, _mm_set1_epi16(0xff));
    __m128i two =
        _mm_or_si128(low, _mm_sll_epi16(_mm_srli_epi16(s, 8), _mm_cvtsi32_si128((int)width)));
    __m128i four = _mm_madd_epi16(two, _mm_set1_epi32(1 << (16 + 2 * width) | 1));
    __m128i high = _mm_srli_epi64(four, 32);
    return _mm_or_si128(_mm_and_si128(four, _mm_set1_epi64x(UINT32_MAX)),
                        _mm_sll_epi64(high, _mm_cvtsi32_si128((int)(4 * width))));
}

static inline uint64_t lane(__m128i v, int i)
{
    return (uint64_t)_mm_cvtsi128_si64(i == 0 ? v : _mm_unpackhi_epi64(v, v));
}

/* Writes the code in whole words, which who reads it next gets faster than octets. Bits behind
 * those of the symbols are ones. */
static inline void words_put(uint8_t *out, __m128i a, __m128i b, unsigned width)
{
    uint64_t g0 = lane(a, 0), g1 = lane(a, 1), g2 = lane(b, 0), g3 = lane(b, 1);
    uint64_t *w = __builtin_assume_aligned(out, sizeof *w);
    if (width == WIDE) { /* 48 bits in each */
        w[0] = 1 | g0 << 1 | g1 << 49;
        w[1] = g1 >> 15 | g2 << 33;
        w[2] = g2 >> 31 | g3 << 17;
        w[3] = g3 >> 47 | UINT64_MAX << 1;
    } else { /* 40 */
        w[0] = g0 << 1 | g1 << 41;
        w[1] = g1 >> 23 | g2 << 17 | g3 << 57;
        w[2] = g3 >> 7 | UINT64_MAX << 33;
        w[3] = UINT64_MAX;
    }
}

/* Where labels end in the n octets at p, the first of which is behind the name's first; 0 when
 * the name is not sound. */
static inline uint64_t label_ends(const uint8_t *p, size_t n)
{
    uint64_t ends = 0;
    size_t at = p[-1];
    while (at < n && p[at] != 0) {
        ends |= (uint64_t)1 << at;
        at += 1 + (size_t)p[at];
    }
    return at == n && p[n] == 0 && p[-1] - 1u < DNS_LABEL_MAX ? ends | (uint64_t)1 << n : 0;
}

size_t cache_namecode_encode_short(uint8_t *out, const uint8_t *p, size_t n,
                                   const struct cache_words *words)
{
    const struct lanes a = look(sixteen(words->w),
                                _mm_loadu_si128((const void *)(behind + 32 - n))),
                       b = look(sixteen(words->w + 2),
                                _mm_loadu_si128((const void *)(behind + 48 - n)));
    uint64_t steps = (uint64_t)(unsigned)_mm_movemask_epi8(b.step) << 16 |
                     (unsigned)_mm_movemask_epi8(a.step) | (uint64_t)1 << n;
    /* no control characters, no length over LENGTH_MAX, and a sound name */
    if (steps != label_ends(p, n) ||
        _mm_movemask_epi8(_mm_or_si128(a.is_not_wide, b.is_not_wide)) != 0)
        return 0;
    if (_mm_movemask_epi8(_mm_and_si128(a.is_narrow, b.is_narrow)) == 0xffff) {
        words_put(out, packed(symbols(&a, NARROW), NARROW), packed(symbols(&b, NARROW), NARROW),
                  NARROW);
        return (NARROW * n + 8) / 8;
    }
    words_put(out, packed(symbols(&a, WIDE), WIDE), packed(symbols(&b, WIDE), WIDE), WIDE);
    return (WIDE * n + 8) / 8;
}

#else

size_t cache_namecode_encode_short(uint8_t *out, const uint8_t *p, size_t n,
                                   const struct cache_words *words)
{
    (void)out, (void)p, (void)n, (void)words;
    return 0;
}

#endif

size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len)
{
    size_t n = 0;
    if (len - 2 - 8 <= NAMECODE_SHORT - 8) {
        struct cache_words words = cache_namecode_words(name + 1, len - 2);
        n = cache_namecode_encode_short(out, name + 1, len - 2, &words);
    }
    return n > 0 ? n : encode_any(out, name, len);
}

/* ---- and back */

static size_t plain_get(uint8_t *out, const uint8_t *code, size_t len)
{
    uint8_t wire[DNS_NAME_MAX + 1];
    if (len > DNS_NAME_MAX)
        return 0;
    memcpy(wire, code + 1, len - 1);
    wire[len - 1] = 0;
    if (name_wire_len(wire, len) != len)
        return 0;
    memcpy(out, wire, len);
    return len;
}

/* The octet that a symbol stands for; 0 for the step. */
static uint8_t octet_of(unsigned symbol, unsigned width)
{
    if (symbol == (width == WIDE ? WIDE_STEP : NARROW_STEP))
        return 0;
    if (width == NARROW)
        return symbol == NARROW_HYPHEN ? '-' : (uint8_t)('a' - 1 + symbol);
    if (symbol >= 0x20)
        return (uint8_t)symbol;
    return (uint8_t)(symbol - 1 < 26 ? 'a' - 1 + symbol : symbol | 0x40);
}

/* Decodes to labels; out[label] is the length octet of the one being read. Whether all of it
 * was good is left to who encodes it again. */
static size_t labels_get(uint8_t *out, const uint8_t *code, size_t len)
{
    unsigned width = code[0] & 1 ? WIDE : NARROW, ones = (1u << width) - 1;
    size_t label = 0, n = 1;
    for (size_t bit = 1; bit + width <= 8 * len; bit += width) {
        unsigned two = code[bit / 8] | (bit / 8 + 1 < len ? code[bit / 8 + 1] : 0u) << 8;
        unsigned symbol = two >> bit % 8 & ones;
        if (symbol == ones)
            break;
        if (n >= DNS_NAME_MAX - 1)
            return 0;
        out[n] = octet_of(symbol, width);
        if (out[n] == 0) {
            out[label] = (uint8_t)(n - label - 1);
            label = n;
        }
        n++;
    }
    out[label] = (uint8_t)(n - label - 1);
    out[n] = 0;
    return n + 1;
}

size_t cache_namecode_decode_own(uint8_t *out, const uint8_t *code, size_t len)
{
    if (len == 0) {
        out[0] = 0;
        return 1;
    }
    if (len > NAMECODE_MAX)
        return 0;
    return code[0] == PLAIN ? plain_get(out, code, len) : labels_get(out, code, len);
}

size_t cache_namecode_decode(uint8_t *out, const uint8_t *code, size_t len)
{
    _Alignas(8) uint8_t again[NAMECODE_SPACE];
    size_t n;
    if (len == 0)
        return cache_namecode_decode_own(out, code, len);
    n = cache_namecode_decode_own(out, code, len);
    /* only the one code that encoding gives is good: no second key for a name */
    if (n == 0 || cache_namecode_encode(again, out, n) != len || memcmp(again, code, len) != 0)
        return 0;
    return n;
}
