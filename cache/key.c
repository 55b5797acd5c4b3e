/* key.c - keys and their hash. */
#include "cache/key.h"

#include <string.h>

static inline uint64_t rotl(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

static inline uint64_t word(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

/* One round a word and three at the end instead of two and four, as is usual for tables: 1-3 is
 * what hash tables of Rust, Ruby and Python rest on. Words are read in the machine's order,
 * which changes the hash, not its strength. */
uint64_t cache_key_hash(const struct hash_key *key, const uint8_t *data, size_t len)
{
    uint64_t v[4] = {
        key->k0 ^ 0x736f6d6570736575,
        key->k1 ^ 0x646f72616e646f6d,
        key->k0 ^ 0x6c7967656e657261,
        key->k1 ^ 0x7465646279746573,
    };
    size_t whole = len / 8;
    for (size_t i = 0; i < whole; i++) {
        uint64_t m = word(data + 8 * i);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint8_t tail[8] = {0};
    memcpy(tail, data + 8 * whole, sizeof tail);
    uint64_t last = word(tail) ^ (uint64_t)len << 56;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The code is at space + 8. */
static void finish(struct cache_name *out, const struct hash_key *key, size_t code_len)
{
    uint8_t *code = out->space + 8;
    out->hash = cache_key_hash(key, code, code_len);
    out->tag = (uint8_t)(out->hash >> 8);
    if (code_len < KEY_FINGERPRINT) {
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

bool cache_key_from_name(struct cache_name *out, const struct hash_key *key,
                         const uint8_t *name, size_t len)
{
    size_t n = cache_namecode_encode(out->space + 8, name, len);
    if (n == SIZE_MAX)
        return false;
    finish(out, key, n);
    return true;
}

bool cache_key_from_entry(struct cache_name *out, const struct hash_key *key, uint8_t kind,
                          const uint8_t *entry, size_t len)
{
    size_t n = cache_key_len(kind, entry, len);
    if (n == SIZE_MAX)
        return false;
    if (kind == KEY_FINGERPRINT) {
        cache_key_from_fingerprint(out, word(entry));
        return true;
    }
    size_t head = kind == KEY_LONG ? 1 : 0;
    memcpy(out->space + 8, entry + head, n - head);
    memset(out->space + 8 + n - head, 0, 8);
    finish(out, key, n - head);
    return true;
}

void cache_key_from_fingerprint(struct cache_name *out, uint64_t fingerprint)
{
    memcpy(out->space + 8, &fingerprint, sizeof fingerprint);
    out->hash = fingerprint;
    out->tag = (uint8_t)(fingerprint >> 8);
    out->kind = KEY_FINGERPRINT;
    out->key = out->space + 8;
    out->key_len = KEY_FINGERPRINT_LEN;
}
