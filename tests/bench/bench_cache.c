/* bench_cache.c - size and speed of the cache beside a map of packets and an LRU.
 *
 * Each engine runs in a child process of its own, one after the other and run by run, so that
 * resident memory is the engine's alone and noise of the machine falls on all of them. A run:
 *
 *   fill    entries 0..N-1 go in                        insert, loss, bytes an entry
 *   random  all N are asked for in random order         lookup_random
 *   hot     1000 of them, over and over                 lookup_hot
 *   miss    names that were never put                   miss
 *   evict   N/2 more to fill up, N/2 more timed         insert while evicting
 *   full    what is still there of all that was put     bytes an entry when full
 *
 * entries_at_loss: how many there were when 0.15 % of what had been put was evicted, and
 * ratio_at_loss the resident octets for them: the size a cache of any --cache-bytes needs for
 * so small a loss.
 *
 * Answers of the random pass are compared, record by record, with what was put (a sample). One
 * JSON line a run, then one with the medians. Lookup times are medians of batches of 256;
 * insert times are CPU time over all batches, page faults included; p10 is what a tenth of the
 * batches stayed under, for when the machine is not quiet. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "batch.h"
#include "bench_modes.h"
#include "unit/plain.h"

/* What a run measures of one engine. */
#define FIGURES(X)                                                                             \
    X(cap_bytes)                                                                               \
    X(resident_filled)                                                                         \
    X(entries_filled)                                                                          \
    X(bytes_per_entry)                                                                         \
    X(ratio)                                                                                   \
    X(ratio_to_cap)                                                                            \
    X(loss)                                                                                    \
    X(insert_ns)                                                                               \
    X(insert_p10_ns)                                                                           \
    X(inserts_per_s)                                                                           \
    X(lookup_random_ns)                                                                        \
    X(lookup_random_p10_ns)                                                                    \
    X(lookup_hot_ns)                                                                           \
    X(lookup_hot_p10_ns)                                                                       \
    X(miss_ns)                                                                                 \
    X(miss_p10_ns)                                                                             \
    X(evicting_insert_ns)                                                                      \
    X(evicting_insert_p10_ns)                                                                  \
    X(evicting_inserts_per_s)                                                                  \
    X(resident_full)                                                                           \
    X(entries_full)                                                                            \
    X(entries_at_loss)                                                                         \
    X(ratio_at_loss)                                                                           \
    X(raw_bytes_full)                                                                          \
    X(bytes_per_entry_full)                                                                    \
    X(ratio_full)                                                                              \
    X(ratio_to_cap_full)                                                                       \
    X(checked)                                                                                 \
    X(wrong)

enum figure {
#define FIGURE(name) F_##name,
    FIGURES(FIGURE)
#undef FIGURE
        FIGURE_COUNT
};

static const char *const figure_names[] = {
#define FIGURE(name) #name,
    FIGURES(FIGURE)
#undef FIGURE
};

enum { RUNS_MAX = 25, ENGINES = 3, HOT = 1000, PUT_S = 1000, GET_S = 1010 };

static const struct engine *const engines[ENGINES] = {&engine_cache, &engine_packetmap,
                                                      &engine_lru};

/* Written by the children. */
struct shared {
    double value[ENGINES][FIGURE_COUNT][RUNS_MAX];
};

struct run {
    const struct bench_options *o;
    const struct engine *e;
    void *engine;
    struct batch *batch;
    struct measure_batches *times;
    uint8_t *out;
    double raw; /* an entry */
    uint64_t watch_next;
    double f[FIGURE_COUNT];
};

/* Remembers how many entries there were when 0.15 % of them had been evicted. */
static void watch_loss(struct run *r, uint64_t entries)
{
    if (entries < r->watch_next || r->f[F_entries_at_loss] > 0)
        return;
    r->watch_next = entries + r->o->entries / 200;
    uint64_t lost = r->e->evictions(r->engine);
    if ((double)lost >= 0.0015 * (double)entries)
        r->f[F_entries_at_loss] = (double)(entries - lost);
}

/* Puts entries from..to-1; returns CPU nanoseconds an entry. */
static double put_range(struct run *r, uint64_t from, uint64_t to, enum figure p10)
{
    uint64_t cpu = 0;
    for (uint64_t i = from; i < to;) {
        watch_loss(r, i);
        batch_clear(r->batch);
        while (i < to && batch_add(r->batch, &r->o->workload, i))
            i++;
        uint64_t start = measure_cpu_ns();
        uint64_t wall = batch_put(r->batch, r->e, r->engine, PUT_S);
        cpu += measure_cpu_ns() - start;
        measure_batch(r->times, wall, r->batch->n);
    }
    measure_batches_median(r->times, &r->f[p10]);
    return (double)cpu / (double)(to - from);
}

/* Asks for n entries in the order that number() gives; returns hits. */
static size_t get_range(struct run *r, uint64_t n,
                        uint64_t (*number)(const struct run *r, uint64_t k), enum figure median,
                        enum figure p10)
{
    size_t hits = 0;
    for (uint64_t k = 0; k < n;) {
        batch_clear(r->batch);
        while (k < n && batch_add_key(r->batch, &r->o->workload, number(r, k)))
            k++;
        measure_batch(r->times, batch_get(r->batch, r->e, r->engine, GET_S, r->out, &hits),
                      r->batch->n);
    }
    r->f[median] = measure_batches_median(r->times, &r->f[p10]);
    return hits;
}

static uint64_t number_random(const struct run *r, uint64_t k)
{
    return workload_shuffle(k, r->o->entries, r->o->workload.seed + 5);
}

static uint64_t number_absent(const struct run *r, uint64_t k)
{
    (void)r;
    return WORKLOAD_ABSENT + k;
}

/* The last entries put: no engine has evicted them. Their questions stay in memory, so nothing
 * but the lookup is timed. */
static double get_hot(struct run *r)
{
    static struct workload_key source[HOT];
    static struct cache_key key[HOT];
    size_t n = 0;
    for (uint64_t i = r->o->entries; i-- > 0 && n < HOT;) {
        workload_key(&r->o->workload, i, &source[n]);
        batch_key(&source[n], &key[n]);
        n += r->e->get(r->engine, &key[n], r->out, GET_S) > 0;
    }
    if (n == 0)
        return 0;
    uint64_t step = 0;
    for (size_t b = 0; b < 8000; b++) {
        uint64_t start = measure_wall_ns();
        for (size_t k = 0; k < 256; k++, step++)
            r->e->get(r->engine, &key[(step * 2654435761u >> 7) % n], r->out, GET_S);
        measure_batch(r->times, measure_wall_ns() - start, 256);
    }
    return measure_batches_median(r->times, &r->f[F_lookup_hot_p10_ns]);
}

/* Compares a sample of answers with what was put. */
static void check_answers(struct run *r)
{
    uint64_t step = r->o->entries / 20000 + 1;
    for (uint64_t i = 0; i < r->o->entries; i += step) {
        batch_clear(r->batch);
        batch_add(r->batch, &r->o->workload, i);
        size_t len = r->e->get(r->engine, &r->batch->key[0], r->out, GET_S);
        if (len == 0)
            continue;
        struct plain_message want, have;
        const char *what = "does not parse";
        if (!plain_parse(&want, r->batch->reply[0].msg, r->batch->reply[0].len))
            abort();
        if (plain_parse(&have, r->out, len)) {
            what = plain_difference(&want, &have, PLAIN_AGED(GET_S - PUT_S));
            plain_free(&have);
        }
        plain_free(&want);
        r->f[F_checked]++;
        if (what != NULL && r->f[F_wrong]++ < 5)
            fprintf(stderr, "%s: wrong answer for entry %" PRIu64 ": %s\n", r->e->name, i,
                    what);
    }
}

static void measure_filled(struct run *r, size_t before)
{
    double n = (double)r->o->entries;
    r->f[F_resident_filled] = (double)(measure_resident() - before);
    r->f[F_entries_filled] = (double)get_range(r, r->o->entries, number_random,
                                               F_lookup_random_ns, F_lookup_random_p10_ns);
    r->f[F_loss] = 1 - r->f[F_entries_filled] / n;
    r->f[F_bytes_per_entry] = r->f[F_resident_filled] / r->f[F_entries_filled];
    r->f[F_ratio] = r->f[F_bytes_per_entry] / r->raw;
    r->f[F_ratio_to_cap] = (double)r->o->cache_bytes / r->f[F_entries_filled] / r->raw;
}

/* Evicting may favour entries of some size, so raw octets are summed over those that are there.
 */
static void measure_full(struct run *r, size_t before)
{
    double raw = 0, n = 0;
    r->f[F_resident_full] = (double)(measure_resident() - before);
    for (uint64_t k = 0; k < 2 * r->o->entries; k++) {
        uint64_t i = workload_shuffle(k, 2 * r->o->entries, r->o->workload.seed + 6);
        batch_clear(r->batch);
        batch_add_key(r->batch, &r->o->workload, i);
        if (r->e->get(r->engine, &r->batch->key[0], r->out, GET_S) == 0)
            continue;
        struct workload_reply made;
        workload_reply(&r->o->workload, i, &r->batch->source[0], r->batch->bytes, &made);
        raw += (double)made.raw;
        n++;
    }
    r->f[F_entries_full] = n;
    r->f[F_raw_bytes_full] = raw / n;
    r->f[F_bytes_per_entry_full] = r->f[F_resident_full] / n;
    r->f[F_ratio_full] = r->f[F_resident_full] / raw;
    r->f[F_ratio_to_cap_full] = (double)r->o->cache_bytes / raw;
    if (r->f[F_entries_at_loss] > 0)
        r->f[F_ratio_at_loss] = r->f[F_resident_full] / r->f[F_entries_at_loss] / r->raw;
}

static void run_engine(struct run *r)
{
    uint64_t n = r->o->entries;
    r->batch = batch_create();
    r->out = malloc(DNS_MESSAGE_MAX);
    r->times = malloc(sizeof *r->times);
    if (r->out == NULL || r->times == NULL)
        abort();
    memset(r->out, 0, DNS_MESSAGE_MAX);
    memset(r->times, 0, sizeof *r->times);

    size_t before = measure_resident();
    r->engine = r->e->create(r->o->cache_bytes, n);
    if (r->engine == NULL) {
        fprintf(stderr, "%s: cannot be created with %zu bytes\n", r->e->name,
                r->o->cache_bytes);
        exit(1);
    }
    r->f[F_cap_bytes] = (double)r->o->cache_bytes;
    r->f[F_insert_ns] = put_range(r, 0, n, F_insert_p10_ns);
    r->f[F_inserts_per_s] = 1e9 / r->f[F_insert_ns];
    measure_filled(r, before);
    r->f[F_lookup_hot_ns] = get_hot(r);
    get_range(r, n / 2, number_absent, F_miss_ns, F_miss_p10_ns);
    check_answers(r);
    put_range(r, n, n + n / 2, F_evicting_insert_p10_ns);
    r->f[F_evicting_insert_ns] = put_range(r, n + n / 2, 2 * n, F_evicting_insert_p10_ns);
    r->f[F_evicting_inserts_per_s] = 1e9 / r->f[F_evicting_insert_ns];
    measure_full(r, before);

    r->e->destroy(r->engine);
}

static bool run_child(const struct bench_options *o, double raw, int engine, size_t run,
                      struct shared *shared)
{
    pid_t pid = fork();
    if (pid == 0) {
        static struct run r;
        r.o = o;
        r.e = engines[engine];
        r.raw = raw;
        run_engine(&r);
        for (int f = 0; f < FIGURE_COUNT; f++)
            shared->value[engine][f][run] = r.f[f];
        _exit(r.f[F_wrong] > 0);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void print_figures(const double *value, size_t stride)
{
    for (int f = 0; f < FIGURE_COUNT; f++) {
        double v = value[(size_t)f * stride];
        printf("%s\"%s\": %.*f", f ? ", " : "", figure_names[f],
               v < 10    ? 4
               : v < 1e4 ? 1
                         : 0,
               v);
    }
}

static void print_line(const struct bench_options *o, double raw, const char *label,
                       const double *value[ENGINES], size_t stride)
{
    printf("{\"bench\": \"cache\", \"run\": \"%s\", \"mix\": \"%s\", \"entries\": %" PRIu64
           ", \"seed\": %" PRIu64 ", \"raw_bytes\": %.2f",
           label, workload_mix_to_text(o->workload.mix), o->entries, o->workload.seed, raw);
    for (int e = 0; e < ENGINES; e++) {
        if (o->only != NULL && strcmp(o->only, engines[e]->name) != 0)
            continue;
        printf(", \"%s\": {", engines[e]->name);
        print_figures(value[e], stride);
        printf("}");
    }
    puts("}");
    fflush(stdout);
}

static int run_all(const struct bench_options *o, double raw)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    bool ok = true;
    const double *value[ENGINES];
    for (size_t run = 0; run < o->runs; run++) {
        for (int e = 0; e < ENGINES; e++) {
            if (o->only == NULL || strcmp(o->only, engines[e]->name) == 0)
                ok = run_child(o, raw, e, run, shared) && ok;
            value[e] = &shared->value[e][0][run];
        }
        char label[24];
        snprintf(label, sizeof label, "%zu", run + 1);
        print_line(o, raw, label, value, RUNS_MAX);
    }
    static double median[ENGINES][FIGURE_COUNT];
    for (int e = 0; e < ENGINES; e++) {
        for (int f = 0; f < FIGURE_COUNT; f++)
            median[e][f] = measure_median(shared->value[e][f], o->runs);
        value[e] = median[e];
    }
    print_line(o, raw, "median", value, 1);
    return ok ? 0 : 1;
}

/* Mean raw octets of an entry, from a sample for large counts. */
static double mean_raw(const struct bench_options *o)
{
    uint64_t n = o->entries < 200000 ? o->entries : 200000, raw = 0;
    struct batch *b = batch_create();
    for (uint64_t i = 0; i < n;) {
        batch_clear(b);
        while (i < n && batch_add(b, &o->workload, i))
            i++;
        raw += b->raw;
    }
    batch_destroy(b);
    return (double)raw / (double)n;
}

static void usage(FILE *f)
{
    fputs(
        "usage: bench_cache [--entries N] [--cache-bytes N] [--ratio R] [--mix MIX] [--seed "
        "N]\n"
        "                   [--runs N] [--only ENGINE] [--threads | --snapshot | --fixed "
        "[--hot]]\n"
        "  --mix      w, w-realistic, names, ecs, negative, large, lone-a\n"
        "  --ratio    cache bytes as a multiple of raw bytes, when --cache-bytes is not given\n"
        "  --only     cache, packetmap or lru\n"
        "  --threads  two readers beside one, a reader beside a writer\n"
        "  --fixed    fixed counts of lookups and inserts, for instruction counts; with --hot\n"
        "             the lookups are of a few names over and over\n",
        f);
}

static bool parse_options(struct bench_options *o, int argc, char **argv)
{
    static const struct option table[] = {
        {"entries", required_argument, NULL, 'n'},
        {"cache-bytes", required_argument, NULL, 'b'},
        {"ratio", required_argument, NULL, 'r'},
        {"mix", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'k'},
        {"only", required_argument, NULL, 'o'},
        {"threads", no_argument, NULL, 't'},
        {"fixed", no_argument, NULL, 'f'},
        {"hot", no_argument, NULL, 'H'},
        {"snapshot", no_argument, NULL, 'p'},

        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (c) {
        case 'n':
            o->entries = strtoull(optarg, NULL, 0);
            break;
        case 'b':
            o->cache_bytes = strtoull(optarg, NULL, 0);
            break;
        case 'r':
            o->ratio = strtod(optarg, NULL);
            break;
        case 'm':
            if (!workload_mix_from_text(&o->workload.mix, optarg))
                return false;
            break;
        case 's':
            o->workload.seed = strtoull(optarg, NULL, 0);
            break;
        case 'k':
            o->runs = strtoul(optarg, NULL, 0);
            break;
        case 'o':
            o->only = optarg;
            break;
        case 't':
            o->threads = true;
            break;
        case 'p':
            o->snapshot = true;
            break;
        case 'f':
            o->fixed = true;
            break;
        case 'H':
            o->hot = true;
            break;
        default:
            return false;
        }
    }
    return optind == argc && o->entries >= 2000 && o->runs >= 1 && o->runs <= RUNS_MAX;
}

int main(int argc, char **argv)
{
    /* The arena's large-page part is 1/16 and stays untouched on W: 1.16 / (15/16) = 1.237. */
    struct bench_options o = {.entries = 1000000,
                              .runs = 1,
                              .ratio = 1.237,
                              .workload = {.mix = WORKLOAD_W, .seed = 1}};
    if (!parse_options(&o, argc, argv)) {
        usage(stderr);
        return 2;
    }
    double raw = mean_raw(&o);
    if (o.cache_bytes == 0)
        o.cache_bytes = (size_t)((double)o.entries * raw * o.ratio);
    if (o.fixed && o.cache_bytes < CACHE_MIN_BYTES)
        o.cache_bytes = CACHE_MIN_BYTES;
    if (o.threads)
        return bench_threads(&o);
    if (o.snapshot)
        return bench_snapshot(&o);
    if (o.fixed)
        return bench_fixed(&o);
    return run_all(&o, raw);
}
