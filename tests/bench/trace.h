/* trace.h - seeded request traces and the replacement policies they are replayed on.
 *
 * A trace asks for names by Zipf's law, each with a TTL of a usual set; a share of requests may
 * be for names that are never asked again. Policies hold entries of one size and see what a
 * cache sees: an answer past its TTL is a miss and is fetched anew in place. */
#ifndef PITH_BENCH_TRACE_H
#define PITH_BENCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "workload.h"

struct trace_options {
    uint32_t names; /* the working set */
    uint32_t requests;
    double alpha;   /* exponent of Zipf's law */
    double one_hit; /* share of requests for names of their own */
    uint32_t rate;  /* requests a second */
    uint64_t seed;
};

struct trace {
    struct trace_options o;
    uint32_t ids;    /* names and one-hit names; ids are 0..ids-1 */
    uint32_t *id;    /* of each request */
    uint32_t *next;  /* the next request for the same id; UINT32_MAX: none */
    uint32_t *ttl_s; /* of each id */
};

/* Owner: the caller, trace_destroy(). Aborts without memory. */
struct trace *trace_create(const struct trace_options *o);
void trace_destroy(struct trace *t);

static inline uint32_t trace_now_s(const struct trace *t, uint32_t request)
{
    return 1000 + request / t->o.rate;
}

/* The first third warms up; only hits of the rest count. */
static inline uint32_t trace_warm(const struct trace *t)
{
    return t->o.requests / 3;
}

/* Hits of each policy with room for `capacity` entries. */
uint64_t policy_lru(const struct trace *t, uint32_t capacity);
uint64_t policy_sieve(const struct trace *t, uint32_t capacity); /* Zhang et al., NSDI 2024 */
/* Yang et al., SOSP 2023; `promote` uses in the small queue lead to the main one. */
uint64_t policy_s3fifo(const struct trace *t, uint32_t capacity, uint8_t promote);
/* Offline: keeps what is asked for next soonest, and nothing that will have expired by then. */
uint64_t policy_optimum(const struct trace *t, uint32_t capacity);
/* The cache itself with that many bytes, filled with entries of a workload. `entries` gets how
 * many it held at the end. */
uint64_t policy_cache(const struct trace *t, enum workload_mix mix, size_t bytes,
                      uint64_t *entries);

#endif
