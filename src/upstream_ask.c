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
    RESENDS_MAX = 3,     /* UDP retransmissions a round */
    PAUSE_US = 50000,    /* before the second round when nothing could be sent; then doubled */
    LOCAL_DOUBLINGS = 2, /* of that, before each when descriptors are out */
    HEDGE_COST = 100,    /* credits */
    HEDGE_EARN = 10,     /* so at most a tenth more questions */
    HEDGE_CREDITS_MAX = 2000,
    NOT_FASTEST_US = 200000, /* policies with an order of their own are more patient */
};

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
bool ask_persists(const struct upstream_ask *a)
{
    return a->kind == ASK_QUESTION || a->kind == ASK_RESOLVE;
}

/* ---- the end */

void ask_deliver(struct upstream_ask *a, const struct upstream_answer *answer)
{
    a->finished = true;
    if (a->on_answer)
        a->on_answer(a->arg, answer);
    ask_free(a);
}

/* The question as it was asked: 0x20 was our own affair. */
void ask_restore_case(const struct upstream_ask *a, uint8_t *octets)
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
    ask_deliver(a, &answer);
    return true;
}

/* Whoever left a question without an answer is looked at, so that what was kept of the failure
 * can be forgotten as soon as it is back. */
static void doubt_troubled(struct upstream_ask *a)
{
    for (size_t i = 0; i < a->roster->n; i++)
        if (a->troubled >> i & 1)
            watch_doubt(a->roster->list[i], clock_now_us());
}

/* Always false: the ask is no more. */
bool ask_fail(struct upstream_ask *a)
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
    if (ask_persists(a) && a->any_sign && answer.network_failure)
        doubt_troubled(a);
    ask_deliver(a, &answer);
    return false;
}

void ask_blame(struct upstream_ask *a, struct upstream *u, uint64_t now_us,
               enum health_sign sign)
{
    a->any_sign = true;
    a->sign = sign;
    a->blamed = u;
    for (size_t i = 0; i < a->roster->n; i++)
        if (a->roster->list[i] == u)
            a->troubled |= (uint64_t)1 << i;
    watch_bad(u, now_us, sign);
}

/* ---- sending */

/* When to ask somebody else as well, and when to ask the same again. */
static void plan(struct upstream_ask *a, const struct upstream *u, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    uint32_t half_us = c->upstream_timeout_ms * 500;
    uint32_t rto_us = upstream_health_rto_us(&u->health, half_us);
    uint64_t others = choice_well(a->roster, a->candidates & ~a->used);
    a->hedge_us = a->resend_us = 0;
    if (ask_persists(a) && others) {
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
bool ask_send_next(struct upstream_ask *a, uint64_t now_us)
{
    int i;
    if (ask_persists(a)) {
        i = choice_next(a->set, a->roster, a->candidates, a->used);
    } else {
        i = a->candidates & ~a->used ? __builtin_ctzll(a->candidates) : -1;
    }
    if (i < 0)
        return false;
    struct upstream *u = a->roster->list[i];
    a->used |= (uint64_t)1 << i;
    plan(a, u, now_us);
    return try_send(a, u, false, now_us);
}

/* Asks on when nobody is asked at the moment, at once or after a pause. False: the ask has
 * ended. When all that is missing is a descriptor, it is worth waiting for one until the
 * deadline: they come back with each answer. */
bool ask_go_on(struct upstream_ask *a, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    bool local = a->only_local && !a->any_sign;
    if (a->tries || ask_send_next(a, now_us))
        return true;
    if (resolve_pending(a->roster, a->candidates) && !a->saved) {
        a->resend_us = now_us + PAUSE_US;
        return true;
    }
    if (a->saved || !ask_persists(a) || !choice_alive(a->roster, a->candidates) ||
        (!local && ++a->rounds >= c->upstream_tries))
        return ask_fail(a);
    a->used = 0;
    a->resends = 0;
    a->hedge_us = 0;
    a->resend_us = now_us + ((uint64_t)PAUSE_US << (local ? LOCAL_DOUBLINGS : a->rounds));
    a->round_end_us = now_us + c->upstream_timeout_ms * 1000ULL;
    return true;
}

/* ---- time */

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return b && b < a ? b : a;
}

void ask_arm(struct upstream_ask *a, uint64_t now_us)
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
            ask_blame(a, t->upstream, now_us, SIGN_SLOW);
        }
}

/* The usual time is over: the same again over UDP, or whoever is next after a pause. */
static bool resend(struct upstream_ask *a, uint64_t now_us)
{
    a->resend_us = 0;
    if (!a->tries)
        return ask_go_on(a, now_us);
    struct upstream *u = a->tries->upstream;
    if (a->resends >= RESENDS_MAX || a->tries->over_tcp || u->is->transport != UPSTREAM_UDP)
        return true;
    a->resends++;
    uint32_t rto_us =
        upstream_health_rto_us(&u->health, a->roster->config->upstream_timeout_ms * 500);
    upstream_count(&u->count[COUNT_RESENT]);
    try_send(a, u, false, now_us);
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
    try_send(a, u, false, now_us);
}

void ask_time_out(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us)
{
    t->timed_out = true;
    upstream_count(&t->upstream->count[COUNT_TIMEOUTS]);
    metrics_count(M_UPSTREAM_TIMEOUTS);
    try_doubt_connection(t, now_us);
    ask_blame(a, t->upstream, now_us, SIGN_TIMEOUT);
}

/* False: the ask has ended. */
static bool end_round(struct upstream_ask *a, uint64_t now_us)
{
    const struct config *c = a->roster->config;
    for (struct upstream_try *t = a->tries; t; t = t->next)
        if (!t->timed_out && !t->waiting)
            ask_time_out(a, t, now_us);
    a->round_end_us = 0;
    if (a->kind == ASK_PROBE) /* stays open for a late reply */
        return true;
    if (++a->rounds >= c->upstream_tries || !ask_persists(a) || a->saved)
        return ask_fail(a);
    a->resends = 0;
    a->round_end_us = now_us + c->upstream_timeout_ms * 1000ULL;
    if (ask_send_next(a, now_us))
        return true;
    a->used = 0; /* all were asked: from the top */
    return ask_send_next(a, now_us) || a->tries ? true : ask_fail(a);
}

static void tick(struct upstream_ask *a)
{
    uint64_t now_us = clock_now_us();
    if (a->hopeless || now_us >= a->deadline_us) {
        (void)ask_fail(a);
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
    ask_arm(a, now_us);
}

static void timer_cb(struct ev_loop *loop, ev_timer *timer, int revents)
{
    (void)loop;
    (void)revents;
    tick(timer->data);
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
    if (ask_send_next(a, now_us)) {
        /* under way */
    } else if (resolve_pending(a->roster, candidates)) {
        a->resend_us = now_us + PAUSE_US;
    } else { /* everybody is down: said from the loop */
        a->hopeless = true;
        a->deadline_us = now_us;
    }
    ask_arm(a, now_us);
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
