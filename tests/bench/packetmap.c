/* packetmap.c - a map of whole packets, as most resolvers and proxies keep them.
 *
 * Memory is laid out as std::unordered_map<std::string, packet> lays it out in the usual 64-bit
 * library: an array of bucket heads, at most one entry a bucket on average; a node from the
 * heap with the link, the key's string, the value and the hash; strings over 15 octets in a
 * block of their own. Bounded by the number of entries: a full map drops what its cursor points
 * at. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct string {
    uint8_t *data; /* `small`, or a block of len + 1 */
    size_t len;
    uint8_t small[16];
};

struct node {
    struct node *next;
    struct string key;
    struct string packet;
    uint32_t added_s, expires_s;
    uint64_t hash;
};

struct packetmap {
    struct node **buckets;
    size_t n_buckets; /* a power of two */
    size_t n, max;
    size_t cursor;
    uint64_t evictions;
};

static void string_set(struct string *s, const uint8_t *data, size_t len)
{
    s->data = len < sizeof s->small ? s->small : malloc(len + 1);
    if (s->data == NULL)
        abort();
    memcpy(s->data, data, len);
    s->data[len] = 0;
    s->len = len;
}

static void string_clear(struct string *s)
{
    if (s->data != s->small)
        free(s->data);
}

static void node_free(struct node *node)
{
    string_clear(&node->key);
    string_clear(&node->packet);
    free(node);
}

static void *create(size_t bytes, size_t entries)
{
    (void)bytes;
    struct packetmap *m = calloc(1, sizeof *m);
    if (m == NULL)
        abort();
    m->n_buckets = 16;
    m->buckets = calloc(m->n_buckets, sizeof *m->buckets);
    m->max = entries;
    return m;
}

static void destroy(void *engine)
{
    struct packetmap *m = engine;
    for (size_t b = 0; b < m->n_buckets; b++) {
        for (struct node *node = m->buckets[b], *next; node != NULL; node = next) {
            next = node->next;
            node_free(node);
        }
    }
    free(m->buckets);
    free(m);
}

static struct node **find(struct packetmap *m, const uint8_t *key, size_t len, uint64_t hash)
{
    struct node **at = &m->buckets[hash & (m->n_buckets - 1)];
    while (*at != NULL && ((*at)->hash != hash || (*at)->key.len != len ||
                           memcmp((*at)->key.data, key, len) != 0))
        at = &(*at)->next;
    return at;
}

static void grow(struct packetmap *m)
{
    size_t n = m->n_buckets * 2;
    struct node **buckets = calloc(n, sizeof *buckets);
    if (buckets == NULL)
        abort();
    for (size_t b = 0; b < m->n_buckets; b++) {
        for (struct node *node = m->buckets[b], *next; node != NULL; node = next) {
            next = node->next;
            node->next = buckets[node->hash & (n - 1)];
            buckets[node->hash & (n - 1)] = node;
        }
    }
    free(m->buckets);
    m->buckets = buckets;
    m->n_buckets = n;
}

static void evict(struct packetmap *m)
{
    while (m->buckets[m->cursor] == NULL)
        m->cursor = (m->cursor + 1) & (m->n_buckets - 1);
    struct node *node = m->buckets[m->cursor];
    m->buckets[m->cursor] = node->next;
    m->cursor = (m->cursor + 1) & (m->n_buckets - 1);
    node_free(node);
    m->n--;
    m->evictions++;
}

static void put(void *engine, const struct cache_key *key, const struct dns_reply *reply,
                uint32_t ttl_s, uint8_t scope, uint32_t now_s)
{
    (void)scope;
    struct packetmap *m = engine;
    uint8_t bytes[PACKET_KEY_MAX];
    size_t len = packet_key(key, bytes);
    uint64_t hash = packet_hash(bytes, len);
    struct node **at = find(m, bytes, len, hash), *node = *at;
    if (node != NULL) {
        string_clear(&node->packet);
    } else {
        if (m->n >= m->max)
            evict(m);
        if (m->n >= m->n_buckets)
            grow(m);
        node = malloc(sizeof *node);
        if (node == NULL)
            abort();
        string_set(&node->key, bytes, len);
        node->hash = hash;
        at = &m->buckets[hash & (m->n_buckets - 1)];
        node->next = *at;
        *at = node;
        m->n++;
    }
    string_set(&node->packet, reply->msg, reply->len);
    node->added_s = now_s;
    node->expires_s = now_s + ttl_s;
}

static size_t get(void *engine, const struct cache_key *key, uint8_t *out, uint32_t now_s)
{
    struct packetmap *m = engine;
    uint8_t bytes[PACKET_KEY_MAX];
    size_t len = packet_key(key, bytes);
    const struct node *node = *find(m, bytes, len, packet_hash(bytes, len));
    if (node == NULL || now_s >= node->expires_s)
        return 0;
    return packet_answer(out, node->packet.data, node->packet.len, key, now_s - node->added_s);
}

static uint64_t evictions(const void *engine)
{
    return ((const struct packetmap *)engine)->evictions;
}

const struct engine engine_packetmap = {"packetmap", create, destroy, put, get, evictions};
