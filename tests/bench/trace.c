/* trace.c - see trace.h. */
#include "trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        abort();
    return p;
}

/* TTLs as resolvers see them: cumulative percent. */
static uint32_t draw_ttl(struct random *r)
{
    static const struct {
        uint32_t percent, ttl_s;
    } table[] = {{10, 30},   {30, 60},   {60, 300},   {65, 600},
                 {70, 1800}, {90, 3600}, {100, 86400}};
    uint32_t p = random_below(r, 100);
    size_t k = 0;
    while (p >= table[k].percent)
        k++;
    return table[k].ttl_s;
}

static uint32_t draw_zipf(struct random *r, const double *sum, uint32_t n)
{
    double u = random_unit(r) * sum[n - 1];
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sum[middle] < u)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct trace *trace_create(const struct trace_options *o)
{
    struct trace *t = allocate(1, sizeof *t);
    struct random r;
    random_seed(&r, o->seed);
    t->o = *o;
    t->id = allocate(o->requests, sizeof *t->id);
    t->next = allocate(o->requests, sizeof *t->next);
    double *sum = allocate(o->names, sizeof *sum), total = 0;
    for (uint32_t k = 0; k < o->names; k++)
        sum[k] = total += pow(k + 1.0, -o->alpha);
    t->ids = o->names;
    for (uint32_t i = 0; i < o->requests; i++) {
        bool once = o->one_hit > 0 && random_unit(&r) < o->one_hit;
        t->id[i] = once ? t->ids++ : draw_zipf(&r, sum, o->names);
    }
    free(sum);
    t->ttl_s = allocate(t->ids, sizeof *t->ttl_s);
    for (uint32_t k = 0; k < t->ids; k++)
        t->ttl_s[k] = draw_ttl(&r);
    uint32_t *last = allocate(t->ids, sizeof *last);
    memset(last, 0xff, t->ids * sizeof *last);
    for (uint32_t i = o->requests; i-- > 0;) {
        t->next[i] = last[t->id[i]];
        last[t->id[i]] = i;
    }
    free(last);
    return t;
}

void trace_destroy(struct trace *t)
{
    if (t == NULL)
        return;
    free(t->id);
    free(t->next);
    free(t->ttl_s);
    free(t);
}

uint64_t policy_cache(const struct trace *t, enum workload_mix mix, size_t bytes,
                      uint64_t *entries)
{
    struct cache *cache = cache_create(bytes);
    uint8_t *out = malloc(DNS_MESSAGE_MAX), *msg = malloc(WORKLOAD_MESSAGE_MAX);
    if (cache == NULL || out == NULL || msg == NULL)
        abort();
    uint64_t hits = 0;
    for (uint32_t i = 0; i < t->o.requests; i++) {
        uint32_t id = t->id[i], now_s = trace_now_s(t, i);
        struct workload w = {.mix = mix, .seed = t->o.seed, .ttl_s = t->ttl_s[id]};
        struct workload_key source;
        workload_key(&w, id, &source);
        struct cache_key key = {
            .qname = source.qname, .qname_len = source.qname_len, .qtype = source.qtype};
        if (engine_cache.get(cache, &key, out, now_s) > 0) {
            hits += i >= trace_warm(t);
            continue;
        }
        struct workload_reply made;
        struct dns_reply reply;
        workload_reply(&w, id, &source, msg, &made);
        if (!reply_parse(&reply, msg, made.len))
            abort();
        engine_cache.put(cache, &key, &reply, made.ttl_s, 0, now_s);
    }
    struct cache_stats stats;
    cache_stats(cache, &stats);
    *entries = stats.entries;
    free(out);
    free(msg);
    cache_destroy(cache);
    return hits;
}
