/* hash.h - keyed hashing of what clients choose.
 *
 * SipHash-2-4 (Aumasson, Bernstein 2012): whoever does not know the key cannot
 * choose inputs that collide. Every table whose keys come from the network uses
 * it. Thread: all functions are pure. */
#ifndef PITH_CORE_HASH_H
#define PITH_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k0, k1;
};

/* A key from the system's random source. Aborts when there is none: a daemon
 * with a guessable key is worse than no daemon. */
struct hash_key hash_key_random(void);

/* 64-bit SipHash-2-4 of len octets. data may be NULL when len is 0. */
uint64_t hash_sip(const struct hash_key *key, const void *data, size_t len);

/* Random octets from the system's random source; aborts when there is none. */
void hash_random(void *out, size_t len);

#endif
