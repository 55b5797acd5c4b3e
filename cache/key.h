/* key.h - a key as pages look for it: the coded name (or, of an answer for a subnet, a
 * fingerprint), its keyed hash, and what follows from the hash. */
#ifndef PITH_CACHE_KEY_H
#define PITH_CACHE_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/namecode.h"
#include "core/hash.h"
#include "dns/wire.h"

enum { HASH_WORDS = (DNS_NAME_MAX + 1) / 8 + 2 };

/* What keys are hashed with: NH, the universal hash of UMAC (Black, Halevi, Krawczyk, Krovetz,
 * Rogaway 1999), with words of 64 bits, and a product to mix its sum. Two names that were
 * chosen without knowing the words below collide with a probability of 2^-62, at a fifth of the
 * work that SipHash takes for a name. The words are SipHash-2-4 of their numbers. */
struct cache_hash {
    struct hash_key sip;
    uint64_t word[HASH_WORDS];
};

void cache_hash_init(struct cache_hash *h, const struct hash_key *key);

/* The lower 5 bits of a slot's meta octet say what an entry begins with:
 *   0..29  a coded name of so many octets
 *   30     a fingerprint of 8 octets (ecs.h)
 *   31     an octet with the length of the coded name, then that */
enum {
    KEY_FINGERPRINT = 30,
    KEY_LONG = 31,
    KEY_KIND = 31,
    KEY_FINGERPRINT_LEN = 8,
    KEY_AHEAD = 32
};

struct cache_name {
    uint64_t hash;
    const uint8_t *key; /* what the entry begins with */
    size_t key_len;
    uint8_t kind; /* 0..31, see above */
    uint8_t tag;
    /* the code begins at 16; KEY_AHEAD octets can be read from the key on */
    _Alignas(16) uint8_t space[16 + NAMECODE_SPACE];
};

/* From a wire name of any case; false when it is malformed. The struct must not move
 * afterwards. */
bool cache_key_from_name(struct cache_name *out, const struct cache_hash *h,
                         const uint8_t *name, size_t len);

static inline uint8_t cache_key_tag(uint64_t hash)
{
    return (uint8_t)(hash >> 8);
}

/* The hash alone. */
uint64_t cache_key_hash(const struct cache_hash *h, const uint8_t *name, size_t len);

/* From what an entry of this kind begins with: `entry` has `len` octets. False when it is cut.
 */
bool cache_key_from_entry(struct cache_name *out, const struct cache_hash *h, uint8_t kind,
                          const uint8_t *entry, size_t len);

/* From a fingerprint. */
void cache_key_from_fingerprint(struct cache_name *out, uint64_t fingerprint);

/* Octets of the key that an entry of this kind begins with (0 for the root's); SIZE_MAX when it
 * is cut. */
static inline size_t cache_key_len(uint8_t kind, const uint8_t *entry, size_t len)
{
    size_t n = kind < KEY_FINGERPRINT    ? kind
               : kind == KEY_FINGERPRINT ? (size_t)KEY_FINGERPRINT_LEN
               : len > 0                 ? 1 + (size_t)entry[0]
                                         : 1;
    return n <= len ? n : SIZE_MAX;
}

#endif
