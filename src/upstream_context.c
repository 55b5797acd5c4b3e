/* upstream_context.c - one getdns context a transport of an upstream. See upstream_context.h.
 *
 *   context --> generation (a getdns context and its loop)  <-- ticket --> query
 *                  |  renew: while queries hang in it
 *                  v
 *               retired, destroyed once it is idle
 *
 * A ticket is what getdns carries as user argument. It outlives the query where getdns cannot
 * be told to stop: on streams, where a cancelled query may be half written, and while a query
 * waits for a descriptor. */
#include "upstream_context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getdns/getdns.h>
#include <getdns/getdns_extra.h>
#include <net/if.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "upstream.h"
#include "upstream_getdns.h"
#include "upstream_loop.h"
#include "upstream_mem.h"

enum {
    RETIRED_MAX = 16,   /* old contexts still waiting for replies */
    RETIRED_MS = 15000, /* nothing is waited for this long */
    PARKED_MAX = 32,    /* queries a context may have waiting for descriptors */
    RESERVE = 4,        /* descriptors given up when there are no others */
    RESERVE_S = 1,      /* and taken again so much later */
    REASON_SIZE = 128,
};

struct upstream_ticket {
    struct upstream_query *query; /* NULL: nobody waits */
    struct upstream_generation *generation;
    getdns_transaction_t transaction;
    bool parked; /* waits for a descriptor; must not be cancelled */
};

struct upstream_generation {
    struct upstream_loop loop; /* first: the hooks come with it */
    struct upstream_engine *engine;
    struct upstream_context *context;
    getdns_context *getdns;
    size_t parked;    /* of those in flight (loop.in_flight), how many wait for a descriptor */
    uint64_t replies; /* over the present connection */
    bool connected;
    bool rejected; /* this connection: the certificate was not accepted */
    bool stale;    /* to be reset before the next send */
    char certificate[REASON_SIZE];
    uint64_t retired_ms;
    struct upstream_generation *next; /* retired ones */
};

struct upstream_context {
    struct upstream_engine *engine;
    struct upstream_generation *generation;
    struct upstream_target target;
    bool renew;
};

struct upstream_engine {
    struct ev_loop *loop;
    const struct upstream_engine_hooks *hooks;
    void *arg;
    struct upstream_mem *mem;
    getdns_dict *usual, *with_subnet, *plain; /* extensions, changed in place for each query */
    struct upstream_query *done, **done_end;
    struct upstream_generation *retired;
    size_t n_retired;
    ev_timer wake; /* never started, only fed: outcomes that no event of getdns delivers */
    ev_timer reserve_timer;
    int reserve[RESERVE];
    bool settling;
    uint8_t rx[DNS_UDP_SIZE + 1]; /* the datagram that is looked at */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void upstream_lock(void)
{
    pthread_mutex_lock(&lock);
}

void upstream_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- what came back */

static void judge_dict(struct upstream_query *q)
{
    getdns_list *list;
    getdns_bindata *wire;
    q->outcome = OUTCOME_BAD;
    if (getdns_dict_get_list(q->dict, "replies_full", &list) == GETDNS_RETURN_GOOD &&
        getdns_list_get_bindata(list, 0, &wire) == GETDNS_RETURN_GOOD)
        upstream_judge(q, wire->data, wire->size, false);
}

/* ---- delivery */

static void finish(struct upstream_engine *e, struct upstream_query *q, enum upstream_outcome o)
{
    q->outcome = o;
    q->done = true;
    q->next = NULL;
    *e->done_end = q;
    e->done_end = &q->next;
}

static struct upstream_query *next_done(struct upstream_engine *e)
{
    struct upstream_query *q = e->done;
    if (q) {
        if (!(e->done = q->next))
            e->done_end = &e->done;
        q->done = false;
    }
    return q;
}

static void generation_destroy(struct upstream_generation *g);

/* Of what is in flight nobody waits for the parked, and alone they would wait for ever. */
static void reap(struct upstream_engine *e)
{
    struct upstream_generation **p = &e->retired, *g;
    while ((g = *p)) {
        if (g->loop.in_flight > g->parked && clock_now_ms() - g->retired_ms < RETIRED_MS) {
            p = &g->next;
            continue;
        }
        *p = g->next;
        e->n_retired--;
        generation_destroy(g);
    }
}

/* Delivers what is done. Runs with nothing of getdns on the stack, and not within itself. */
static void settle(struct upstream_engine *e)
{
    struct upstream_query *q;
    if (e->settling)
        return;
    e->settling = true;
    do {
        while ((q = next_done(e))) {
            getdns_dict *dict = q->dict;
            if (dict)
                judge_dict(q);
            q->dict = NULL;
            e->hooks->on_outcome(e->arg, q); /* may free q */
            getdns_dict_destroy(dict);
        }
        if (e->retired)
            reap(e);
    } while (e->done);
    e->settling = false;
}

static void wake_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)loop;
    (void)revents;
    settle(t->data);
}

static enum upstream_outcome error_outcome(const struct upstream_generation *g,
                                           const struct upstream_query *q)
{
    return g->loop.stream && (g->replies || !q->fresh) ? OUTCOME_CLOSED : OUTCOME_REFUSED;
}

static void callback(getdns_context *c, getdns_callback_type_t type, getdns_dict *response,
                     void *userarg, getdns_transaction_t transaction)
{
    (void)c;
    (void)transaction;
    struct upstream_ticket *t = userarg;
    struct upstream_generation *g = t->generation;
    struct upstream_query *q = t->query;
    struct upstream_engine *e = g->engine;
    bool stream = g->loop.stream;
    g->loop.in_flight--;
    g->loop.completions++;
    if (t->parked)
        g->parked--;
    upstream_mem_free(e->mem, t);
    if (stream && type == GETDNS_CALLBACK_COMPLETE) {
        g->replies++;
        g->certificate[0] = '\0';
    }
    if (stream && type == GETDNS_CALLBACK_ERROR)
        g->stale = true;
    if (!q) {
        if (stream && type == GETDNS_CALLBACK_COMPLETE && g->context)
            e->hooks->on_late(e->arg, g->context->target.user);
        getdns_dict_destroy(response);
        return;
    }
    q->ticket = NULL;
    switch (type) {
    case GETDNS_CALLBACK_COMPLETE:
        finish(e, q, q->outcome); /* UDP: as on_datagram() judged it */
        if (stream)
            q->dict = response;
        break;
    case GETDNS_CALLBACK_TIMEOUT:
        finish(e, q, OUTCOME_TIMEOUT);
        break;
    case GETDNS_CALLBACK_CANCEL:
        finish(e, q, OUTCOME_LOCAL);
        break;
    default:
        finish(e, q, error_outcome(g, q));
    }
    if (!q->dict)
        getdns_dict_destroy(response);
}

/* ---- hooks of the loop */

static enum upstream_datagram on_datagram(struct upstream_loop *l, void *query, int fd)
{
    struct upstream_generation *g = (struct upstream_generation *)l;
    struct upstream_engine *e = g->engine;
    struct upstream_ticket *t = query;
    struct upstream_query *q = t->query;
    ssize_t n = recv(fd, e->rx, sizeof e->rx, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (n < 0) {
        if (errno == EAGAIN || errno == EINTR)
            return DATAGRAM_DROP;
        /* The peek took the error off the socket, getdns would wait for ever. */
        upstream_query_abandon(q);
        finish(e, q, OUTCOME_REFUSED);
        return DATAGRAM_GONE;
    }
    upstream_judge(q, e->rx, (size_t)n, true);
    if (q->outcome == OUTCOME_TRUNCATED &&
        ((size_t)n > sizeof e->rx || !reply_parse(&q->reply, e->rx, (size_t)n))) {
        /* Cut where it may be: nothing for getdns. That its ID is not looked at does no harm, a
         * stream is asked. */
        upstream_query_abandon(q);
        finish(e, q, OUTCOME_TRUNCATED);
        return DATAGRAM_GONE;
    }
    if (q->outcome != OUTCOME_BAD)
        return DATAGRAM_PASS;
    (void)!recv(fd, e->rx, sizeof e->rx, MSG_DONTWAIT);
    e->hooks->on_bad_datagram(e->arg, q);
    return DATAGRAM_DROP;
}

static void on_foreign(struct upstream_loop *l, void *query)
{
    struct upstream_generation *g = (struct upstream_generation *)l;
    struct upstream_ticket *t = query;
    if (t->query)
        g->engine->hooks->on_bad_datagram(g->engine->arg, t->query);
}

static void on_connection(struct upstream_loop *l, bool open)
{
    struct upstream_generation *g = (struct upstream_generation *)l;
    g->connected = open;
    g->replies = 0;
    if (open)
        return;
    g->stale = true; /* half a message may be left in its buffer */
    if (!g->rejected)
        g->certificate[0] = '\0'; /* something else is wrong now */
    g->rejected = false;
}

static void on_tail(struct upstream_loop *l)
{
    settle(((struct upstream_generation *)l)->engine);
}

/* The one thing that getdns says nowhere but in its log. */
__attribute__((format(printf, 4, 0))) static void
log_cb(void *arg, uint64_t systems, getdns_loglevel_type level, const char *fmt, va_list ap)
{
    (void)systems;
    (void)level;
    struct upstream_generation *g = arg;
    char line[512];
    if (!strstr(fmt, "Verify fail"))
        return;
    vsnprintf(line, sizeof line, fmt, ap);
    line[strcspn(line, "\n")] = '\0';
    g->rejected = true;
    const char *why = strstr(line, "*Failure* - ");
    snprintf(g->certificate, sizeof g->certificate, "certificate not accepted: %s",
             why ? why + 12 : "no certificate");
    log_clean(g->certificate);
}

/* ---- making a getdns context */

static void generation_destroy(struct upstream_generation *g)
{
    if (g->getdns) {
        upstream_lock();
        getdns_context_destroy(g->getdns);
        upstream_unlock();
    }
    if (g->loop.active)
        log_debug("upstream: a context of getdns left %zu events", g->loop.active);
    upstream_loop_deinit(&g->loop);
    free(g);
}

static struct upstream_generation *generation_create(struct upstream_context *c)
{
    static const struct upstream_loop_hooks hooks = {on_datagram, on_foreign, on_connection,
                                                     on_tail};
    struct upstream_generation *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    upstream_loop_init(&g->loop, c->engine->loop, c->target.transport != UPSTREAM_UDP, &hooks);
    g->loop.peer_len = addr_to_sockaddr(&c->target.addr, &g->loop.peer);
    g->loop.idle_ms = GETDNS_IDLE_MS;
    g->engine = c->engine;
    g->context = c;
    upstream_lock();
    getdns_return_t r = getdns_context_create_with_extended_memory_functions(
        &g->getdns, 0, c->engine->mem, upstream_mem_malloc, upstream_mem_realloc,
        upstream_mem_free);
    bool ok = r == GETDNS_RETURN_GOOD &&
              upstream_getdns_set_up(g->getdns, &c->target, &g->loop.base, log_cb, g);
    upstream_unlock();
    if (ok)
        return g;
    if (r != GETDNS_RETURN_GOOD)
        g->getdns = NULL;
    generation_destroy(g);
    return NULL;
}

struct upstream_context *upstream_context_create(struct upstream_engine *e,
                                                 const struct upstream_target *target)
{
    struct upstream_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->engine = e;
    c->target = *target;
    if ((c->generation = generation_create(c)))
        return c;
    log_error("upstream: getdns does not make a context (memory or descriptors are out)");
    free(c);
    return NULL;
}

static void retire(struct upstream_generation *g)
{
    struct upstream_engine *e = g->engine;
    g->retired_ms = clock_now_ms();
    g->next = e->retired;
    e->retired = g;
    e->n_retired++;
}

void upstream_context_destroy(struct upstream_context *c)
{
    if (!c)
        return;
    struct upstream_engine *e = c->engine;
    for (struct upstream_generation **p = &e->retired, *g; (g = *p);) {
        if (g->context != c) {
            p = &g->next;
            continue;
        }
        *p = g->next;
        e->n_retired--;
        generation_destroy(g);
    }
    generation_destroy(c->generation);
    settle(e);
    free(c);
}

/* ---- sending */

/* Makes the context fit to send: what is left of failures is cleared away. */
static bool make_ready(struct upstream_context *c)
{
    struct upstream_generation *g = c->generation;
    bool stuck = g->parked && g->parked == g->loop.in_flight; /* nothing will ever wake them */
    if (!g->stale && !c->renew && !stuck)
        return true;
    if (g->loop.in_flight == 0 && !c->renew) {
        g->stale = !upstream_getdns_set_upstream(g->getdns, &c->target);
        return !g->stale;
    }
    if (c->engine->n_retired >= RETIRED_MAX)
        return !stuck;
    struct upstream_generation *fresh = generation_create(c);
    if (!fresh)
        return false;
    c->renew = false;
    c->generation = fresh;
    memcpy(fresh->certificate, g->certificate, sizeof g->certificate);
    retire(g);
    return true;
}

static getdns_dict *extensions(struct upstream_engine *e, const struct upstream_query *q)
{
    getdns_dict *d = q->plain ? e->plain : q->subnet ? e->with_subnet : e->usual;
    getdns_return_t r = getdns_dict_set_int(d, "/header/cd", q->checking_disabled);
    if (q->plain)
        return r == GETDNS_RETURN_GOOD ? d : NULL;
    r |= getdns_dict_set_int(d, "/add_opt_parameters/do_bit", q->dnssec_ok);
    if (q->subnet) {
        uint8_t option[ECS_OPTION_MAX];
        struct ecs subnet = *q->subnet;
        subnet.scope = 0;
        getdns_bindata data = {ecs_write(&subnet, option), option};
        r |= getdns_dict_set_bindata(d, "/add_opt_parameters/options/0/option_data", &data);
    }
    return r == GETDNS_RETURN_GOOD ? d : NULL;
}

/* Gives up the reserve; true when there was one. */
static bool use_reserve(struct upstream_engine *e)
{
    bool any = false;
    for (size_t i = 0; i < RESERVE; i++) {
        if (e->reserve[i] >= 0) {
            close(e->reserve[i]);
            any = true;
        }
        e->reserve[i] = -1;
    }
    if (any)
        ev_timer_start(e->loop, &e->reserve_timer);
    return any;
}

static void fill_reserve(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)revents;
    struct upstream_engine *e = t->data;
    for (size_t i = 0; i < RESERVE; i++)
        if (e->reserve[i] < 0 && (e->reserve[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
            return; /* the timer repeats */
    ev_timer_stop(loop, t);
}

enum sent { SENT, SENT_PARKED, SENT_UNAVAILABLE, SENT_FAILED };

static enum sent hand_over(struct upstream_context *c, struct upstream_query *q)
{
    struct upstream_generation *g = c->generation;
    struct upstream_engine *e = c->engine;
    char name[NAME_TEXT_SIZE];
    getdns_dict *ext = extensions(e, q);
    struct upstream_ticket *t = upstream_mem_malloc(e->mem, sizeof *t);
    if (!ext || !t || g->parked >= PARKED_MAX) {
        upstream_mem_free(e->mem, t);
        return SENT_FAILED;
    }
    *t = (struct upstream_ticket){.query = q, .generation = g};
    q->ticket = t;
    q->fresh = g->replies == 0;
    g->loop.in_flight++;
    g->loop.sending = t;
    g->loop.scheduled = false;
    if (g->loop.stream)
        (void)getdns_context_set_timeout(g->getdns, q->timeout_ms);
    getdns_transaction_t transaction = 0;
    getdns_return_t r = getdns_general(g->getdns, name_to_text(q->qname, q->qname_len, name),
                                       q->qtype, ext, t, &transaction, callback);
    g->loop.sending = NULL;
    if (r != GETDNS_RETURN_GOOD) {
        q->ticket = NULL;
        g->loop.in_flight--;
        upstream_mem_free(e->mem, t);
        return r == GETDNS_RETURN_NO_UPSTREAM_AVAILABLE ? SENT_UNAVAILABLE : SENT_FAILED;
    }
    if (!q->ticket) /* called back already */
        return SENT;
    t->transaction = transaction;
    if (g->loop.scheduled)
        return SENT;
    t->parked = true;
    g->parked++;
    t->query = NULL;
    q->ticket = NULL;
    return SENT_PARKED;
}

void upstream_context_send(struct upstream_context *c, struct upstream_query *q)
{
    struct upstream_engine *e = c->engine;
    enum sent r = SENT_FAILED;
    q->engine = e;
    q->ticket = NULL;
    q->done = false;
    q->dict = NULL;
    q->outcome = OUTCOME_BAD;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (!make_ready(c))
            break;
        r = hand_over(c, q);
        if (r == SENT_UNAVAILABLE)
            c->generation->stale = true; /* an old verdict may be all that stands in the way */
        else if (r != SENT_PARKED || !use_reserve(e))
            break;
    }
    if (r == SENT_UNAVAILABLE)
        finish(e, q, OUTCOME_REFUSED);
    else if (r != SENT)
        finish(e, q, OUTCOME_LOCAL);
    if (e->done && !e->settling)
        ev_feed_event(e->loop, &e->wake, EV_TIMER);
}

static void forget_done(struct upstream_engine *e, struct upstream_query *q)
{
    struct upstream_query **p = &e->done;
    while (*p && *p != q)
        p = &(*p)->next;
    if (*p)
        *p = q->next;
    if (e->done_end == &q->next)
        e->done_end = p;
    q->done = false;
    getdns_dict_destroy(q->dict);
    q->dict = NULL;
}

void upstream_query_abandon(struct upstream_query *q)
{
    struct upstream_ticket *t = q->ticket;
    if (q->done)
        forget_done(q->engine, q);
    if (!t)
        return;
    struct upstream_generation *g = t->generation;
    q->ticket = NULL;
    t->query = NULL;
    if (!g->loop.stream && !t->parked)
        (void)getdns_cancel_callback(g->getdns, t->transaction);
}

/* ---- the rest */

void upstream_context_reset(struct upstream_context *c)
{
    c->generation->stale = true;
}

void upstream_context_renew(struct upstream_context *c)
{
    c->renew = true;
}

size_t upstream_context_in_flight(const struct upstream_context *c)
{
    return c->generation->loop.in_flight;
}

uint64_t upstream_context_replies(const struct upstream_context *c)
{
    return c->generation->replies;
}

bool upstream_context_connected(const struct upstream_context *c)
{
    return c->generation->connected;
}

const char *upstream_context_certificate_failure(const struct upstream_context *c)
{
    return c->generation->certificate[0] ? c->generation->certificate : NULL;
}

struct upstream_engine *upstream_engine_create(struct ev_loop *loop,
                                               const struct upstream_engine_hooks *hooks,
                                               void *arg)
{
    struct upstream_engine *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->loop = loop;
    e->hooks = hooks;
    e->arg = arg;
    e->done_end = &e->done;
    ev_timer_init(&e->wake, wake_cb, 0.0, 0.0);
    e->wake.data = e;
    ev_timer_init(&e->reserve_timer, fill_reserve, RESERVE_S, RESERVE_S);
    e->reserve_timer.data = e;
    for (size_t i = 0; i < RESERVE; i++)
        e->reserve[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    e->mem = upstream_mem_create();
    e->usual = upstream_getdns_extensions(EXTENSIONS_USUAL);
    e->with_subnet = upstream_getdns_extensions(EXTENSIONS_SUBNET);
    e->plain = upstream_getdns_extensions(EXTENSIONS_PLAIN);
    if (e->mem && e->usual && e->with_subnet && e->plain)
        return e;
    upstream_engine_destroy(e);
    return NULL;
}

void upstream_engine_destroy(struct upstream_engine *e)
{
    if (!e)
        return;
    (void)use_reserve(e);
    ev_timer_stop(e->loop, &e->reserve_timer);
    ev_clear_pending(e->loop, &e->wake);
    getdns_dict_destroy(e->usual);
    getdns_dict_destroy(e->with_subnet);
    getdns_dict_destroy(e->plain);
    upstream_mem_destroy(e->mem);
    free(e);
}
