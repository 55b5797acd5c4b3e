/* engine_cache.c - cache/cache.h behind engine.h. */
#include "engine.h"

static void *create(size_t bytes, size_t entries)
{
    (void)entries;
    return cache_create(bytes);
}

static void destroy(void *engine)
{
    cache_destroy(engine);
}

static void put(void *engine, const struct cache_key *key, const struct dns_reply *reply,
                uint32_t ttl_s, uint8_t scope, uint32_t now_s)
{
    struct cache_put_options options = {
        .now_s = now_s,
        .life_s = ttl_s,
        .ede = DNS_EDE_NONE,
        .scope = scope,
    };
    cache_put(engine, key, reply, &options);
}

static size_t get(void *engine, const struct cache_key *key, uint8_t *out, uint32_t now_s)
{
    struct cache_get_options options = {.now_s = now_s};
    struct cache_answer answer;
    enum cache_outcome outcome =
        cache_get(engine, key, &options, out, DNS_MESSAGE_MAX, &answer);
    return outcome == CACHE_HIT ? answer.len : 0;
}

static uint64_t evictions(const void *engine)
{
    struct cache_stats stats;
    cache_stats(engine, &stats);
    return stats.evictions + stats.evicted_expired;
}

const struct engine engine_cache = {"cache", create, destroy, put, get, evictions};
