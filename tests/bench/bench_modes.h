/* bench_modes.h - options of bench_cache and its special modes. */
#ifndef PITH_BENCH_MODES_H
#define PITH_BENCH_MODES_H

#include "workload.h"

struct bench_options {
    struct workload workload;
    uint64_t entries;
    size_t cache_bytes;
    double ratio;
    size_t runs;
    const char *only; /* an engine's name; NULL: all */
    bool threads, snapshot, fixed;
    bool hot; /* fixed lookups of a few names over and over, instead of each once */
};

/* Readers and writers on cores of their own: one JSON line a run. Returns the exit status. */
int bench_threads(const struct bench_options *o);

/* Times of saving and loading: one JSON line a run. Returns the exit status. */
int bench_snapshot(const struct bench_options *o);

/* For valgrind --tool=callgrind --toggle-collect=FUNCTION: prints how many lookups of each kind
 * and inserts it makes, and makes exactly those. */
int bench_fixed(const struct bench_options *o);

#endif
