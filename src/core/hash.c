/* hash.c - SipHash-2-4 and random octets. */
#include "core/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static inline uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

/* The algorithm is defined on little-endian words. */
static inline uint64_t load_le(const uint8_t *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

uint64_t hash_sip(const struct hash_key *key, const void *data, size_t len)
{
    uint64_t v[4] = {
        key->k0 ^ 0x736f6d6570736575,
        key->k1 ^ 0x646f72616e646f6d,
        key->k0 ^ 0x6c7967656e657261,
        key->k1 ^ 0x7465646279746573,
    };
    const uint8_t *p = data;
    uint64_t last = (uint64_t)len << 56;

    for (size_t left = len / 8; left > 0; left--, p += 8) {
        uint64_t m = load_le(p);

        v[3] ^= m;
        sip_round(v);
        sip_round(v);
        v[0] ^= m;
    }
    for (size_t i = 0; i < len % 8; i++)
        last |= (uint64_t)p[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void hash_random(void *out, size_t len)
{
    uint8_t *p = out;

    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        p += n;
        len -= (size_t)n;
    }
}

struct hash_key hash_key_random(void)
{
    struct hash_key key;

    hash_random(&key, sizeof key);
    return key;
}
