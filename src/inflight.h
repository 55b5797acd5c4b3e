/* inflight.h - questions asked upstream and not yet answered, and who waits for each.
 *
 * Equal questions (name without case, type, DO, CD, subnet) share one ask. Owner: the proxy of
 * a worker. Memory: entries and waiters come from freelists and are capped. */
#ifndef PITH_INFLIGHT_H
#define PITH_INFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "asker.h"
#include "cache/cache.h"
#include "core/hash.h"

struct inflight;
struct inflight_table;
struct upstream_ask;

struct waiter {
    struct waiter *next, *prev;             /* of the same ask, or in the freelist */
    struct waiter *stale_next, *stale_prev; /* queue of those who get a stale answer soon */
    struct inflight *ask;
    struct query *query;
    uint64_t stale_at_ms; /* 0: not in the queue */
    struct asker asker;
};

struct inflight {
    struct inflight *next; /* in the bucket */
    struct inflight_table *table;
    struct waiter *first;
    struct upstream_ask *upstream; /* NULL until asked */
    void *owner;                   /* the proxy */
    uint32_t hash;
    bool refresh; /* asked for the cache's sake: a failure is told to the cache */
    uint16_t qtype;
    bool dnssec_ok, checking_disabled, has_subnet;
    struct ecs subnet;
    uint8_t qname_len;
    uint8_t qname[DNS_NAME_MAX]; /* lower case */
};

struct inflight_table *inflight_create(size_t max_asks, size_t max_waiters);
/* All entries must have been removed. */
void inflight_destroy(struct inflight_table *t);

/* The ask for this key, or NULL. */
struct inflight *inflight_find(struct inflight_table *t, const struct cache_key *key);
/* A new entry for a key that has none; NULL at the cap. */
struct inflight *inflight_add(struct inflight_table *t, const struct cache_key *key);
/* Takes the entry out of the table, so that nobody joins it any more; it stays valid with its
 * waiters. */
void inflight_unlink(struct inflight *ask);
/* Frees an unlinked entry whose waiters were removed. */
void inflight_free(struct inflight *ask);
/* The key of an entry, pointing into it. */
struct cache_key inflight_key(const struct inflight *ask);
/* Some entry, NULL when there is none: for taking the table down. */
struct inflight *inflight_any(struct inflight_table *t);
size_t inflight_count(const struct inflight_table *t);

/* A copy of the asker waits at this ask; NULL at the cap. */
struct waiter *waiter_add(struct inflight *ask, struct query *q, const struct asker *asker);
void waiter_remove(struct waiter *w);
size_t waiter_count(const struct inflight_table *t);

#endif
