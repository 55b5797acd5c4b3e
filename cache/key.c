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

/* Of 32 octets, with four words. */
static inline struct wide nh(const uint64_t *word, const uint8_t *p)
{
    return sum(product(load64(p) + word[0], load64(p + 8) + word[1]),
               product(load64(p + 16) + word[2], load64(p + 24) + word[3]));
}

/* Of a code as cache_namecode_encode() gives it, with what is behind. */
static inline uint64_t hash_code(const struct cache_hash *h, const uint8_t *code, size_t len)
{
    const uint64_t *last = h->word + NAMECODE_SPACE / 8 - 2;
    struct wide all = nh(h->word, code);
    for (size_t at = NAMECODE_AHEAD; __builtin_expect(at < len, 0); at += NAMECODE_AHEAD)
        all = sum(all, nh(h->word + at / 8, code + at));
    struct wide mixed = product(all.low ^ last[0], (all.high + len) ^ last[1]);
    return mixed.low ^ mixed.high;
}

/* The code is at space + 16. */
static inline void finish(struct cache_name *out, const struct cache_hash *h, size_t code_len)
{
    uint8_t *code = out->space + 16;
    out->hash = hash_code(h, code, code_len);
    out->tag = (uint8_t)(out->hash >> 8);
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

bool cache_key_from_name(struct cache_name *out, const struct cache_hash *h,
                         const uint8_t *name, size_t len)
{
    size_t n = cache_namecode_encode(out->space + 16, name, len);
    if (n == SIZE_MAX)
        return false;
    finish(out, h, n);
    return true;
}

bool cache_key_from_entry(struct cache_name *out, const struct cache_hash *h, uint8_t kind,
                          const uint8_t *entry, size_t len)
{
    size_t n = cache_key_len(kind, entry, len);
    if (n == SIZE_MAX)
        return false;
    if (kind == KEY_FINGERPRINT) {
        cache_key_from_fingerprint(out, load64(entry));
        return true;
    }
    size_t head = kind == KEY_LONG ? 1 : 0, code_len = n - head;
    uint8_t *code = out->space + 16;
    if (code_len > NAMECODE_MAX)
        return false;
    memset(code + code_len / NAMECODE_AHEAD * NAMECODE_AHEAD, 0xff, NAMECODE_AHEAD);
    memcpy(code, entry + head, code_len);
    finish(out, h, code_len);
    return true;
}

void cache_key_from_fingerprint(struct cache_name *out, uint64_t fingerprint)
{
    uint8_t *key = out->space + 16;
    memset(key, 0xff, KEY_AHEAD);
    memcpy(key, &fingerprint, sizeof fingerprint);
    out->hash = fingerprint;
    out->tag = (uint8_t)(fingerprint >> 8);
    out->kind = KEY_FINGERPRINT;
    out->key = key;
    out->key_len = KEY_FINGERPRINT_LEN;
}
