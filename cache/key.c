/* key.c - keys and their hash. */
#include "cache/key.h"

#include <string.h>

void cache_hash_init(struct cache_hash *h, const struct hash_key *key)
{
    h->sip = *key;
    for (uint64_t i = 0; i < sizeof h->word / sizeof h->word[0]; i++)
        h->word[i] = hash_sip(key, &i, sizeof i);
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

struct wide {
    uint64_t low, high;
};

static inline struct wide product(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    unsigned __int128 p = (unsigned __int128)a * b;
    return (struct wide){(uint64_t)p, (uint64_t)(p >> 64)};
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t middle = (al * bl >> 32) + (uint32_t)(ah * bl) + (uint32_t)(al * bh);
    return (struct wide){a * b, ah * bh + (ah * bl >> 32) + (al * bh >> 32) + (middle >> 32)};
#endif
}

static inline struct wide sum(struct wide a, struct wide b)
{
    uint64_t low = a.low + b.low;
    return (struct wide){low, a.high + b.high + (low < a.low)};
}

/* Of four words, with as many of the hash's. */
static inline struct wide nh(const uint64_t *word, const uint64_t *w)
{
    return sum(product(w[0] + word[0], w[1] + word[1]),
               product(w[2] + word[2], w[3] + word[3]));
}

static inline uint64_t mixed(const struct cache_hash *h, struct wide sum, size_t len)
{
    const uint64_t *last = h->word + HASH_WORDS - 2;
    struct wide m = product(sum.low ^ last[0], (sum.high + len) ^ last[1]);
    return m.low ^ m.high;
}

/* Without case: 0x60..0x7f become 0x40..0x5f (and 0xe0..0xff 0xc0..0xdf). */
static inline uint64_t folded(uint64_t w)
{
    return w ^ (w >> 1 & w & 0x2020202020202020);
}

/* The octets of a word that are among the n first of a name; at: of those before the word. */
static inline uint64_t within(uint64_t w, size_t n, size_t at)
{
    /* 0xff for those, loaded from where as many of them are left */
    static const uint8_t all[64] = {
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    };
    return w & load64(all + 32 - n + at);
}

/* What is hashed of a name is its octets without the first, which is known from the others, and
 * the root. */
static inline uint64_t hash_short(const struct cache_hash *h, const struct cache_words *words,
                                  size_t n)
{
    const uint64_t *w = words->w;
    const uint64_t octets[4] = {folded(within(w[0], n, 0)), folded(within(w[1], n, 8)),
                                folded(within(w[2], n, 16)), folded(within(w[3], n, 24))};
    return mixed(h, nh(h->word, octets), n);
}

static uint64_t hash_any(const struct cache_hash *h, const uint8_t *name, size_t len)
{
    uint64_t octets[(DNS_NAME_MAX + 1) / 8] = {0};
    size_t n = len > 1 ? len - 2 : 0;
    memcpy(octets, name + 1, n);
    struct wide all = {0, 0};
    for (size_t i = 0; i == 0 || 8 * i < n; i += 4) {
        for (size_t k = i; k < i + 4; k++)
            octets[k] = folded(octets[k]);
        all = sum(all, nh(h->word + i, octets + i));
    }
    return mixed(h, all, n);
}

uint64_t cache_key_hash(const struct cache_hash *h, const uint8_t *name, size_t len)
{
    if (__builtin_expect(len - 2 - 8 > NAMECODE_SHORT - 8, 0))
        return hash_any(h, name, len);
    const struct cache_words words = cache_namecode_words(name + 1, len - 2);
    return hash_short(h, &words, len - 2);
}

/* The code is at space + 16, the hash is there. */
static inline void finish(struct cache_name *out, size_t code_len)
{
    uint8_t *code = out->space + 16;
    out->tag = cache_key_tag(out->hash);
    if (__builtin_expect(code_len < KEY_FINGERPRINT, 1)) {
        out->kind = (uint8_t)code_len;
        out->key = code;
        out->key_len = code_len;
    } else {
        code[-1] = (uint8_t)code_len;
        out->kind = KEY_LONG;
        out->key = code - 1;
        out->key_len = code_len + 1;
    }
}

/* Names that are not short, or not of the usual octets. */
__attribute__((noinline)) static bool from_any_name(struct cache_name *out,
                                                    const struct cache_hash *h,
                                                    const uint8_t *name, size_t len)
{
    size_t n = cache_namecode_encode(out->space + 16, name, len);
    if (n == SIZE_MAX)
        return false;
    out->hash = hash_any(h, name, len);
    finish(out, n);
    return true;
}

bool cache_key_from_name(struct cache_name *out, const struct cache_hash *h,
                         const uint8_t *name, size_t len)
{
    if (__builtin_expect(len - 2 - 8 > NAMECODE_SHORT - 8, 0))
        return from_any_name(out, h, name, len);
    const struct cache_words words = cache_namecode_words(name + 1, len - 2);
    /* the hash first, so that the pages are on their way while the name is coded */
    out->hash = hash_short(h, &words, len - 2);
    size_t n = cache_namecode_encode_short(out->space + 16, name + 1, len - 2, &words);
    if (__builtin_expect(n == 0, 0))
        return from_any_name(out, h, name, len);
    finish(out, n);
    return true;
}

bool cache_key_from_entry(struct cache_name *out, const struct cache_hash *h, uint8_t kind,
                          const uint8_t *entry, size_t len)
{
    uint8_t name[DNS_NAME_MAX];
    size_t n = cache_key_len(kind, entry, len), head = kind == KEY_LONG ? 1 : 0;
    if (n == SIZE_MAX)
        return false;
    if (kind == KEY_FINGERPRINT) {
        cache_key_from_fingerprint(out, load64(entry));
        return true;
    }
    size_t code_len = n - head, name_len;
    name_len = cache_namecode_decode_own(name, entry + head, code_len);
    if (name_len == 0)
        return false;
    memcpy(out->space + 16, entry + head, code_len);
    out->hash = hash_any(h, name, name_len);
    finish(out, code_len);
    return true;
}

void cache_key_from_fingerprint(struct cache_name *out, uint64_t fingerprint)
{
    uint8_t *key = out->space + 16;
    memset(key, 0xff, KEY_AHEAD);
    memcpy(key, &fingerprint, sizeof fingerprint);
    out->hash = fingerprint;
    out->tag = cache_key_tag(fingerprint);
    out->kind = KEY_FINGERPRINT;
    out->key = key;
    out->key_len = KEY_FINGERPRINT_LEN;
}
