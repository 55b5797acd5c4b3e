/* upstream_outcome.c - what came of a try: an answer, a reason to ask on, or the end. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "upstream_set.h"

enum {
    FREE_RETRIES_MAX = 8, /* an ask may make because connections close */
    PLAIN_US = 600000000, /* so long a server is believed not to know EDNS */
};

static void count_reply(struct upstream *u, uint16_t rcode, uint64_t rtt_us)
{
    size_t bucket = 0;
    for (uint64_t us = 1000; bucket < UPSTREAM_BUCKETS - 1 && rtt_us > us; us *= 2)
        bucket++;
    upstream_count(&u->count[COUNT_REPLIES]);
    upstream_count(&u->rcode[rcode < UPSTREAM_RCODES - 1 ? rcode : UPSTREAM_RCODES - 1]);
    upstream_count(&u->histogram[bucket]);
}

static bool is_failure(uint16_t rcode)
{
    return rcode == DNS_RCODE_SERVFAIL || rcode == DNS_RCODE_REFUSED ||
           rcode == DNS_RCODE_FORMERR || rcode == DNS_RCODE_NOTIMP ||
           rcode == DNS_RCODE_BADVERS;
}

/* Keeps the answer; the tries of the same upstream are of no more use. */
static void save(struct upstream_ask *a, struct upstream_try *t)
{
    struct upstream *u = t->upstream;
    size_t len = t->query.reply.len;
    if (!a->saved && (a->saved = malloc(len))) {
        memcpy(a->saved, t->query.octets, len);
        a->saved_len = len;
        a->saved_trust_ad = u->is->trust_ad;
    }
    for (struct upstream_try *next, *x = a->tries; x; x = next) {
        next = x->next;
        if (x->upstream == u) {
            upstream_query_abandon(&x->query);
            try_close(x);
        }
    }
}

/* False: the ask has ended. */
static bool on_failure_answer(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    save(a, t);
    if (!a->saved)
        return ask_fail(a);
    if (!a->tries && !a->failed_over) {
        a->failed_over = true;
        (void)ask_send_next(a, now_us);
    }
    a->resend_us = 0;
    return a->tries ? true : ask_fail(a);
}

/* A reply says that the upstream is well. Where there was a loop, only an answer to the probe
 * does: somebody else who cuts the loop says SERVFAIL or REFUSED. */
static bool counts(const struct upstream_ask *a, const struct upstream *u, uint16_t rcode)
{
    return !u->looping || (a->kind == ASK_PROBE && !is_failure(rcode));
}

static bool on_reply(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    struct upstream_query *q = &t->query;
    bool stream = t->over_tcp || u->is->transport != UPSTREAM_UDP;
    uint64_t rtt_us = now_us > t->sent_us ? now_us - t->sent_us : 1;
    if (q->other_case && t->over_tcp && u->is->transport == UPSTREAM_UDP)
        u->mangles_case = true; /* a stream cannot be spoofed: the server is like that */
    u->reply_us = now_us;
    if (stream && !t->over_tcp)
        line_carried(u, q);
    count_reply(u, q->reply.rcode, rtt_us);
    if (counts(a, u, q->reply.rcode))
        watch_good(u, now_us, t->over_tcp || (stream && q->fresh) ? 0 : (uint32_t)rtt_us);
    ask_restore_case(a, q->octets);
    if (q->plain && q->reply.rcode == DNS_RCODE_FORMERR)
        u->plain_until_us = 0; /* it was not EDNS */
    if (ask_persists(a) && is_failure(q->reply.rcode))
        return on_failure_answer(a, t, now_us);
    for (const struct upstream_try *x = a->tries; x; x = x->next)
        if (x->upstream != u)
            upstream_health_at_least(&x->upstream->health, (uint32_t)(now_us - x->sent_us));
    struct upstream_answer answer = {
        .reply = &q->reply,
        .trust_ad = u->is->trust_ad,
        .ede = DNS_EDE_NONE,
        .ede_text = "",
    };
    ask_deliver(a, &answer);
    return false;
}

static bool on_truncated(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    u->reply_us = now_us;
    upstream_count(&u->count[COUNT_TRUNCATED]);
    metrics_count(M_UPSTREAM_TRUNCATED);
    if (counts(a, u, DNS_RCODE_NOERROR))
        watch_good(u, now_us, (uint32_t)(now_us - t->sent_us) + 1);
    a->resend_us = 0;
    (void)try_send(a, u, true, now_us);
    try_close(t);
    return ask_go_on(a, now_us);
}

/* Like that from now on; the answer tells whether it was EDNS. */
static bool on_no_edns(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    u->reply_us = now_us;
    u->plain_until_us = now_us + PLAIN_US;
    if (counts(a, u, DNS_RCODE_FORMERR))
        watch_good(u, now_us, 0);
    (void)try_send(a, u, t->over_tcp, now_us);
    try_close(t);
    return ask_go_on(a, now_us);
}

static bool on_refused(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    struct upstream_context *c = t->over_tcp ? u->tcp : u->main;
    upstream_count(&u->count[COUNT_REFUSED]);
    metrics_count(M_UPSTREAM_ERRORS);
    if (!t->over_tcp && u->is->transport != UPSTREAM_UDP)
        line_lost(u, now_us);
    if (c && upstream_context_certificate_failure(c))
        upstream_context_renew(c); /* the CA file may be put right, too */
    try_close(t);
    ask_blame(a, u, now_us, SIGN_REFUSED);
    return ask_go_on(a, now_us);
}

/* The connection ended with the query on it: no fault of the query, once more on a new one.
 * Further times as long as replies come in between (a server that closes after each answer). */
static bool on_closed(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    bool over_tcp = t->over_tcp;
    uint64_t replies = atomic_load_explicit(&u->count[COUNT_REPLIES], memory_order_relaxed);
    bool again = a->free_retries == 0 || replies != t->replies_before;
    upstream_count(&u->count[COUNT_CLOSED]);
    metrics_count(M_UPSTREAM_ERRORS);
    if (!over_tcp)
        line_lost(u, now_us);
    try_close(t);
    if (again && a->free_retries < FREE_RETRIES_MAX) {
        a->free_retries++;
        if (try_send(a, u, over_tcp, now_us))
            return true;
    }
    ask_blame(a, u, now_us, SIGN_CLOSED);
    return ask_go_on(a, now_us);
}

void ask_on_outcome(void *set, struct upstream_query *q)
{
    (void)set;
    struct upstream_try *t = (struct upstream_try *)q;
    struct upstream_ask *a = t->ask;
    struct upstream *u = t->upstream;
    uint64_t now_us = clock_now_us();
    bool open = true;
    switch (q->outcome) {
    case OUTCOME_REPLY:
        open = on_reply(a, t, now_us);
        break;
    case OUTCOME_TRUNCATED:
        open = on_truncated(a, t, now_us);
        break;
    case OUTCOME_NO_EDNS:
        open = on_no_edns(a, t, now_us);
        break;
    case OUTCOME_BAD:
        upstream_count(&t->upstream->count[COUNT_BAD]);
        metrics_count(M_UPSTREAM_BAD);
        ask_blame(a, t->upstream, now_us, SIGN_BAD);
        try_close(t);
        open = ask_go_on(a, now_us);
        break;
    case OUTCOME_TIMEOUT:
        if (!t->timed_out)
            ask_time_out(a, t, now_us);
        try_close(t);
        open = ask_go_on(a, now_us);
        break;
    case OUTCOME_REFUSED:
        open = on_refused(a, t, now_us);
        break;
    case OUTCOME_CLOSED:
        open = on_closed(a, t, now_us);
        break;
    case OUTCOME_LOCAL:
        a->only_local = true;
        try_close(t);
        open = ask_go_on(a, now_us);
        break;
    }
    if (open)
        ask_arm(a, now_us);
    line_send_next(u);
}

void ask_on_bad_datagram(void *set, struct upstream_query *q)
{
    (void)set;
    struct upstream_try *t = (struct upstream_try *)q;
    struct upstream_ask *a = t->ask;
    upstream_count(&t->upstream->count[COUNT_BAD]);
    metrics_count(M_UPSTREAM_BAD);
    if (t->bad)
        return;
    /* One sign a try, however many come. The right reply may still follow; meanwhile ask
     * another. */
    t->bad = t->late = true;
    uint64_t now_us = clock_now_us();
    ask_blame(a, t->upstream, now_us, SIGN_BAD);
    if (a->hedge_us)
        a->hedge_us = now_us;
    ask_arm(a, now_us);
}

void ask_on_late(void *set, void *upstream)
{
    (void)set;
    struct upstream *u = upstream;
    u->reply_us = clock_now_us();
    if (!u->looping)
        watch_good(u, u->reply_us, 0);
    line_send_next(u);
}
