/* lru.c - an exact LRU over heap objects with a bound on memory, as Redis-like stores are.
 *
 * A hash table of entries; an entry is linked into its bucket and into the list of use; key and
 * packet are blocks of their own. What the allocator really takes is counted against the bound,
 * the least recently used goes. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct entry {
    struct entry *chain, *older, *newer;
    uint8_t *key;
    uint8_t *packet;
    uint32_t key_len, packet_len;
    uint32_t added_s, expires_s;
    uint64_t hash;
};

struct lru {
    struct entry **buckets;
    size_t n_buckets, n;
    struct entry *oldest, *newest;
    size_t bytes, max_bytes;
    uint64_t evictions;
};

static size_t block_size(void *p)
{
    return malloc_usable_size(p) + sizeof(size_t);
}

static void *allocate(struct lru *l, const void *data, size_t len)
{
    void *p = malloc(len);
    if (p == NULL)
        abort();
    if (data != NULL)
        memcpy(p, data, len);
    l->bytes += block_size(p);
    return p;
}

static void release(struct lru *l, void *p)
{
    l->bytes -= block_size(p);
    free(p);
}

static void unlink_use(struct lru *l, struct entry *e)
{
    *(e->older ? &e->older->newer : &l->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &l->newest) = e->older;
}

static void link_newest(struct lru *l, struct entry *e)
{
    e->older = l->newest;
    e->newer = NULL;
    *(l->newest ? &l->newest->newer : &l->oldest) = e;
    l->newest = e;
}

static void *create(size_t bytes, size_t entries)
{
    (void)entries;
    struct lru *l = calloc(1, sizeof *l);
    if (l == NULL)
        abort();
    l->n_buckets = 16;
    l->buckets = calloc(l->n_buckets, sizeof *l->buckets);
    l->max_bytes = bytes;
    l->bytes = block_size(l->buckets);
    return l;
}

static struct entry **find(struct lru *l, const uint8_t *key, size_t len, uint64_t hash)
{
    struct entry **at = &l->buckets[hash & (l->n_buckets - 1)];
    while (*at != NULL &&
           ((*at)->hash != hash || (*at)->key_len != len || memcmp((*at)->key, key, len) != 0))
        at = &(*at)->chain;
    return at;
}

static void discard(struct lru *l, struct entry *e)
{
    struct entry **at = &l->buckets[e->hash & (l->n_buckets - 1)];
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    unlink_use(l, e);
    release(l, e->key);
    release(l, e->packet);
    release(l, e);
    l->n--;
}

static void destroy(void *engine)
{
    struct lru *l = engine;
    while (l->oldest != NULL)
        discard(l, l->oldest);
    free(l->buckets);
    free(l);
}

static void grow(struct lru *l)
{
    size_t n = l->n_buckets * 2;
    struct entry **buckets = calloc(n, sizeof *buckets);
    if (buckets == NULL)
        abort();
    for (struct entry *e = l->oldest; e != NULL; e = e->newer) {
        e->chain = buckets[e->hash & (n - 1)];
        buckets[e->hash & (n - 1)] = e;
    }
    l->bytes += n * sizeof *buckets - l->n_buckets * sizeof *buckets;
    free(l->buckets);
    l->buckets = buckets;
    l->n_buckets = n;
}

static void put(void *engine, const struct cache_key *key, const struct dns_reply *reply,
                uint32_t ttl_s, uint8_t scope, uint32_t now_s)
{
    (void)scope;
    struct lru *l = engine;
    uint8_t bytes[PACKET_KEY_MAX];
    size_t len = packet_key(key, bytes);
    uint64_t hash = packet_hash(bytes, len);
    struct entry *e = *find(l, bytes, len, hash);
    if (e != NULL) {
        release(l, e->packet);
        unlink_use(l, e);
    } else {
        if (l->n >= l->n_buckets)
            grow(l);
        e = allocate(l, NULL, sizeof *e);
        e->key = allocate(l, bytes, len);
        e->key_len = (uint32_t)len;
        e->hash = hash;
        struct entry **bucket = &l->buckets[hash & (l->n_buckets - 1)];
        e->chain = *bucket;
        *bucket = e;
        l->n++;
    }
    e->packet = allocate(l, reply->msg, reply->len);
    e->packet_len = (uint32_t)reply->len;
    e->added_s = now_s;
    e->expires_s = now_s + ttl_s;
    link_newest(l, e);
    while (l->bytes > l->max_bytes && l->oldest != e) {
        discard(l, l->oldest);
        l->evictions++;
    }
}

static size_t get(void *engine, const struct cache_key *key, uint8_t *out, uint32_t now_s)
{
    struct lru *l = engine;
    uint8_t bytes[PACKET_KEY_MAX];
    size_t len = packet_key(key, bytes);
    struct entry *e = *find(l, bytes, len, packet_hash(bytes, len));
    if (e == NULL || now_s >= e->expires_s)
        return 0;
    unlink_use(l, e);
    link_newest(l, e);
    return packet_answer(out, e->packet, e->packet_len, key, now_s - e->added_s);
}

static uint64_t evictions(const void *engine)
{
    return ((const struct lru *)engine)->evictions;
}

const struct engine engine_lru = {"lru", create, destroy, put, get, evictions};
