/* bench_hitrate.c - hit rates of the cache beside LRU, SIEVE, S3-FIFO and the optimum.
 *
 * The cache is given the bytes that `percent` of the working set should take; how many entries
 * it then held is what every other policy gets. Beside that: an LRU with the same bytes at 420
 * an entry, the best published figure for a cache of this kind. One JSON line for each trace
 * and size. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trace.h"

enum { PUBLISHED_BYTES = 420 };

struct hitrate_options {
    uint32_t names, requests;
    double alpha;   /* 0: the set */
    double one_hit; /* below 0: the set */
    uint64_t seed;
    enum workload_mix mix;
};

/* Octets of the arena for a number of entries: raw payload 102 (W) or 24 (a lone A), what an
 * entry adds, the large-page part of 1/16. An estimate: entries are counted after the run. */
static size_t bytes_for(enum workload_mix mix, double entries)
{
    double each = mix == WORKLOAD_LONE_A ? 34 : 102 * 1.13;
    size_t bytes = (size_t)(entries * each * 16 / 15);
    return bytes > CACHE_MIN_BYTES ? bytes : CACHE_MIN_BYTES;
}

static void replay(const struct trace *t, const struct hitrate_options *o, double percent)
{
    size_t bytes = bytes_for(o->mix, t->o.names * percent / 100);
    uint64_t entries;
    double n = t->o.requests - trace_warm(t);
    double ours = (double)policy_cache(t, o->mix, bytes, &entries) / n;
    uint32_t capacity = (uint32_t)entries;
    double lru = (double)policy_lru(t, capacity) / n;
    double sieve = (double)policy_sieve(t, capacity) / n;
    double s3_1 = (double)policy_s3fifo(t, capacity, 1) / n;
    double s3_2 = (double)policy_s3fifo(t, capacity, 2) / n;
    double s3 = s3_1 > s3_2 ? s3_1 : s3_2; /* the better of the two published thresholds */
    double optimum = (double)policy_optimum(t, capacity) / n;
    double published = (double)policy_lru(t, (uint32_t)(bytes / PUBLISHED_BYTES)) / n;
    printf("{\"bench\": \"hitrate\", \"mix\": \"%s\", \"names\": %" PRIu32
           ", \"requests\": %" PRIu32 ", \"alpha\": %.2f, \"one_hit\": %.2f, \"seed\": %" PRIu64
           ", \"percent\": %.0f, \"bytes\": %zu, \"entries\": %" PRIu32
           ", \"cache\": %.4f, \"lru\": %.4f, \"sieve\": %.4f, \"s3fifo\": %.4f"
           ", \"s3fifo_promote_1\": %.4f, \"s3fifo_promote_2\": %.4f, \"optimum\": %.4f"
           ", \"of_s3fifo\": %.4f, \"of_lru\": %.4f"
           ", \"lru_420_bytes\": %.4f, \"of_lru_420_bytes\": %.4f}\n",
           workload_mix_to_text(o->mix), t->o.names, t->o.requests, t->o.alpha, t->o.one_hit,
           t->o.seed, percent, bytes, capacity, ours, lru, sieve, s3, s3_1, s3_2, optimum,
           ours / s3, ours / lru, published, ours / published);
    fflush(stdout);
}

static void replay_sizes(const struct hitrate_options *o, double alpha, double one_hit)
{
    static const double percent[] = {5, 10, 25};
    struct trace_options options = {.names = o->names,
                                    .requests = o->requests,
                                    .alpha = alpha,
                                    .one_hit = one_hit,
                                    .rate = 1000,
                                    .seed = o->seed};
    struct trace *t = trace_create(&options);
    for (size_t k = 0; k < sizeof percent / sizeof *percent; k++)
        replay(t, o, percent[k]);
    trace_destroy(t);
}

static bool parse_options(struct hitrate_options *o, int argc, char **argv)
{
    static const struct option table[] = {
        {"names", required_argument, NULL, 'n'},
        {"requests", required_argument, NULL, 't'},
        {"alpha", required_argument, NULL, 'a'},
        {"one-hit", required_argument, NULL, 'o'},
        {"seed", required_argument, NULL, 's'},
        {"mix", required_argument, NULL, 'm'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (c) {
        case 'n':
            o->names = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 't':
            o->requests = (uint32_t)strtoul(optarg, NULL, 0);
            break;
        case 'a':
            o->alpha = strtod(optarg, NULL);
            break;
        case 'o':
            o->one_hit = strtod(optarg, NULL);
            break;
        case 's':
            o->seed = strtoull(optarg, NULL, 0);
            break;
        case 'm':
            if (!workload_mix_from_text(&o->mix, optarg))
                return false;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->names >= 100 && o->requests >= 3;
}

int main(int argc, char **argv)
{
    static const double alphas[] = {0.8, 0.9, 1.0}, one_hits[] = {0, 0.2};
    struct hitrate_options o = {
        .names = 200000, .requests = 3000000, .one_hit = -1, .seed = 42, .mix = WORKLOAD_W};
    if (!parse_options(&o, argc, argv)) {
        fputs("usage: bench_hitrate [--names N] [--requests N] [--alpha A] [--one-hit SHARE]\n"
              "                     [--seed N] [--mix w|lone-a|...]\n",
              stderr);
        return 2;
    }
    for (size_t a = 0; a < (o.alpha > 0 ? 1 : 3); a++) {
        for (size_t h = 0; h < (o.one_hit >= 0 ? 1 : 2); h++)
            replay_sizes(&o, o.alpha > 0 ? o.alpha : alphas[a],
                         o.one_hit >= 0 ? o.one_hit : one_hits[h]);
    }
    return 0;
}
