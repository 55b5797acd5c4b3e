/* workload.h - cache entries made from a seed and a number, and never stored.
 *
 * Entry i of a workload is a question and the whole reply an upstream would have sent. Both are
 * functions of (mix, seed, i), so that a run over millions of entries needs no memory of its
 * own and resident memory is the engine's alone. Thread: all functions are pure. */
#ifndef PITH_BENCH_WORKLOAD_H
#define PITH_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/ecs.h"

enum workload_mix {
    /* The published mix: 56 % A, 25 % AAAA, 19 % TXT of 64..224 octets, 1..4 records, names of
     * 12..24 octets of uniform letters and digits. Raw payload 102 octets. */
    WORKLOAD_W,
    WORKLOAD_W_REALISTIC, /* the same with names of 20..26 octets as people give them */
    WORKLOAD_NAMES,       /* A, AAAA and HTTPS of each name, realistic names */
    WORKLOAD_ECS,         /* one A for each of 14 IPv4 /24 and 2 IPv6 /48 of a name */
    WORKLOAD_NEGATIVE,    /* NXDOMAIN and NODATA with the zone's SOA */
    WORKLOAD_LARGE,       /* TXT sets of 1..32 KiB, log-uniform */
    WORKLOAD_LONE_A,      /* one A, names of 20 octets: the unit entries of hit-rate traces */
    WORKLOAD_MIXES
};

struct workload {
    enum workload_mix mix;
    uint64_t seed;
    uint32_t ttl_s; /* of all records; 0: 300..1323, by entry */
};

enum { WORKLOAD_NAME_MAX = 40, WORKLOAD_MESSAGE_MAX = 48 * 1024 };

/* The question of an entry. */
struct workload_key {
    uint8_t qname[WORKLOAD_NAME_MAX];
    uint8_t qname_len;
    bool scoped; /* subnet is set */
    uint16_t qtype;
    struct ecs subnet;
};

/* The reply's measures. */
struct workload_reply {
    size_t len; /* of the message */
    size_t
        raw; /* octets of the name and of all rdata, uncompressed: what nobody can leave out */
    uint32_t ttl_s;
    uint8_t scope;
};

/* Entries from here on are in no fill: questions for misses. */
#define WORKLOAD_ABSENT (UINT64_C(1) << 40)

bool workload_mix_from_text(enum workload_mix *mix, const char *text);
const char *workload_mix_to_text(enum workload_mix mix);

void workload_key(const struct workload *w, uint64_t i, struct workload_key *key);

/* Writes the reply to out (WORKLOAD_MESSAGE_MAX octets). */
void workload_reply(const struct workload *w, uint64_t i, const struct workload_key *key,
                    uint8_t *out, struct workload_reply *reply);

/* A permutation of 0..n-1 that depends on seed: entry numbers in random order without a table.
 */
uint64_t workload_shuffle(uint64_t i, uint64_t n, uint64_t seed);

/* xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64. */
struct random {
    uint64_t s[4];
};
void random_seed(struct random *r, uint64_t seed);
uint64_t random_next(struct random *r);

/* Uniform in 0..n-1. */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
    return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

/* Uniform in [0, 1). */
static inline double random_unit(struct random *r)
{
    return (double)(random_next(r) >> 11) * 0x1p-53;
}

#endif
