/* inflight.c - a chained hash table of open asks. */
#include "inflight.h"

#include <stdlib.h>
#include <string.h>

#include "dns/name.h"

enum { BUCKETS = 4096 };

struct inflight_table {
    struct inflight *bucket[BUCKETS];
    struct inflight *free_asks;
    struct waiter *free_waiters;
    size_t asks, waiters;
    size_t max_asks, max_waiters;
    struct hash_key key;
};

struct inflight_table *inflight_create(size_t max_asks, size_t max_waiters)
{
    struct inflight_table *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->max_asks = max_asks;
    t->max_waiters = max_waiters;
    t->key = hash_key_random();
    return t;
}

void inflight_destroy(struct inflight_table *t)
{
    if (!t)
        return;
    while (t->free_asks) {
        struct inflight *next = t->free_asks->next;

        free(t->free_asks);
        t->free_asks = next;
    }
    while (t->free_waiters) {
        struct waiter *next = t->free_waiters->next;

        free(t->free_waiters);
        t->free_waiters = next;
    }
    free(t);
}

/* Key octets: name in lower case, type, flags, and the subnet's family, length, octets. */
static uint32_t key_hash(const struct inflight_table *t, const struct cache_key *k)
{
    uint8_t b[DNS_NAME_MAX + 4 + 2 + 16];
    size_t n = k->qname_len;

    name_lower(b, k->qname, n);
    dns_write16(b + n, k->qtype);
    b[n + 2] = (uint8_t)(k->dnssec_ok << 1 | k->checking_disabled);
    n += 3;
    if (k->subnet) {
        b[n++] = k->subnet->family;
        b[n++] = k->subnet->source;
        memcpy(b + n, k->subnet->ip, 16);
        n += 16;
    }
    return (uint32_t)hash_sip(&t->key, b, n);
}

static bool key_equal(const struct inflight *a, const struct cache_key *k)
{
    return a->qtype == k->qtype && a->dnssec_ok == k->dnssec_ok &&
           a->checking_disabled == k->checking_disabled &&
           a->has_subnet == (k->subnet != NULL) &&
           (!k->subnet || ecs_equal(&a->subnet, k->subnet)) &&
           name_equal(a->qname, a->qname_len, k->qname, k->qname_len);
}

struct inflight *inflight_find(struct inflight_table *t, const struct cache_key *key)
{
    uint32_t hash = key_hash(t, key);

    for (struct inflight *a = t->bucket[hash % BUCKETS]; a; a = a->next)
        if (a->hash == hash && key_equal(a, key))
            return a;
    return NULL;
}

struct inflight *inflight_add(struct inflight_table *t, const struct cache_key *key)
{
    struct inflight *a = t->free_asks;

    if (t->asks >= t->max_asks)
        return NULL;
    if (a)
        t->free_asks = a->next;
    else if (!(a = malloc(sizeof *a)))
        return NULL;
    *a = (struct inflight){
        .table = t,
        .hash = key_hash(t, key),
        .qtype = key->qtype,
        .dnssec_ok = key->dnssec_ok,
        .checking_disabled = key->checking_disabled,
        .has_subnet = key->subnet != NULL,
        .qname_len = (uint8_t)key->qname_len,
    };
    if (key->subnet)
        a->subnet = *key->subnet;
    name_lower(a->qname, key->qname, key->qname_len);
    a->next = t->bucket[a->hash % BUCKETS];
    t->bucket[a->hash % BUCKETS] = a;
    t->asks++;
    return a;
}

void inflight_unlink(struct inflight *ask)
{
    struct inflight_table *t = ask->table;
    struct inflight **link = &t->bucket[ask->hash % BUCKETS];

    while (*link != ask)
        link = &(*link)->next;
    *link = ask->next;
}

void inflight_free(struct inflight *ask)
{
    struct inflight_table *t = ask->table;

    ask->next = t->free_asks;
    t->free_asks = ask;
    t->asks--;
}

struct cache_key inflight_key(const struct inflight *ask)
{
    return (struct cache_key){
        .qname = ask->qname,
        .qname_len = ask->qname_len,
        .qtype = ask->qtype,
        .dnssec_ok = ask->dnssec_ok,
        .checking_disabled = ask->checking_disabled,
        .subnet = ask->has_subnet ? &ask->subnet : NULL,
    };
}

struct inflight *inflight_any(struct inflight_table *t)
{
    for (size_t i = 0; t->asks > 0 && i < BUCKETS; i++)
        if (t->bucket[i])
            return t->bucket[i];
    return NULL;
}

size_t inflight_count(const struct inflight_table *t)
{
    return t->asks;
}

size_t waiter_count(const struct inflight_table *t)
{
    return t->waiters;
}

struct waiter *waiter_add(struct inflight *ask, struct query *q, const struct asker *asker)
{
    struct inflight_table *t = ask->table;
    struct waiter *w = t->free_waiters;

    if (t->waiters >= t->max_waiters)
        return NULL;
    if (w)
        t->free_waiters = w->next;
    else if (!(w = malloc(sizeof *w)))
        return NULL;
    *w = (struct waiter){.ask = ask, .query = q, .next = ask->first, .asker = *asker};
    if (ask->first)
        ask->first->prev = w;
    ask->first = w;
    t->waiters++;
    return w;
}

void waiter_remove(struct waiter *w)
{
    struct inflight_table *t = w->ask->table;

    if (w->prev)
        w->prev->next = w->next;
    else
        w->ask->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    w->next = t->free_waiters;
    t->free_waiters = w;
    t->waiters--;
}
