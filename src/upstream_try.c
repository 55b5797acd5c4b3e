/* upstream_try.c - one question to one upstream: its memory, and what is sent. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "upstream_set.h"

enum {
    TRIES_MAX = 20, /* an ask may make in all, free ones included */
};

static struct upstream_try *try_new(struct upstream_set *s)
{
    struct upstream_try *t = s->free_tries;
    if (t)
        s->free_tries = t->next;
    else
        t = malloc(sizeof *t);
    return t;
}

static void try_free(struct upstream_set *s, struct upstream_try *t)
{
    t->next = s->free_tries;
    s->free_tries = t;
}

void try_close(struct upstream_try *t)
{
    struct upstream_ask *a = t->ask;
    if (t->waiting)
        line_leave(t);
    struct upstream_try **p = &a->tries;
    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->upstream->outstanding--;
    try_free(a->set, t);
}

/* Nothing came over this connection since the try went out on it: it may be a hole. */
void try_doubt_connection(struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    bool stream = t->over_tcp || u->is->transport != UPSTREAM_UDP;
    if (!stream || u->reply_us >= t->sent_us || u->reset_us >= t->sent_us)
        return;
    struct upstream_context *c = t->over_tcp ? u->tcp : u->main;
    u->reset_us = now_us;
    if (c) /* else the upstream has moved, and its old connection ends */
        upstream_context_reset(c);
}

static void mix_case(struct upstream_set *s, uint8_t *name, size_t len)
{
    uint32_t bits = 0;
    for (size_t i = 0, n = 0; i < len; i++) {
        if ((uint8_t)((name[i] | 0x20) - 'a') >= 26)
            continue; /* length octets are below 64, so never letters */
        if (n++ % 32 == 0)
            bits = upstream_set_random(s);
        name[i] = (uint8_t)((name[i] & ~0x20) | (bits & 1 ? 0x20 : 0));
        bits >>= 1;
    }
}

static struct upstream_context *context_for(struct upstream *u, bool over_tcp)
{
    if (!over_tcp)
        return u->main;
    if (!u->tcp) {
        struct upstream_target target = {.addr = u->addr, .transport = UPSTREAM_TCP, .user = u};
        u->tcp = upstream_context_create(u->set->engine, &target);
    }
    return u->tcp;
}

static void fill_query(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream_query *q = &t->query;
    bool mix = !t->over_tcp && t->upstream->is->transport == UPSTREAM_UDP &&
               !t->upstream->mangles_case;
    memcpy(q->qname, a->qname, a->qname_len);
    q->qname_len = a->qname_len;
    q->qtype = a->qtype;
    q->dnssec_ok = a->dnssec_ok;
    q->checking_disabled = a->checking_disabled;
    q->subnet = a->has_subnet ? &a->subnet : NULL;
    q->plain = now_us < t->upstream->plain_until_us;
    q->exact_case = mix;
    if (mix)
        mix_case(a->set, q->qname, q->qname_len);
    /* Longer than the ask may have left: getdns ends a connection at the next write once more
     * queries have timed out on it than it has carried twice replies, though it be merely
     * slow. */
    q->timeout_ms = a->roster->config->upstream_deadline_ms;
}

bool try_send(struct upstream_ask *a, struct upstream *u, bool over_tcp, uint64_t now_us)
{
    struct upstream_context *c = context_for(u, over_tcp);
    struct upstream_try *t = c && a->sends < TRIES_MAX ? try_new(a->set) : NULL;
    if (!t)
        return false;
    memset((char *)t + sizeof t->query, 0, sizeof *t - sizeof t->query);
    t->ask = a;
    t->upstream = u;
    t->over_tcp = over_tcp;
    t->sent_us = now_us;
    t->late_us = now_us + upstream_health_rto_us(&u->health,
                                                 a->roster->config->upstream_timeout_ms * 1000);
    t->replies_before = atomic_load_explicit(&u->count[COUNT_REPLIES], memory_order_relaxed);
    t->next = a->tries;
    a->tries = t;
    u->outstanding++;
    if (a->sends++)
        metrics_count(M_UPSTREAM_RETRIES);
    metrics_count(M_UPSTREAM_ASKS);
    upstream_count(&u->count[COUNT_ASKS]);
    fill_query(a, t, now_us);
    if (u->one_by_one && !over_tcp && upstream_context_in_flight(c)) {
        t->query.ticket = NULL;
        t->query.done = false;
        line_wait(t);
    } else {
        upstream_context_send(c, &t->query);
    }
    return true;
}
