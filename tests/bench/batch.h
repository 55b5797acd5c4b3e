/* batch.h - questions and replies made ahead of the clock.
 *
 * Making an entry costs about as much as a lookup, so a batch is made first and then timed as a
 * whole: the times are the engine's alone. A batch fits the second-level cache, as what has
 * just come from a socket does. */
#ifndef PITH_BENCH_BATCH_H
#define PITH_BENCH_BATCH_H

#include "cache/cache.h"
#include "engine.h"
#include "measure.h"
#include "workload.h"

enum { BATCH_MAX = 256, BATCH_BYTES = 1024 * 1024 + WORKLOAD_MESSAGE_MAX };

struct batch {
    size_t n;
    struct workload_key source[BATCH_MAX];
    struct cache_key key[BATCH_MAX];
    struct dns_reply reply[BATCH_MAX];
    uint32_t ttl_s[BATCH_MAX];
    uint8_t scope[BATCH_MAX];
    size_t raw;     /* of all its entries */
    size_t used;    /* octets of bytes[] */
    uint8_t *bytes; /* BATCH_BYTES */
};

/* The cache key of a workload's key, which has to stay. */
void batch_key(const struct workload_key *source, struct cache_key *key);

/* A batch without entries, all its memory touched. Owner: the caller, batch_destroy(). */
struct batch *batch_create(void);
void batch_destroy(struct batch *b);

/* Appends entry i with its reply, or the question alone. False when full. */
bool batch_add(struct batch *b, const struct workload *w, uint64_t i);
bool batch_add_key(struct batch *b, const struct workload *w, uint64_t i);
void batch_clear(struct batch *b);

/* Puts or gets all entries of a batch and returns the wall time. hits may be NULL. */
uint64_t batch_put(const struct batch *b, const struct engine *e, void *engine, uint32_t now_s);
uint64_t batch_get(const struct batch *b, const struct engine *e, void *engine, uint32_t now_s,
                   uint8_t *out, size_t *hits);

#endif
