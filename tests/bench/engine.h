/* engine.h - what the benches put side by side.
 *
 * Every engine takes the same keys and the same checked replies, and answers with a whole
 * message: ID 0, the question as asked now, TTLs aged. */
#ifndef PITH_BENCH_ENGINE_H
#define PITH_BENCH_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

struct engine {
    const char *name;
    /* An empty engine for at most `bytes`, or at most `entries`, as its kind is bounded. */
    void *(*create)(size_t bytes, size_t entries);
    void (*destroy)(void *engine);
    void (*put)(void *engine, const struct cache_key *key, const struct dns_reply *reply,
                uint32_t ttl_s, uint8_t scope, uint32_t now_s);
    /* Length of the answer in out (DNS_MESSAGE_MAX octets), 0 for a miss. */
    size_t (*get)(void *engine, const struct cache_key *key, uint8_t *out, uint32_t now_s);
    uint64_t (*evictions)(const void *engine);
};

extern const struct engine engine_cache;     /* cache/cache.h, bounded by bytes */
extern const struct engine engine_packetmap; /* packetmap.c, bounded by entries */
extern const struct engine engine_lru;       /* lru.c, bounded by bytes */

/* ---- shared by the two that keep packets */

/* Octets that stand for a key: the name in lower case, type, DO and CD, subnet cut to its
 * prefix. Returns the length; out has PACKET_KEY_MAX octets. */
enum { PACKET_KEY_MAX = 255 + 3 + 18 };
size_t packet_key(const struct cache_key *key, uint8_t *out);

/* Not keyed, and so faster than what a resolver may use: in favour of the baselines. */
uint64_t packet_hash(const uint8_t *data, size_t len);

/* Copies a packet to out for a client: ID 0, its own spelling of the name, TTLs less by age. */
size_t packet_answer(uint8_t *out, const uint8_t *packet, size_t len,
                     const struct cache_key *key, uint32_t age_s);

#endif
