/* upstream_watch.c - the health of upstreams at work: probes, state changes, who is told.
 *
 * The workers share no state, but one line a change is logged for all of them: the first that
 * finds an upstream down says so, and the last that finds it well again. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/rrtype.h"
#include "loopcheck.h"
#include "upstream_set.h"

enum {
    PROBES_MAX = 4,           /* open ones an upstream: the next starts though the last hangs */
    PATIENCE_MIN_US = 400000, /* for a suspect's probe, when others are well */
};

/* ---- the log */

struct down {
    struct down *next;
    unsigned workers; /* that find it down */
    uint64_t since_ms;
    char text[];
};

static pthread_mutex_t downs_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct down *downs;

static const char *transport_text(const struct upstream *u)
{
    static const char *const text[] = {"udp", "tcp", "tls"};
    return text[u->is->transport];
}

void watch_log_down(struct upstream *u)
{
    if (u->logged_down)
        return;
    const char *text = u->is->text;
    struct down *d;
    pthread_mutex_lock(&downs_mutex);
    for (d = downs; d && strcmp(d->text, text); d = d->next)
        ;
    if (!d && (d = calloc(1, sizeof *d + strlen(text) + 1))) {
        strcpy(d->text, text);
        d->since_ms = clock_now_ms();
        d->next = downs;
        downs = d;
        log_info("upstream %s (%s) is down: %s", text, transport_text(u),
                 watch_reason(u, u->health.sign));
    }
    if (d) {
        d->workers++;
        u->logged_down = true;
    }
    pthread_mutex_unlock(&downs_mutex);
}

static void log_up(struct upstream *u, bool silent)
{
    if (!u->logged_down)
        return;
    u->logged_down = false;
    pthread_mutex_lock(&downs_mutex);
    struct down **p = &downs;
    while (*p && strcmp((*p)->text, u->is->text))
        p = &(*p)->next;
    struct down *d = *p;
    if (d && --d->workers == 0) {
        *p = d->next;
        if (!silent)
            log_info("upstream %s (%s) is back after %.1f s", d->text, transport_text(u),
                     (double)(clock_now_ms() - d->since_ms) / 1000.0);
        free(d);
    }
    pthread_mutex_unlock(&downs_mutex);
}

const char *watch_reason(const struct upstream *u, enum health_sign sign)
{
    if (u && u->is->host && !u->main)
        return "no address found for the host name";
    const char *why = u && u->main ? upstream_context_certificate_failure(u->main) : NULL;
    return why ? why : upstream_health_sign_text(sign);
}

/* ---- probes */

/* Its place in the present configuration; roster.all when it is no longer there. */
static size_t slot_of(const struct upstream *u)
{
    const struct roster *r = u->set->roster;
    size_t i = 0;
    while (i < r->all && r->list[i] != u)
        i++;
    return i;
}

static bool others_well(const struct upstream *u)
{
    const struct roster *r = u->set->roster;
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i] != u && r->list[i]->main && r->list[i]->health.state == HEALTH_WELL)
            return true;
    return false;
}

static void set_timer(struct upstream *u, uint32_t ms)
{
    ev_timer_stop(u->set->loop, &u->timer);
    ev_timer_set(&u->timer, ms / 1000.0, 0.0);
    ev_timer_start(u->set->loop, &u->timer);
}

static void publish(struct upstream *u)
{
    atomic_store_explicit(&u->state, (uint32_t)u->health.state, memory_order_relaxed);
    atomic_store_explicit(&u->srtt_us, u->health.srtt_us, memory_order_relaxed);
}

/* True when a probe's name was asked of us since we looked last: all that this upstream is good
 * for at the moment is to send our questions round. It stays down until a probe comes through
 * without passing here. */
static bool in_loop(struct upstream *u)
{
    size_t slot = slot_of(u);
    uint64_t seen_ms = slot < LOOPCHECK_SLOTS ? loopcheck_seen_ms((unsigned)slot) : 0;
    if (seen_ms <= u->loop_ms)
        return false;
    u->loop_ms = seen_ms;
    u->looping = true;
    if (upstream_health_loop(&u->health, clock_now_us()))
        watch_log_down(u);
    publish(u);
    set_timer(u, upstream_health_backoff_ms(&u->health, !others_well(u),
                                            upstream_set_random(u->set)));
    return true;
}

static void probe_failed(struct upstream *u)
{
    if (u->health.state == HEALTH_WELL || in_loop(u))
        return;
    if (upstream_health_probe_failed(&u->health, clock_now_us())) {
        publish(u);
        watch_log_down(u);
    }
    set_timer(u, upstream_health_backoff_ms(&u->health, !others_well(u),
                                            upstream_set_random(u->set)));
}

static void on_probe(void *arg, const struct upstream_answer *answer)
{
    struct upstream *u = arg;
    u->probes--;
    /* A good reply has been counted already. A failure at once is news only to a suspect: who
     * is down has its timer. */
    if (!answer->reply && u->health.state == HEALTH_SUSPECT)
        probe_failed(u);
}

/* The root's servers, which everybody knows; or the name that only comes back in a loop. */
static void ask_probe(struct upstream *u, bool for_loop)
{
    static const uint8_t root[1];
    uint8_t name[DNS_NAME_MAX];
    struct upstream_question q = {.qname = root, .qname_len = sizeof root, .qtype = RR_NS};
    size_t i = slot_of(u);
    if (i == u->set->roster->all) /* not in the present configuration */
        return;
    if (u->probes >= PROBES_MAX || (for_loop && i >= LOOPCHECK_SLOTS))
        return;
    if (for_loop) {
        q.qname = name;
        q.qname_len = loopcheck_name(name, (unsigned)i);
    }
    if (ask_start(u->set, ASK_PROBE, &q, (uint64_t)1 << i, on_probe, u)) {
        u->probes++;
        upstream_count(&u->count[COUNT_PROBES]);
    }
}

void watch_probe(struct upstream *u)
{
    if (u->main)
        ask_probe(u, u->looping);
    else
        resolve_start(u);
}

/* What was asked over the connection got no answer: it may be a hole, or in mid-message. A late
 * answer over it still counts. */
static void leave_connection(struct upstream *u)
{
    if (!u->main || u->is->transport == UPSTREAM_UDP)
        return;
    u->reset_us = clock_now_us();
    upstream_context_reset(u->main);
}

static void timer_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)loop;
    (void)revents;
    struct upstream *u = t->data;
    if (u->health.state == HEALTH_DOWN) {
        if (u->is->host && u->main)
            resolve_next(u);
        if (!u->move) { /* else as soon as it has moved */
            leave_connection(u);
            watch_probe(u);
        }
    }
    probe_failed(u);
}

/* ---- what is seen */

void watch_good(struct upstream *u, uint64_t now_us, uint32_t rtt_us)
{
    if (in_loop(u))
        return;
    u->looping = false;
    enum health_state before = u->health.state;
    bool back = upstream_health_good(&u->health, now_us, rtt_us);
    publish(u);
    if (before == HEALTH_WELL)
        return;
    ev_timer_stop(u->set->loop, &u->timer);
    if (!back)
        return;
    log_up(u, false);
    if (u->set->on_recovery)
        u->set->on_recovery(u->set->recovery_arg);
}

/* A suspect: its probe has some time. */
static void find_out(struct upstream *u)
{
    const struct config *c = u->set->roster->config;
    uint32_t patience_ms = c->upstream_deadline_ms;
    if (others_well(u)) {
        uint32_t us = upstream_health_rto_us(&u->health, c->upstream_timeout_ms * 250) * 4;
        patience_ms = (us > PATIENCE_MIN_US ? us : PATIENCE_MIN_US) / 1000;
    }
    publish(u);
    set_timer(u, patience_ms);
    watch_probe(u);
    bool silent = u->health.signs > 0 && u->health.sign <= SIGN_TIMEOUT;
    if (u->main && silent) /* as a loop would be */
        ask_probe(u, true);
}

void watch_doubt(struct upstream *u, uint64_t now_us)
{
    if (upstream_health_doubt(&u->health, now_us))
        find_out(u);
}

void watch_bad(struct upstream *u, uint64_t now_us, enum health_sign sign)
{
    if (!upstream_health_bad(&u->health, now_us, sign))
        return;
    log_debug("upstream %s (%s) is in doubt: %s", u->is->text, transport_text(u),
              watch_reason(u, sign));
    find_out(u);
}

void watch_arrived(struct upstream *u)
{
    if (u->health.state == HEALTH_DOWN && !u->reply_us && !u->logged_down) {
        u->health.state = HEALTH_SUSPECT; /* its first address: may be asked at once */
        find_out(u);
    } else {
        watch_probe(u);
    }
}

void watch_start(struct upstream *u)
{
    ev_init(&u->timer, timer_cb);
    u->timer.data = u;
    if (u->is->host) { /* not well before it has an address and answers */
        u->health.state = HEALTH_DOWN;
        set_timer(u, 0);
    }
    publish(u);
}

void watch_stop(struct upstream *u)
{
    ev_timer_stop(u->set->loop, &u->timer);
    log_up(u, true);
}
