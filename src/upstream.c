/* upstream.c - the set of upstreams of a worker: make, reload, end. See upstream.h; the way of
 * a question is in upstream_ask.c. */
#include "upstream.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/log.h"
#include "upstream_set.h"

/* ---- upstreams and rosters */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_domains(const struct config_upstream *a, const struct config_upstream *b)
{
    if (a->n_domains != b->n_domains)
        return false;
    for (size_t i = 0; i < a->n_domains; i++) {
        const struct config_domain *x = &a->domains[i], *y = &b->domains[i];
        if (x->negated != y->negated || x->name_len != y->name_len ||
            memcmp(x->name, y->name, x->name_len))
            return false;
    }
    return true;
}

/* True when one in the old configuration can go on as this one. */
static bool same_upstream(const struct config_upstream *a, const struct config_upstream *b)
{
    return same_text(a->text, b->text) && same_text(a->host, b->host) &&
           addr_ip_equal(&a->addr, &b->addr) && a->addr.port == b->addr.port &&
           a->addr.scope_id == b->addr.scope_id && a->transport == b->transport &&
           same_text(a->tls_name, b->tls_name) && same_text(a->ca, b->ca) &&
           a->n_pins == b->n_pins &&
           (a->n_pins == 0 || memcmp(a->pins, b->pins, a->n_pins * sizeof *a->pins) == 0) &&
           a->trust_ad == b->trust_ad && same_domains(a, b);
}

static void upstream_free(struct upstream *u)
{
    if (!u)
        return;
    watch_stop(u);
    upstream_context_destroy(u->main);
    upstream_context_destroy(u->tcp);
    config_unref(u->config);
    if (u->own)
        free(u->own->text);
    free(u->own);
    free(u);
}

static void unref_upstream(struct upstream *u)
{
    if (u && --u->refs == 0)
        upstream_free(u);
}

bool upstream_connectable(struct upstream *u)
{
    struct upstream_target target = {
        .addr = u->addr,
        .transport = u->is->transport,
        .tls_name = u->is->tls_name,
        .ca = u->is->ca,
        .pins = (const uint8_t(*)[32])u->is->pins,
        .n_pins = u->is->n_pins,
        .user = u,
    };
    struct upstream_context *old_main = u->main, *old_tcp = u->tcp;
    u->main = upstream_context_create(u->set->engine, &target);
    u->tcp = NULL;
    /* Now, for what hangs in the old ones ends here, and is asked again of the new one. */
    upstream_context_destroy(old_main);
    upstream_context_destroy(old_tcp);
    return u->main != NULL;
}

static struct upstream *upstream_new(struct upstream_set *s, struct config *config,
                                     const struct config_upstream *is)
{
    struct upstream *u = calloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->set = s;
    u->config = config_ref(config);
    u->is = is;
    u->addr = is->addr;
    u->refs = 1;
    upstream_health_init(&u->health, clock_now_us());
    watch_start(u);
    if (is->host || upstream_connectable(u))
        return u;
    upstream_free(u);
    return NULL;
}

bool roster_contains(const struct roster *r, const struct upstream *u)
{
    for (size_t i = 0; i < r->all; i++)
        if (r->list[i] == u)
            return true;
    return false;
}

static struct upstream *carry_over(const struct roster *old, const struct roster *young,
                                   const struct config_upstream *is)
{
    for (size_t i = 0; old && i < old->all; i++) {
        struct upstream *u = old->list[i];
        if (same_upstream(u->is, is) && !roster_contains(young, u)) {
            u->refs++;
            return u;
        }
    }
    return NULL;
}

static void roster_free(struct roster *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->all; i++)
        unref_upstream(r->list[i]);
    config_unref(r->config);
    free(r);
}

/* The hidden upstream of a bootstrap address, shared by all host names that have it. */
static bool add_bootstrap(struct upstream_set *s, struct roster *r, const struct roster *old,
                          const struct addr *addr)
{
    char text[ADDR_TEXT_SIZE];
    for (size_t i = r->n; i < r->all; i++)
        if (addr_ip_equal(&r->list[i]->addr, addr) && r->list[i]->addr.port == addr->port)
            return true;
    if (r->all == ROSTER_MAX)
        return true; /* enough others */
    struct config_upstream *own = calloc(1, sizeof *own);
    if (!own || !(own->text = strdup(addr_format(addr, text)))) {
        free(own);
        return false;
    }
    own->addr = *addr;
    own->transport = UPSTREAM_UDP;
    struct upstream *u = carry_over(old, r, own);
    if (u) {
        free(own->text);
        free(own);
    } else if ((u = upstream_new(s, r->config, own))) {
        u->own = own;
    } else {
        free(own->text);
        free(own);
        return false;
    }
    r->list[r->all++] = u;
    return true;
}

static bool add_bootstraps(struct upstream_set *s, struct roster *r, const struct roster *old)
{
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->config->upstreams[i].n_bootstrap; k++)
            if (!add_bootstrap(s, r, old, &r->config->upstreams[i].bootstrap[k]))
                return false;
    return true;
}

static struct roster *roster_new(struct upstream_set *s, struct config *config,
                                 const struct roster *old)
{
    size_t n = config->n_upstreams;
    if (n > ROSTER_MAX) {
        log_warning("only the first %d of %zu upstreams are used", (int)ROSTER_MAX, n);
        n = ROSTER_MAX;
    }
    struct roster *r = calloc(1, sizeof *r + ROSTER_MAX * sizeof r->list[0]);
    if (!r)
        return NULL;
    r->config = config_ref(config);
    r->refs = 1;
    for (; r->all < n; r->all++) {
        const struct config_upstream *is = &config->upstreams[r->all];
        struct upstream *u = carry_over(old, r, is);
        if (!u && !(u = upstream_new(s, config, is))) {
            roster_free(r);
            return NULL;
        }
        r->list[r->all] = u;
        r->any_domains |= is->n_domains > 0;
    }
    r->n = n;
    if (add_bootstraps(s, r, old))
        return r;
    roster_free(r);
    return NULL;
}

/* Rosters go, and addresses change, when nothing of getdns is on the stack. */
static void sweep(struct upstream_set *s)
{
    if (s->roster)
        resolve_apply(s->roster);
    while (s->old) {
        struct roster *r = s->old;
        s->old = r->next;
        roster_free(r);
    }
}

static void sweep_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)loop;
    (void)revents;
    sweep(t->data);
}

void upstream_set_leave(struct upstream_set *s, struct roster *r)
{
    if (--r->refs)
        return;
    r->next = s->old;
    s->old = r;
    upstream_set_sweep(s);
}

void upstream_set_sweep(struct upstream_set *s)
{
    ev_feed_event(s->loop, &s->sweep, EV_TIMER);
}

/* ---- the set */

struct upstream_set *upstream_create(struct ev_loop *loop, struct config *config)
{
    static const struct upstream_engine_hooks hooks = {ask_on_outcome, ask_on_bad_datagram,
                                                       ask_on_late};
    struct upstream_set *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->loop = loop;
    s->random_used = sizeof s->random;
    pthread_mutex_init(&s->mutex, NULL);
    ev_timer_init(&s->sweep, sweep_cb, 0.0, 0.0);
    s->sweep.data = s;
    if ((s->engine = upstream_engine_create(loop, &hooks, s)) &&
        (s->roster = roster_new(s, config, NULL)))
        return s;
    log_error("upstreams cannot be set up: memory or descriptors are out");
    upstream_destroy(s);
    return NULL;
}

void upstream_destroy(struct upstream_set *set)
{
    if (!set)
        return;
    while (set->asks) {
        set->asks->on_answer = NULL;
        set->asks->finished = false;
        upstream_cancel(set->asks);
    }
    struct roster *last = set->roster;
    set->roster = NULL;
    sweep(set);
    ev_clear_pending(set->loop, &set->sweep);
    roster_free(last);
    upstream_engine_destroy(set->engine);
    while (set->free_asks) {
        struct upstream_ask *a = set->free_asks;
        set->free_asks = a->next;
        free(a);
    }
    while (set->free_tries) {
        struct upstream_try *t = set->free_tries;
        set->free_tries = t->next;
        free(t);
    }
    pthread_mutex_destroy(&set->mutex);
    free(set);
}

bool upstream_reload(struct upstream_set *set, struct config *config)
{
    struct roster *young = roster_new(set, config, set->roster), *old = set->roster;
    if (!young)
        return false;
    pthread_mutex_lock(&set->mutex);
    set->roster = young;
    pthread_mutex_unlock(&set->mutex);
    upstream_set_leave(set, old);
    return true;
}

bool upstream_well(const struct upstream_set *set)
{
    return choice_well(set->roster, UINT64_MAX) != 0;
}

void upstream_on_recovery(struct upstream_set *set, void (*on_recovery)(void *arg), void *arg)
{
    set->on_recovery = on_recovery;
    set->recovery_arg = arg;
}

/* Random bits without a system call for each question. */
uint32_t upstream_set_random(struct upstream_set *s)
{
    uint32_t bits;
    if (s->random_used + sizeof bits > sizeof s->random) {
        hash_random(s->random, sizeof s->random);
        s->random_used = 0;
    }
    memcpy(&bits, s->random + s->random_used, sizeof bits);
    s->random_used += sizeof bits;
    return bits;
}

static uint64_t count_of(const struct upstream *u, enum counter c)
{
    return atomic_load_explicit(&u->count[c], memory_order_relaxed);
}

bool upstream_stats(struct upstream_set *set, size_t i, struct upstream_stats *out)
{
    pthread_mutex_lock(&set->mutex);
    const struct upstream *u = i < set->roster->n ? set->roster->list[i] : NULL;
    if (u) {
        memset(out, 0, sizeof *out);
        strncpy(out->text, u->is->text, sizeof out->text - 1);
        out->transport = u->is->transport;
        uint32_t state = atomic_load_explicit(&u->state, memory_order_relaxed);
        out->well = state == HEALTH_WELL;
        out->down = state == HEALTH_DOWN;
        out->srtt_us = atomic_load_explicit(&u->srtt_us, memory_order_relaxed);
        out->asks = count_of(u, COUNT_ASKS);
        out->replies = count_of(u, COUNT_REPLIES);
        out->timeouts = count_of(u, COUNT_TIMEOUTS);
        out->refused = count_of(u, COUNT_REFUSED);
        out->closed = count_of(u, COUNT_CLOSED);
        out->bad = count_of(u, COUNT_BAD);
        out->truncated = count_of(u, COUNT_TRUNCATED);
        out->resent = count_of(u, COUNT_RESENT);
        out->hedged = count_of(u, COUNT_HEDGED);
        out->probes = count_of(u, COUNT_PROBES);
        for (size_t k = 0; k < UPSTREAM_RCODES; k++)
            out->rcode[k] = atomic_load_explicit(&u->rcode[k], memory_order_relaxed);
        for (size_t k = 0; k < UPSTREAM_BUCKETS; k++)
            out->histogram[k] = atomic_load_explicit(&u->histogram[k], memory_order_relaxed);
    }
    pthread_mutex_unlock(&set->mutex);
    return u != NULL;
}
