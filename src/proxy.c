/* proxy.c - the path of a query: parse, policy, client subnet, local data, cache, upstream,
 * answer.
 *
 *   submit --- malformed, not allowed, not for us --> error answer
 *     |
 *     +------- local name ----------------> local answer
 *     +------- cache: fresh --------------> answer --(last tenth)--> ask, nobody waits
 *     +------- cache: expired, no wait ---> stale answer ----------> ask, nobody waits
 *     |
 *     +------- miss, or expired and upstream well: join an ask or start one, and wait
 *                 |
 *                 +-- reply ------------> cache, every waiter
 *                 +-- client-timeout ---> stale answer
 *                 +-- failure ----------> stale answer or SERVFAIL */
#include "proxy.h"

#include <stdlib.h>
#include <string.h>

#include "accept.h"
#include "asker.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "inflight.h"
#include "local.h"
#include "loopcheck.h"
#include "ratelimit.h"
#include "respond.h"
#include "stalequeue.h"
#include "upstream.h"

enum {
    MAX_ASKS = 32768,    /* upstream has its own, lower cap */
    MAX_WAITERS = 65536, /* about 450 octets each */
    SCRATCH = DNS_MESSAGE_MAX + 1024,
    EXPECTED_MAX = 64, /* in one go; udp.c reads no more */
};

struct proxy {
    struct query_handler handler; /* first: the seam hands it back */
    struct config *config;
    struct cache *cache;
    struct upstream_set *upstreams;
    struct local *local;
    struct inflight_table *inflight;
    struct stale_queue stale;
    uint32_t recovered_s;   /* when an upstream came back last; 0: never */
    struct responder out;   /* the answer being finished */
    uint8_t clean[SCRATCH]; /* an upstream's reply, written anew */
};

/* ---- cache */

static struct cache_key asker_key(const struct asker *a)
{
    return (struct cache_key){
        .qname = a->qname,
        .qname_len = a->qname_len,
        .qtype = a->qtype,
        .dnssec_ok = a->dnssec_ok,
        .checking_disabled = a->flags & DNS_CD,
        .subnet = a->has_subnet ? &a->subnet : NULL,
    };
}

/* only_look: this one asks nobody, and is not told to refresh. */
static enum cache_outcome lookup(struct proxy *p, const struct cache_key *key, bool only_look,
                                 struct cache_answer *c)
{
    struct cache_get_options options = {
        .now_s = clock_now_s(),
        .stale_max_s = p->config->stale_max_age_s,
        .stale_ttl_s = p->config->stale_ttl_s,
        .prefetch = p->config->prefetch,
        .only_look = only_look,
    };
    enum cache_outcome outcome =
        cache_get(p->cache, key, &options, p->out.msg, DNS_MESSAGE_MAX, c);

    if (outcome == CACHE_MISS)
        return CACHE_MISS;
    /* An answer that was got without a subnet says nothing about what one with it would be: it
     * serves the clients of a subnet only once upstream said so (RFC 7871 7.3.1). */
    if (key->subnet && key->subnet->source > 0 && !c->scoped && !c->had_subnet && !c->failure)
        return CACHE_MISS;
    /* An old failure helps nobody. */
    return outcome == CACHE_EXPIRED && c->failure ? CACHE_MISS : outcome;
}

/* What the cache has for this asker, however old it may be within the configured age. */
static bool find_stale(struct proxy *p, const struct asker *a, struct cache_answer *c,
                       bool *stale)
{
    struct cache_key key = asker_key(a);
    enum cache_outcome outcome = lookup(p, &key, true, c);

    *stale = outcome == CACHE_EXPIRED;
    return outcome == CACHE_EXPIRED || (outcome == CACHE_HIT && !c->failure);
}

static void keep(struct proxy *p, const struct cache_key *key, const struct accepted *got,
                 uint16_t ede, const char *ede_text)
{
    struct cache_put_options options = {
        .now_s = clock_now_s(),
        .life_s = got->life_s,
        .ede = ede,
        .ede_text = ede_text,
        .scope = got->scope,
        .authentic = got->authentic,
        .failure = got->failure,
        .stale_max_s = p->config->stale_max_age_s,
    };

    if (got->life_s > 0)
        cache_put(p->cache, key, &got->reply, &options);
    else if (!got->failure)
        cache_remove(p->cache, key);
}

/* ---- waiting */

/* Takes the waiter off; its query and a copy of its asker are what is left of it. */
static struct query *release(struct proxy *p, struct waiter *w, struct asker *a)
{
    struct query *q = w->query;

    stale_queue_remove(&p->stale, w);
    *a = w->asker;
    q->state = NULL;
    waiter_remove(w);
    return q;
}

/* client-timeout passed (RFC 8767 5). */
static void on_stale_due(void *arg, struct waiter *w)
{
    struct proxy *p = arg;
    struct asker a;
    struct cache_answer c;
    struct query *q;
    bool stale;

    if (!find_stale(p, &w->asker, &c, &stale))
        return; /* evicted meanwhile: wait on for upstream */
    q = release(p, w, &a);
    respond_cached(&p->out, q, &a, &c, stale);
}

/* ---- upstream */

/* One waiter's answer after a failure: stale if the cache has it, else the failure itself,
 * whose message of clean_len octets is in p->clean. */
static void reply_failure(struct proxy *p, struct query *q, const struct asker *a,
                          const struct respond_outcome *failure, size_t clean_len)
{
    struct cache_answer c;
    bool stale;

    if (find_stale(p, a, &c, &stale)) {
        respond_cached(&p->out, q, a, &c, stale);
        return;
    }
    memcpy(p->out.msg, p->clean, clean_len);
    respond(&p->out, q, a, failure, clean_len, QUERY_ANSWER);
}

/* Answers everyone who waits at the ask with the message in p->clean. Replying may end other
 * waiters of this ask and submit new queries, so each turn starts from the ask's first. */
static void reply_waiters(struct proxy *p, struct inflight *ask, const struct accepted *got,
                          const struct respond_outcome *o)
{
    while (ask->first) {
        struct asker a;
        struct query *q = release(p, ask->first, &a);
        struct respond_outcome mine = *o;

        /* RFC 7871 7.3.1: the subnet is no longer than what was sent. */
        mine.answer.scoped = got->scope > 0 && a.has_subnet;
        mine.answer.scope = got->scope;
        if (got->failure) {
            reply_failure(p, q, &a, &mine, got->reply.len);
            continue;
        }
        memcpy(p->out.msg, p->clean, got->reply.len);
        respond(&p->out, q, &a, &mine, got->reply.len, QUERY_ANSWER);
    }
}

static void on_answer(void *arg, const struct upstream_answer *answer)
{
    struct inflight *ask = arg;
    struct proxy *p = ask->owner;
    struct cache_key key = inflight_key(ask);
    struct accepted got;
    struct respond_outcome o = {.answer = {.errors = respond_no_errors}};

    ask->upstream = NULL;
    inflight_unlink(ask);
    if (answer->reply &&
        accept_reply(&got, p->clean, DNS_MESSAGE_MAX, answer->reply, &key, p->config)) {
        got.authentic = got.authentic && answer->trust_ad;
        o.answer.errors.code[0] = got.ede;
        o.answer.errors.text[0] = got.ede_text;
    } else {
        if (!accept_failure(&got, p->clean, DNS_MESSAGE_MAX, &key, p->config))
            goto out; /* cannot be: a question always fits */
        o.answer.errors.code[0] = answer->reply ? DNS_EDE_NETWORK_ERROR : answer->ede;
        o.answer.errors.text[0] = answer->reply ? "bad reply from upstream" : answer->ede_text;
    }
    o.answer.rcode = got.rcode;
    o.answer.authentic = got.authentic;
    o.max_age_s = got.max_age_s;
    keep(p, &key, &got, o.answer.errors.code[0], o.answer.errors.text[0]);
    if (got.failure) /* after that: what is put ends a refresh */
        cache_refresh_failed(p->cache, &key, clock_now_s());
    reply_waiters(p, ask, &got, &o);
out:
    inflight_free(ask);
}

static void on_recovery(void *arg)
{
    struct proxy *p = arg;

    p->recovered_s = clock_now_s();
    cache_forget_failures(p->cache);
}

/* The ask in flight for this key, or a new one; NULL when too many are outstanding. */
static struct inflight *ask_for(struct proxy *p, const struct cache_key *key)
{
    struct inflight *ask = inflight_find(p->inflight, key);
    struct upstream_question question = {
        .qname = key->qname,
        .qname_len = key->qname_len,
        .qtype = key->qtype,
        .dnssec_ok = key->dnssec_ok,
        .checking_disabled = key->checking_disabled,
        .subnet = key->subnet,
    };

    if (ask) {
        metrics_count(M_QUERIES_COALESCED);
        return ask;
    }
    ask = inflight_add(p->inflight, key);
    if (!ask)
        return NULL;
    ask->owner = p;
    ask->upstream = upstream_ask(p->upstreams, &question, on_answer, ask);
    if (!ask->upstream) {
        inflight_unlink(ask);
        inflight_free(ask);
        return NULL;
    }
    return ask;
}

/* Asks and lets the query wait. */
static void ask_and_wait(struct proxy *p, struct query *q, const struct asker *a,
                         const struct cache_key *key, bool have_stale)
{
    struct inflight *ask = ask_for(p, key);
    struct waiter *w = ask ? waiter_add(ask, q, a) : NULL;

    if (!w) {
        struct cache_answer c;
        bool stale;

        metrics_count(M_QUERIES_OVERLOAD);
        if (have_stale && find_stale(p, a, &c, &stale))
            respond_cached(&p->out, q, a, &c, stale);
        else
            respond_rcode(&p->out, q, a, DNS_RCODE_SERVFAIL, DNS_EDE_OTHER,
                          "too many questions outstanding", QUERY_ANSWER);
        return;
    }
    q->state = w;
    if (have_stale)
        stale_queue_add(&p->stale, w, p->config->stale_client_timeout_ms);
}

/* The entry is past its life. Whoever is to refresh it asks; who waits for how long depends on
 * what is known of the upstreams (RFC 8767 5). */
static void answer_expired(struct proxy *p, struct query *q, const struct asker *a,
                           const struct cache_key *key, const struct cache_answer *c)
{
    bool in_flight = inflight_find(p->inflight, key) != NULL;
    bool may_ask = c->refresh || in_flight ||
                   (p->recovered_s && clock_now_s() - p->recovered_s <= CACHE_REFRESH_S);
    bool wait = p->config->stale_client_timeout_ms > 0 && upstream_well(p->upstreams);

    if (may_ask && wait) {
        ask_and_wait(p, q, a, key, true);
        return;
    }
    respond_cached(&p->out, q, a, c, true);
    if (may_ask && !in_flight)
        ask_for(p, key);
}

/* ---- policy */

static void choose_subnet(const struct config *config, struct asker *a)
{
    a->has_subnet = true;
    switch (config->ecs_mode) {
    case ECS_OFF:
        a->has_subnet = false;
        return;
    case ECS_PRIVATE:
        a->subnet = (struct ecs){.family = ADDR_V4};
        return;
    case ECS_FORWARD:
    case ECS_CLIENT:
        break;
    }
    if (a->has_ecs) { /* an opt-out (source 0) stays one (RFC 7871 7.1.2) */
        a->subnet = a->ecs;
        ecs_cut(&a->subnet,
                a->ecs.family == ADDR_V4 ? config->ecs_ipv4_prefix : config->ecs_ipv6_prefix);
        return;
    }
    a->subnet_from_address =
        config->ecs_mode == ECS_CLIENT &&
        ecs_from_addr(&a->subnet, &a->client,
                      a->client.family == ADDR_V4 ? config->ecs_ipv4_prefix
                                                  : config->ecs_ipv6_prefix);
    a->has_subnet = a->subnet_from_address;
}

static bool answer_local(struct proxy *p, struct query *q, const struct asker *a)
{
    struct local_answer l;
    struct respond_outcome o = {.answer = {.authoritative = true, .errors = respond_no_errors}};

    if (!local_lookup(p->local, a->qname, a->qname_len, a->qtype,
                      upstream_claims(p->upstreams, a->qname, a->qname_len), p->out.msg,
                      DNS_MESSAGE_MAX, &l))
        return false;
    metrics_count(M_QUERIES_LOCAL);
    o.answer.rcode = l.rcode;
    o.max_age_s = l.max_age_s;
    respond(&p->out, q, a, &o, l.len, QUERY_ANSWER);
    return true;
}

/* A well-formed question from somebody who may ask. */
static void answer_question(struct proxy *p, struct query *q, struct asker *a)
{
    struct cache_key key;
    struct cache_answer c;
    enum cache_outcome outcome;

    choose_subnet(p->config, a);
    if (answer_local(p, q, a))
        return;
    if (loopcheck_note(a->qname, a->qname_len)) {
        respond_rcode(&p->out, q, a, DNS_RCODE_REFUSED, DNS_EDE_OTHER, "a forwarding loop",
                      QUERY_ANSWER);
        return;
    }
    key = asker_key(a);
    outcome = lookup(p, &key, !(a->flags & DNS_RD), &c);
    if (outcome == CACHE_HIT) {
        metrics_count(M_CACHE_HITS);
        respond_cached(&p->out, q, a, &c, false);
        if (c.refresh && !inflight_find(p->inflight, &key) && ask_for(p, &key))
            metrics_count(M_CACHE_PREFETCH);
        return;
    }
    metrics_count(M_CACHE_MISSES);
    if (!(a->flags & DNS_RD))
        respond_rcode(&p->out, q, a, DNS_RCODE_REFUSED, DNS_EDE_NOT_READY,
                      "not in the cache and recursion not desired", QUERY_ANSWER);
    else if (outcome == CACHE_EXPIRED)
        answer_expired(p, q, a, &key, &c);
    else
        ask_and_wait(p, q, a, &key, false);
}

static void count_transport(enum query_transport t)
{
    static const enum metric counter[] = {
        [QUERY_UDP] = M_QUERIES_UDP,
        [QUERY_TCP] = M_QUERIES_TCP,
        [QUERY_DOT] = M_QUERIES_DOT,
        [QUERY_DOH] = M_QUERIES_DOH,
    };

    metrics_count(counter[t]);
}

/* Refuses a query that may be malformed in other ways as well: as fully as it can be read. */
static void refuse(struct proxy *p, struct query *q, const struct dns_query *dq, uint16_t rcode,
                   uint16_t ede, const char *ede_text, enum query_verdict verdict)
{
    struct asker a;

    if (dq->qname && asker_init(&a, q, dq))
        respond_rcode(&p->out, q, &a, rcode, ede, ede_text, verdict);
    else
        respond_broken(&p->out, q, dq, rcode, ede, verdict);
}

/* True when the query was answered here: it has no business further in. */
static bool reject(struct proxy *p, struct query *q, const struct dns_query *dq,
                   enum query_problem problem)
{
    switch (problem) {
    case QUERY_OK:
        return false;
    case QUERY_SHORT:
    case QUERY_RESPONSE:
        metrics_count(M_QUERIES_MALFORMED);
        q->on_reply(q, &(struct query_reply){.verdict = QUERY_MALFORMED});
        return true;
    case QUERY_OPCODE:
        refuse(p, q, dq, DNS_RCODE_NOTIMP, DNS_EDE_NONE, NULL, QUERY_ANSWER);
        return true;
    case QUERY_FORMERR:
        metrics_count(M_QUERIES_FORMERR);
        respond_broken(&p->out, q, dq, DNS_RCODE_FORMERR, DNS_EDE_NONE, QUERY_ANSWER);
        return true;
    case QUERY_BADVERS:
        refuse(p, q, dq, DNS_RCODE_BADVERS, DNS_EDE_NONE, NULL, QUERY_ANSWER);
        return true;
    }
    return false;
}

/* True when access says no. Before any other check but that there is a query at all. */
static bool deny(struct proxy *p, struct query *q, const struct dns_query *dq)
{
    if (!cidr_any(p->config->access.list, p->config->access.n, &q->client)) {
        metrics_count(M_QUERIES_REFUSED);
        refuse(p, q, dq, DNS_RCODE_REFUSED, DNS_EDE_PROHIBITED, NULL, QUERY_ANSWER);
        return true;
    }
    return false;
}

/* True when the client asks too much. What is malformed counts as well, or it would be free. */
static bool limit(struct proxy *p, struct query *q, const struct dns_query *dq, bool is_due)
{
    if (p->config->rate_queries == 0 || ratelimit_take(&q->client, p->config->rate_queries,
                                                       p->config->rate_burst, clock_now_ms()))
        return false;
    metrics_count(M_QUERIES_LIMITED);
    if (is_due)
        refuse(p, q, dq, DNS_RCODE_REFUSED, DNS_EDE_PROHIBITED, "over the rate limit",
               QUERY_LIMITED);
    return is_due;
}

static void expect(struct query_handler *handler, struct query *const *q, size_t n)
{
    const struct proxy *p = (const struct proxy *)handler;
    uint64_t prefetched[EXPECTED_MAX];

    if (n > EXPECTED_MAX)
        n = EXPECTED_MAX;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *qname = q[i]->msg + DNS_HEADER_SIZE;
        size_t len = q[i]->msg_len > DNS_HEADER_SIZE
                         ? name_wire_len(qname, q[i]->msg_len - DNS_HEADER_SIZE)
                         : 0;
        prefetched[i] = cache_prefetch(p->cache, qname, len);
    }
    for (size_t i = 0; i < n; i++)
        cache_prefetch_entry(p->cache, prefetched[i]);
}

static void submit(struct query_handler *handler, struct query *q)
{
    struct proxy *p = (struct proxy *)handler;
    struct dns_query dq;
    struct asker a;
    enum query_problem problem = query_parse(&dq, q->msg, q->msg_len);

    count_transport(q->transport);
    bool is_due = problem != QUERY_SHORT && problem != QUERY_RESPONSE; /* an answer */
    if ((is_due && deny(p, q, &dq)) || limit(p, q, &dq, is_due))
        return;
    if (reject(p, q, &dq, problem))
        return;
    if (!asker_init(&a, q, &dq)) {
        reject(p, q, &dq, QUERY_FORMERR);
        return;
    }
    if (dq.qclass != DNS_CLASS_IN) {
        metrics_count(M_QUERIES_REFUSED);
        respond_rcode(&p->out, q, &a, DNS_RCODE_REFUSED, DNS_EDE_NONE, NULL, QUERY_ANSWER);
    } else if (dq.qtype == RR_ANY) {
        respond_any(&p->out, q, &a);
    } else if (rrtype_is_meta(dq.qtype)) {
        respond_rcode(&p->out, q, &a, DNS_RCODE_NOTIMP, DNS_EDE_NONE, NULL, QUERY_ANSWER);
    } else {
        answer_question(p, q, &a);
    }
}

static void cancel(struct query_handler *handler, struct query *q)
{
    struct proxy *p = (struct proxy *)handler;
    struct waiter *w = q->state;

    if (!w)
        return;
    stale_queue_remove(&p->stale, w);
    waiter_remove(w);
    q->state = NULL;
}

/* ---- life */

struct query_handler *proxy_handler(struct proxy *p)
{
    return &p->handler;
}

size_t proxy_in_flight(const struct proxy *p)
{
    return waiter_count(p->inflight);
}

struct proxy *proxy_create(struct ev_loop *loop, struct config *config, struct cache *cache,
                           struct upstream_set *upstreams)
{
    struct proxy *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->handler.submit = submit;
    p->handler.expect = expect;
    p->handler.cancel = cancel;
    p->config = config_ref(config);
    p->cache = cache;
    p->upstreams = upstreams;
    p->out.keepalive_ms = config->limit_idle_ms;
    stale_queue_init(&p->stale, loop, on_stale_due, p);
    p->local = local_create(config, NULL, NULL);
    p->inflight = inflight_create(MAX_ASKS, MAX_WAITERS);
    if (!p->local || !p->inflight) {
        proxy_destroy(p);
        return NULL;
    }
    upstream_on_recovery(upstreams, on_recovery, p);
    return p;
}

bool proxy_reload(struct proxy *p, struct config *config)
{
    struct local *local = local_create(config, NULL, NULL);

    if (!local)
        return false;
    local_destroy(p->local);
    p->local = local;
    config_ref(config);
    config_unref(p->config);
    p->config = config;
    p->out.keepalive_ms = config->limit_idle_ms;
    return true;
}

void proxy_destroy(struct proxy *p)
{
    struct inflight *ask;

    if (!p)
        return;
    upstream_on_recovery(p->upstreams, NULL, NULL);
    while (p->inflight && (ask = inflight_any(p->inflight))) {
        while (ask->first) {
            ask->first->query->state = NULL;
            stale_queue_remove(&p->stale, ask->first);
            waiter_remove(ask->first);
        }
        upstream_cancel(ask->upstream);
        inflight_unlink(ask);
        inflight_free(ask);
    }
    stale_queue_deinit(&p->stale);
    inflight_destroy(p->inflight);
    local_destroy(p->local);
    config_unref(p->config);
    free(p);
}
