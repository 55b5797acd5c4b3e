/* limits.c - counts of connections over all workers. */
#include "tls/limits.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { ROWS = 2, ROW_SIZE = 1 << 16 };

struct conn_limits {
    atomic_uint total, starting;
    atomic_size_t buffered;
    struct hash_key key;
    atomic_uint client[ROWS][ROW_SIZE];
};

struct conn_limits *conn_limits_create(void)
{
    struct conn_limits *l = calloc(1, sizeof *l);
    if (l)
        l->key = hash_key_random();
    return l;
}

void conn_limits_destroy(struct conn_limits *l)
{
    free(l);
}

static bool take(atomic_uint *count, uint32_t max)
{
    if (atomic_fetch_add_explicit(count, 1, memory_order_relaxed) < max)
        return true;
    atomic_fetch_sub_explicit(count, 1, memory_order_relaxed);
    return false;
}

bool conn_limits_take(struct conn_limits *l, uint32_t max)
{
    return take(&l->total, max);
}

void conn_limits_drop(struct conn_limits *l)
{
    atomic_fetch_sub_explicit(&l->total, 1, memory_order_relaxed);
}

bool conn_limits_take_start(struct conn_limits *l, uint32_t max)
{
    return take(&l->starting, max);
}

void conn_limits_drop_start(struct conn_limits *l)
{
    atomic_fetch_sub_explicit(&l->starting, 1, memory_order_relaxed);
}

/* Both counters of a client: the two halves of one hash over what counts as it. */
static void find(struct conn_limits *l, const struct addr *client, atomic_uint *counter[ROWS])
{
    uint8_t id[8] = {client->family}; /* family, then an IPv4 address or 56 bits */
    memcpy(id + 1, client->ip, client->family == ADDR_V4 ? 4 : 7);
    uint64_t h = hash_sip(&l->key, id, sizeof id);
    counter[0] = &l->client[0][h % ROW_SIZE];
    counter[1] = &l->client[1][(h >> 32) % ROW_SIZE];
}

bool conn_limits_take_client(struct conn_limits *l, const struct addr *client, uint32_t max)
{
    atomic_uint *counter[ROWS];
    find(l, client, counter);
    unsigned a = atomic_fetch_add_explicit(counter[0], 1, memory_order_relaxed);
    unsigned b = atomic_fetch_add_explicit(counter[1], 1, memory_order_relaxed);
    if (a < max || b < max)
        return true;
    conn_limits_drop_client(l, client);
    return false;
}

void conn_limits_drop_client(struct conn_limits *l, const struct addr *client)
{
    atomic_uint *counter[ROWS];
    find(l, client, counter);
    for (size_t i = 0; i < ROWS; i++)
        atomic_fetch_sub_explicit(counter[i], 1, memory_order_relaxed);
}

bool conn_limits_buffered(struct conn_limits *l, size_t before, size_t now)
{
    size_t sum = atomic_fetch_add_explicit(&l->buffered, now - before, memory_order_relaxed);
    return now <= before || sum + (now - before) <= LIMIT_BUFFERED_BYTES;
}
