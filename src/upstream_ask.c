/* upstream_ask.c - one question until its answer: tries, time-outs, hedges, failover.
 *
 *   round 1                         round 2          ...  up to upstream.tries
 *   |-- try A --- late: again ------|-- try B -------|
 *   |      `- hedge: try B as well  |
 *   0      p95 or RTO            timeout                              deadline
 *
 * A try stays open after its round: a late reply still counts. The first good answer ends the
 * ask; SERVFAIL and the like are kept while somebody else is asked once. An upstream that says
 * at once that it cannot (refused, closed) makes the next one be asked at once. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "dns/name.h"
#include "upstream_set.h"

enum {
    SENDS_MAX = 12,       /* tries an ask may make in all */
    FREE_RETRIES_MAX = 8, /* of those that a closing connection caused */
    RESENDS_MAX = 3,      /* UDP retransmissions a round */
    PAUSE_US = 50000,     /* before the second round when nothing could be sent; then doubled */
    HEDGE_COST = 100,     /* credits */
    HEDGE_EARN = 10,      /* so at most a tenth more questions */
    HEDGE_CREDITS_MAX = 2000,
    PLAIN_US = 600000000,    /* so long a server is believed not to know EDNS */
    NOT_FASTEST_US = 200000, /* policies with an order of their own are more patient */
};

/* ---- memory */

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

/* ---- servers that take one query a connection
 *
 * Some end the connection after each answer, and what was pipelined behind is lost, at times
 * with the answer itself. Once a connection has ended so, the next query waits until the one
 * before is over, until a connection is seen to carry two. */

static void wait_in_line(struct upstream_try *t)
{
    struct upstream *u = t->upstream;
    t->waiting = true;
    t->next_waiting = NULL;
    if (u->waiting)
        u->waiting_last->next_waiting = t;
    else
        u->waiting = t;
    u->waiting_last = t;
}

static void leave_line(struct upstream_try *t)
{
    struct upstream *u = t->upstream;
    struct upstream_try **p = &u->waiting, *before = NULL;
    while (*p != t) {
        before = *p;
        p = &before->next_waiting;
    }
    *p = t->next_waiting;
    if (u->waiting_last == t)
        u->waiting_last = before;
    t->waiting = false;
}

static void send_next_in_line(struct upstream *u)
{
    struct upstream_try *t = u->waiting;
    if (!t || upstream_context_in_flight(u->main))
        return;
    leave_line(t);
    t->sent_us = clock_now_us();
    t->late_us =
        t->sent_us +
        upstream_health_rto_us(&u->health, t->ask->roster->config->upstream_timeout_ms * 1000);
    upstream_context_send(u->main, &t->query);
}

static void connection_carried(struct upstream *u, const struct upstream_query *q)
{
    u->replies_since_end++;
    if (!q->fresh)
        u->one_by_one = false;
}

static void connection_lost(struct upstream *u, uint64_t now_us)
{
    if (now_us - u->end_us > 1000) { /* else: one more query of the same connection */
        u->lost_at_end = 0;
        u->end_us = now_us;
    }
    if (++u->lost_at_end > 1 && u->replies_since_end <= 1)
        u->one_by_one = true;
    if (u->lost_at_end > 1)
        u->replies_since_end = 0;
}

/* ---- tries and asks come and go */

static void try_close(struct upstream_try *t)
{
    struct upstream_ask *a = t->ask;
    if (t->waiting)
        leave_line(t);
    struct upstream_try **p = &a->tries;
    while (*p != t)
        p = &(*p)->next;
    *p = t->next;
    t->upstream->outstanding--;
    try_free(a->set, t);
}

static void ask_free(struct upstream_ask *a)
{
    struct upstream_set *s = a->set;
    ev_timer_stop(s->loop, &a->timer);
    while (a->tries) {
        upstream_query_abandon(&a->tries->query);
        try_close(a->tries);
    }
    free(a->saved);
    if (a->prev)
        a->prev->next = a->next;
    else
        s->asks = a->next;
    if (a->next)
        a->next->prev = a->prev;
    s->n_asks--;
    upstream_set_leave(s, a->roster);
    a->next = s->free_asks;
    s->free_asks = a;
}

/* Asks that try one upstream after the other, as against those about a single one. */
static bool persists(const struct upstream_ask *a)
{
    return a->kind == ASK_QUESTION || a->kind == ASK_RESOLVE;
}

/* ---- the end */

static void deliver(struct upstream_ask *a, const struct upstream_answer *answer)
{
    a->finished = true;
    if (a->on_answer)
        a->on_answer(a->arg, answer);
    ask_free(a);
}

/* The question as it was asked: 0x20 was our own affair. */
static void restore_case(const struct upstream_ask *a, uint8_t *octets)
{
    memcpy(octets + DNS_HEADER_SIZE, a->qname, a->qname_len);
}

static bool deliver_saved(struct upstream_ask *a)
{
    struct dns_reply reply;
    if (!a->saved || !reply_parse(&reply, a->saved, a->saved_len))
        return false;
    struct upstream_answer answer = {
        .reply = &reply,
        .trust_ad = a->saved_trust_ad,
        .ede = DNS_EDE_NONE,
        .ede_text = "",
    };
    deliver(a, &answer);
    return true;
}

/* Always false: the ask is no more. */
static bool fail(struct upstream_ask *a)
{
    if (deliver_saved(a))
        return false;
    struct upstream_answer answer = {
        .ede = DNS_EDE_NO_REACHABLE_AUTHORITY,
        .ede_text = "no upstream is reachable",
        .network_failure = true,
    };
    if (a->any_sign) {
        answer.ede_text = watch_reason(a->blamed, a->sign);
        if (a->sign == SIGN_REFUSED || a->sign == SIGN_CLOSED ||
            (a->blamed->main && upstream_context_certificate_failure(a->blamed->main)))
            answer.ede = DNS_EDE_NETWORK_ERROR;
        answer.network_failure = a->sign != SIGN_BAD;
    } else if (a->only_local) {
        answer.ede = DNS_EDE_NOT_READY;
        answer.ede_text = "out of descriptors or memory";
    } else if (!a->candidates) {
        answer.ede_text = "no upstream for this name";
    }
    deliver(a, &answer);
    return false;
}

/* ---- trouble */

static void blame(struct upstream_ask *a, struct upstream *u, uint64_t now_us,
                  enum health_sign sign)
{
    a->any_sign = true;
    a->sign = sign;
    a->blamed = u;
    watch_bad(u, now_us, sign);
}

/* Nothing came over this connection since the try went out on it: it may be a hole. */
static void doubt_connection(struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    bool stream = t->over_tcp || u->is->transport != UPSTREAM_UDP;
    if (!stream || u->reply_us >= t->sent_us || u->reset_us >= t->sent_us)
        return;
    u->reset_us = now_us;
    upstream_context_reset(t->over_tcp ? u->tcp : u->main);
}

/* ---- sending */

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
    q->timeout_ms =
        a->deadline_us > now_us ? (uint32_t)((a->deadline_us - now_us) / 1000) + 1 : 1;
}

static bool send_try(struct upstream_ask *a, struct upstream *u, bool over_tcp, uint64_t now_us)
{
    struct upstream_context *c = context_for(u, over_tcp);
    struct upstream_try *t =
        c && a->sends < SENDS_MAX + FREE_RETRIES_MAX ? try_new(a->set) : NULL;
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
        wait_in_line(t);
    } else {
        upstream_context_send(c, &t->query);
    }
    return true;
}

/* When to ask somebody else as well, and when to ask the same again. */
static void plan(struct upstream_ask *a, const struct upstream *u, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    uint32_t half_us = c->upstream_timeout_ms * 500;
    uint32_t rto_us = upstream_health_rto_us(&u->health, half_us);
    uint64_t others = choice_well(a->roster, a->candidates & ~a->used);
    a->hedge_us = a->resend_us = 0;
    if (persists(a) && others) {
        uint32_t wait_us = rto_us;
        if (c->policy == POLICY_FASTEST)
            wait_us = upstream_health_hedge_us(&u->health, half_us);
        else if (wait_us < NOT_FASTEST_US)
            wait_us = NOT_FASTEST_US;
        a->hedge_us = now_us + (wait_us < half_us ? wait_us : half_us);
    }
    if (u->is->transport == UPSTREAM_UDP && a->kind != ASK_MEASURE)
        a->resend_us = now_us + rto_us;
}

/* Asks the next candidate that was not asked in this round. */
static bool send_next(struct upstream_ask *a, uint64_t now_us)
{
    int i;
    if (persists(a)) {
        i = choice_next(a->set, a->roster, a->candidates, a->used);
    } else {
        i = a->candidates & ~a->used ? __builtin_ctzll(a->candidates) : -1;
    }
    if (i < 0)
        return false;
    struct upstream *u = a->roster->list[i];
    a->used |= (uint64_t)1 << i;
    plan(a, u, now_us);
    return send_try(a, u, false, now_us);
}

/* Asks on when nobody is asked at the moment, at once or after a pause. False: the ask has
 * ended. */
static bool go_on(struct upstream_ask *a, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    if (a->tries || send_next(a, now_us))
        return true;
    if (resolve_pending(a->roster, a->candidates) && !a->saved) {
        a->resend_us = now_us + PAUSE_US;
        return true;
    }
    if (a->saved || !persists(a) || !choice_alive(a->roster, a->candidates) ||
        ++a->rounds >= c->upstream_tries)
        return fail(a);
    a->used = 0;
    a->resends = 0;
    a->hedge_us = 0;
    a->resend_us = now_us + ((uint64_t)PAUSE_US << a->rounds);
    a->round_end_us = now_us + c->upstream_timeout_ms * 1000ULL;
    return true;
}

/* ---- time */

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return b && b < a ? b : a;
}

static void arm(struct upstream_ask *a, uint64_t now_us)
{
    uint64_t at = sooner(a->deadline_us, a->round_end_us);
    at = sooner(at, a->hedge_us);
    at = sooner(at, a->resend_us);
    for (const struct upstream_try *t = a->tries; t; t = t->next)
        if (!t->late && !t->waiting)
            at = sooner(at, t->late_us);
    double s = at > now_us ? (double)(at - now_us) / 1e6 : 0.0;
    ev_timer_stop(a->set->loop, &a->timer);
    ev_timer_set(&a->timer, s + 0.0005, 0.0);
    ev_timer_start(a->set->loop, &a->timer);
}

static void mark_late(struct upstream_ask *a, uint64_t now_us)
{
    for (struct upstream_try *t = a->tries; t; t = t->next)
        if (!t->late && !t->waiting && now_us >= t->late_us) {
            t->late = true;
            blame(a, t->upstream, now_us, SIGN_SLOW);
        }
}

/* The usual time is over: the same again over UDP, or whoever is next after a pause. */
static bool resend(struct upstream_ask *a, uint64_t now_us)
{
    a->resend_us = 0;
    if (!a->tries)
        return go_on(a, now_us);
    struct upstream *u = a->tries->upstream;
    if (a->resends >= RESENDS_MAX || a->tries->over_tcp || u->is->transport != UPSTREAM_UDP)
        return true;
    a->resends++;
    uint32_t rto_us =
        upstream_health_rto_us(&u->health, a->roster->config->upstream_timeout_ms * 500);
    upstream_count(&u->count[COUNT_RESENT]);
    send_try(a, u, false, now_us);
    a->resend_us = now_us + ((uint64_t)rto_us << a->resends);
    return true;
}

static void hedge(struct upstream_ask *a, uint64_t now_us)
{
    struct upstream_set *s = a->set;
    bool in_doubt =
        a->tries && (a->tries->late || a->tries->upstream->health.state != HEALTH_WELL);
    a->hedge_us = 0;
    if (a->tries && !in_doubt) {
        if (s->hedge_credits < HEDGE_COST) {
            a->hedge_us = a->tries->late_us; /* then it is no luxury any more */
            if (a->hedge_us <= now_us)
                a->hedge_us = 0;
            return;
        }
        s->hedge_credits -= HEDGE_COST;
    }
    int i = choice_next(s, a->roster, choice_well(a->roster, a->candidates), a->used);
    if (i < 0)
        return;
    struct upstream *u = a->roster->list[i];
    a->used |= (uint64_t)1 << i;
    upstream_count(&u->count[COUNT_HEDGED]);
    send_try(a, u, false, now_us);
}

static void time_out(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    t->timed_out = true;
    upstream_count(&t->upstream->count[COUNT_TIMEOUTS]);
    metrics_count(M_UPSTREAM_TIMEOUTS);
    doubt_connection(t, now_us);
    blame(a, t->upstream, now_us, SIGN_TIMEOUT);
}

/* False: the ask has ended. */
static bool end_round(struct upstream_ask *a, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    for (struct upstream_try *t = a->tries; t; t = t->next)
        if (!t->timed_out && !t->waiting)
            time_out(a, t, now_us);
    a->round_end_us = 0;
    if (a->kind == ASK_PROBE) /* stays open for a late reply */
        return true;
    if (++a->rounds >= c->upstream_tries || !persists(a) || a->saved)
        return fail(a);
    a->resends = 0;
    a->round_end_us = now_us + c->upstream_timeout_ms * 1000ULL;
    if (send_next(a, now_us))
        return true;
    a->used = 0; /* all were asked: from the top */
    return send_next(a, now_us) || a->tries ? true : fail(a);
}

static void tick(struct upstream_ask *a)
{
    uint64_t now_us = clock_now_us();
    if (a->hopeless || now_us >= a->deadline_us) {
        (void)fail(a);
        return;
    }
    mark_late(a, now_us);
    if (a->round_end_us && now_us >= a->round_end_us) {
        if (!end_round(a, now_us))
            return;
    } else {
        if (a->hedge_us && now_us >= a->hedge_us)
            hedge(a, now_us);
        if (a->resend_us && now_us >= a->resend_us && !resend(a, now_us))
            return;
    }
    arm(a, now_us);
}

static void timer_cb(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    tick(timer->data);
}

/* ---- outcomes */

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
        return fail(a);
    if (!a->tries && !a->failed_over) {
        a->failed_over = true;
        (void)send_next(a, now_us);
    }
    a->resend_us = 0;
    return a->tries ? true : fail(a);
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
        connection_carried(u, q);
    count_reply(u, q->reply.rcode, rtt_us);
    watch_good(u, now_us, t->over_tcp || (stream && q->fresh) ? 0 : (uint32_t)rtt_us);
    restore_case(a, q->octets);
    if (q->plain && q->reply.rcode == DNS_RCODE_FORMERR)
        u->plain_until_us = 0; /* it was not EDNS */
    if (persists(a) && is_failure(q->reply.rcode))
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
    deliver(a, &answer);
    return false;
}

static bool on_truncated(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    u->reply_us = now_us;
    upstream_count(&u->count[COUNT_TRUNCATED]);
    metrics_count(M_UPSTREAM_TRUNCATED);
    watch_good(u, now_us, (uint32_t)(now_us - t->sent_us) + 1);
    a->resend_us = 0;
    (void)send_try(a, u, true, now_us);
    try_close(t);
    return go_on(a, now_us);
}

/* Like that from now on; the answer tells whether it was EDNS. */
static bool on_no_edns(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    u->reply_us = now_us;
    u->plain_until_us = now_us + PLAIN_US;
    watch_good(u, now_us, 0);
    (void)send_try(a, u, t->over_tcp, now_us);
    try_close(t);
    return go_on(a, now_us);
}

static bool on_refused(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    struct upstream *u = t->upstream;
    struct upstream_context *c = t->over_tcp ? u->tcp : u->main;
    upstream_count(&u->count[COUNT_REFUSED]);
    metrics_count(M_UPSTREAM_ERRORS);
    if (!t->over_tcp && u->is->transport != UPSTREAM_UDP)
        connection_lost(u, now_us);
    if (upstream_context_certificate_failure(c))
        upstream_context_renew(c); /* the CA file may be put right, too */
    try_close(t);
    blame(a, u, now_us, SIGN_REFUSED);
    return go_on(a, now_us);
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
        connection_lost(u, now_us);
    try_close(t);
    if (again && a->free_retries < FREE_RETRIES_MAX) {
        a->free_retries++;
        if (send_try(a, u, over_tcp, now_us))
            return true;
    }
    blame(a, u, now_us, SIGN_CLOSED);
    return go_on(a, now_us);
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
        blame(a, t->upstream, now_us, SIGN_BAD);
        try_close(t);
        open = go_on(a, now_us);
        break;
    case OUTCOME_TIMEOUT:
        if (!t->timed_out)
            time_out(a, t, now_us);
        try_close(t);
        open = go_on(a, now_us);
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
        open = go_on(a, now_us);
        break;
    }
    if (open)
        arm(a, now_us);
    send_next_in_line(u);
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
    blame(a, t->upstream, now_us, SIGN_BAD);
    if (a->hedge_us)
        a->hedge_us = now_us;
    arm(a, now_us);
}

void ask_on_late(void *set, void *upstream)
{
    (void)set;
    struct upstream *u = upstream;
    u->reply_us = clock_now_us();
    watch_good(u, u->reply_us, 0);
    send_next_in_line(u);
}

/* ---- the beginning */

static struct upstream_ask *ask_new(struct upstream_set *s)
{
    struct upstream_ask *a = s->free_asks;
    if (a)
        s->free_asks = a->next;
    else if (!(a = malloc(sizeof *a)))
        return NULL;
    memset(a, 0, sizeof *a);
    a->set = s;
    a->next = s->asks;
    if (a->next)
        a->next->prev = a;
    s->asks = a;
    s->n_asks++;
    return a;
}

struct upstream_ask *
ask_start(struct upstream_set *s, enum ask_kind kind, const struct upstream_question *q,
          uint64_t candidates,
          void (*on_answer)(void *arg, const struct upstream_answer *answer), void *arg)
{
    struct upstream_ask *a = ask_new(s);
    if (!a)
        return NULL;
    const struct config *c = s->roster->config;
    uint64_t now_us = clock_now_us();
    a->roster = s->roster;
    a->roster->refs++;
    a->kind = kind;
    memcpy(a->qname, q->qname, q->qname_len);
    a->qname_len = q->qname_len;
    a->qtype = q->qtype;
    a->dnssec_ok = q->dnssec_ok;
    a->checking_disabled = q->checking_disabled;
    if ((a->has_subnet = q->subnet != NULL))
        a->subnet = *q->subnet;
    a->on_answer = on_answer;
    a->arg = arg;
    a->candidates = candidates;
    a->deadline_us = now_us + c->upstream_deadline_ms * 1000ULL;
    a->round_end_us = now_us + c->upstream_timeout_ms * 1000ULL;
    ev_init(&a->timer, timer_cb);
    a->timer.data = a;
    if (send_next(a, now_us)) {
        /* under way */
    } else if (resolve_pending(a->roster, candidates)) {
        a->resend_us = now_us + PAUSE_US;
    } else { /* everybody is down: said from the loop */
        a->hopeless = true;
        a->deadline_us = now_us;
    }
    arm(a, now_us);
    return a;
}

/* True when somebody may be asked, but all who may have as much as they can hold. */
static bool all_full(const struct upstream_set *s, uint64_t candidates)
{
    return choice_alive(s->roster, candidates) && choice_next(s, s->roster, candidates, 0) < 0;
}

struct upstream_ask *
upstream_ask(struct upstream_set *set, const struct upstream_question *question,
             void (*on_answer)(void *arg, const struct upstream_answer *answer), void *arg)
{
    struct roster *r = set->roster;
    uint64_t candidates = roster_candidates(r, question->qname, question->qname_len);
    if (set->n_asks >= r->config->upstream_outstanding * (r->n + 1) ||
        all_full(set, candidates))
        return NULL;
    set->turn++;
    if (set->hedge_credits < HEDGE_CREDITS_MAX)
        set->hedge_credits += HEDGE_EARN;
    struct upstream_ask *a = ask_start(set, ASK_QUESTION, question, candidates, on_answer, arg);
    if (!a)
        return NULL;
    int other = choice_measure(set, r, candidates & ~a->used);
    if (other >= 0)
        (void)ask_start(set, ASK_MEASURE, question, (uint64_t)1 << other, NULL, NULL);
    return a;
}

void upstream_cancel(struct upstream_ask *ask)
{
    if (ask && !ask->finished)
        ask_free(ask);
}
