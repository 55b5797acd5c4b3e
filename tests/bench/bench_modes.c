/* bench_modes.c - see bench_modes.h. */
#include "bench_modes.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch.h"

enum { NOW_S = 1000, RING = 1 << 17, WINDOW_MS = 1000 };

static void fill(void *cache, const struct workload *w, uint64_t n)
{
    struct batch *b = batch_create();
    for (uint64_t i = 0; i < n;) {
        batch_clear(b);
        while (i < n && batch_add(b, w, i))
            i++;
        batch_put(b, &engine_cache, cache, NOW_S);
    }
    batch_destroy(b);
}

/* ---- threads */

/* Questions and replies made before the clock starts, so that a thread does nothing but ask or
 * put. */
struct worker {
    pthread_t thread;
    struct cache *cache;
    struct workload_key *source;
    struct dns_reply *reply; /* of a writer */
    uint8_t *bytes;
    bool writes;
    int core;
    const atomic_bool *stop;
    uint64_t operations, ns;
};

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        abort();
    return p;
}

static void reader_init(struct worker *x, const struct bench_options *o, uint64_t seed)
{
    x->source = allocate(RING, sizeof *x->source);
    for (uint64_t k = 0; k < RING; k++)
        workload_key(&o->workload, workload_shuffle(k % o->entries, o->entries, seed),
                     &x->source[k]);
}

/* Names that were not there before: the first round evicts, later ones refresh and evict. */
static void writer_init(struct worker *x, const struct bench_options *o)
{
    x->writes = true;
    x->source = allocate(RING, sizeof *x->source);
    x->reply = allocate(RING, sizeof *x->reply);
    x->bytes = allocate(RING, 1024);
    uint8_t *msg = x->bytes;
    for (uint64_t k = 0; k < RING; k++) {
        struct workload_reply made;
        workload_key(&o->workload, o->entries + k, &x->source[k]);
        workload_reply(&o->workload, o->entries + k, &x->source[k], msg, &made);
        if (!reply_parse(&x->reply[k], msg, made.len))
            abort();
        msg += made.len;
    }
}

static void worker_deinit(struct worker *x)
{
    free(x->source);
    free(x->reply);
    free(x->bytes);
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* a hint: fine when refused */
}

static void *work(void *arg)
{
    struct worker *x = arg;
    static _Thread_local uint8_t out[DNS_MESSAGE_MAX];
    pin(x->core);
    uint64_t start = measure_cpu_ns(), n = 0;
    while (!atomic_load_explicit(x->stop, memory_order_relaxed)) {
        for (size_t k = 0; k < 64; k++, n++) {
            size_t at = n % RING;
            struct cache_key key;
            batch_key(&x->source[at], &key);
            if (x->writes)
                engine_cache.put(x->cache, &key, &x->reply[at], 300 + (n & 1023), 0, NOW_S);
            else
                engine_cache.get(x->cache, &key, out, NOW_S);
        }
    }
    x->ns = measure_cpu_ns() - start;
    x->operations = n;
    return NULL;
}

/* Runs n workers side by side for a window; rates a second of their own CPU time go to rate[],
 * so that whoever else wants a core does not count, though what he does to its cache does. */
static void run_workers(struct worker *const *x, size_t n, double *rate)
{
    atomic_bool stop = false;
    for (size_t k = 0; k < n; k++) {
        x[k]->stop = &stop;
        x[k]->core = (int)k;
        if (pthread_create(&x[k]->thread, NULL, work, x[k]) != 0)
            abort();
    }
    struct timespec window = {WINDOW_MS / 1000, WINDOW_MS % 1000 * 1000000L};
    nanosleep(&window, NULL);
    atomic_store(&stop, true);
    for (size_t k = 0; k < n; k++) {
        pthread_join(x[k]->thread, NULL);
        rate[k] = (double)x[k]->operations * 1e9 / (double)x[k]->ns;
    }
}

static void threads_run(struct cache *cache, struct worker *a, struct worker *b,
                        struct worker *w, double out[4])
{
    double rate[2];
    a->cache = b->cache = w->cache = cache;
    run_workers((struct worker *[]){a}, 1, rate);
    out[0] = rate[0];
    run_workers((struct worker *[]){a, b}, 2, rate);
    out[1] = rate[0] + rate[1];
    run_workers((struct worker *[]){a, w}, 2, rate);
    out[2] = rate[0];
    out[3] = rate[1];
}

static void threads_print(const char *run, const struct bench_options *o, const double v[4])
{
    printf("{\"bench\": \"threads\", \"run\": \"%s\", \"mix\": \"%s\", \"entries\": %" PRIu64
           ", \"seed\": %" PRIu64 ", \"one_reader_per_s\": %.0f, \"two_readers_per_s\": %.0f, "
           "\"scaling\": %.3f, \"reader_beside_writer_per_s\": %.0f, \"writer_per_s\": %.0f, "
           "\"reader_slowdown\": %.4f}\n",
           run, workload_mix_to_text(o->workload.mix), o->entries, o->workload.seed, v[0], v[1],
           v[1] / v[0], v[2], v[3], v[0] / v[2] - 1);
    fflush(stdout);
}

int bench_threads(const struct bench_options *o)
{
    enum { RUNS_MAX = 25 };
    struct cache *cache = cache_create(o->cache_bytes);
    if (cache == NULL)
        return 1;
    fill(cache, &o->workload, o->entries);
    struct worker a = {0}, b = {0}, w = {0};
    reader_init(&a, o, o->workload.seed + 1);
    reader_init(&b, o, o->workload.seed + 2);
    writer_init(&w, o);
    double values[4][RUNS_MAX];
    for (size_t run = 0; run < o->runs; run++) {
        double v[4];
        char label[24];
        threads_run(cache, &a, &b, &w, v);
        for (int k = 0; k < 4; k++)
            values[k][run] = v[k];
        snprintf(label, sizeof label, "%zu", run + 1);
        threads_print(label, o, v);
    }
    double median[4];
    for (int k = 0; k < 4; k++)
        median[k] = measure_median(values[k], o->runs);
    threads_print("median", o, median);
    worker_deinit(&a);
    worker_deinit(&b);
    worker_deinit(&w);
    cache_destroy(cache);
    return 0;
}

/* ---- snapshot */

/* Saves a full cache and loads it into a new one whose clock reads otherwise. */
static bool snapshot_run(const struct bench_options *o, const char *path, size_t run)
{
    enum { OTHER_S = 77, DOWN_S = 7, SAMPLE = 20000 };
    static uint8_t out[DNS_MESSAGE_MAX];
    struct cache *cache = cache_create(o->cache_bytes);
    if (cache == NULL)
        return false;
    fill(cache, &o->workload, o->entries);
    uint64_t start = measure_wall_ns();
    enum err saved = cache_save(cache, path, NOW_S, 1000000);
    uint64_t save_ns = measure_wall_ns() - start;
    cache_destroy(cache);
    cache = cache_create(o->cache_bytes);
    start = measure_wall_ns();
    enum err loaded = cache_restore(cache, path, OTHER_S, 1000000 + DOWN_S);
    uint64_t load_ns = measure_wall_ns() - start;
    size_t hits = 0, right = 0;
    for (uint64_t k = 0; k < SAMPLE; k++) {
        uint64_t i = workload_shuffle(k, o->entries, 3);
        struct workload_key source;
        struct cache_key key;
        struct cache_answer a;
        struct cache_get_options get = {.now_s = OTHER_S};
        workload_key(&o->workload, i, &source);
        batch_key(&source, &key);
        if (cache_get(cache, &key, &get, out, sizeof out, &a) != CACHE_HIT)
            continue;
        hits++;
        right += a.ttl_s == 300 + (i & 1023) - DOWN_S;
    }
    cache_destroy(cache);
    printf("{\"bench\": \"snapshot\", \"run\": \"%zu\", \"mix\": \"%s\", \"entries\": %" PRIu64
           ", \"save_ms\": %.0f, \"load_ms\": %.0f, \"hits\": %.5f, \"right_ttls\": %.5f}\n",
           run, workload_mix_to_text(o->workload.mix), o->entries, (double)save_ns / 1e6,
           (double)load_ns / 1e6, (double)hits / SAMPLE, (double)right / SAMPLE);
    fflush(stdout);
    return saved == ERR_OK && loaded == ERR_OK && right == hits;
}

int bench_snapshot(const struct bench_options *o)
{
    char path[64];
    bool ok = true;
    snprintf(path, sizeof path, "bench-%ld.snapshot", (long)getpid());
    for (size_t run = 0; run < o->runs && ok; run++)
        ok = snapshot_run(o, path, run + 1);
    unlink(path);
    return ok ? 0 : 1;
}

/* ---- fixed counts */

enum { FIXED_LOOKUPS = 20000, FIXED_HOT = 500 };

int bench_fixed(const struct bench_options *o)
{
    struct cache *cache = cache_create(o->cache_bytes);
    if (cache == NULL)
        return 1;
    static uint8_t out[DNS_MESSAGE_MAX];
    struct batch *b = batch_create();
    size_t hits = 0;
    fill(cache, &o->workload, o->entries);
    for (uint64_t k = 0; k < FIXED_LOOKUPS;) {
        batch_clear(b);
        for (; k < FIXED_LOOKUPS && b->n < BATCH_MAX; k++)
            batch_add_key(
                b, &o->workload,
                o->hot ? k % FIXED_HOT
                       : workload_shuffle(k % o->entries, o->entries, o->workload.seed + 5));
        batch_get(b, &engine_cache, cache, NOW_S + 10, out, &hits);
    }
    printf("{\"bench\": \"fixed\", \"mix\": \"%s\", \"inserts\": %" PRIu64
           ", \"lookups\": %d, \"hits\": %zu}\n",
           workload_mix_to_text(o->workload.mix), o->entries, FIXED_LOOKUPS, hits);
    batch_destroy(b);
    cache_destroy(cache);
    return 0;
}
