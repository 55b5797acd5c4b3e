/* worker.c - see worker.h. */
#include "worker.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/metrics.h"
#include "endpoint.h"
#include "proxy.h"
#include "upstream.h"

enum order_kind { ORDER_RELOAD, ORDER_TLS, ORDER_DRAIN };

/* What main wants done. It waits, so everything stays where it is. */
struct order {
    enum order_kind kind;
    struct config *config;
    struct tls_context *tls;
    const struct worker_listener *listeners;
    unsigned drain_ms;
    bool ok;
};

struct worker {
    size_t index;
    struct config *config;
    struct tls_context *tls;
    struct cache *cache;
    struct conn_limits *limits;

    pthread_t thread;
    struct ev_loop *loop;
    ev_async wake;
    ev_prepare tail; /* runs when all events of a wake-up are done */
    ev_timer deadline;
    bool stopping;

    struct upstream_set *upstreams;
    struct proxy *proxy;
    struct endpoint **endpoints; /* one for each listener of config */
    size_t n_endpoints;
    struct endpoint *draining;

    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t done;
    struct order *order; /* NULL once carried out */
    bool running;        /* the thread is in its loop */
    bool ended;          /* or will never be */
    struct socket_set *sockets;
};

/* ---- orders ---- */

static void set_config(struct worker *w, struct config *c)
{
    struct config *before = w->config;

    w->config = config_ref(c);
    config_unref(before);
}

static void set_tls(struct worker *w, struct tls_context *tls)
{
    struct tls_context *before = w->tls;

    w->tls = tls == NULL ? NULL : tls_context_ref(tls);
    tls_context_unref(before);
}

static struct endpoint_env endpoint_env(const struct worker *w)
{
    return (struct endpoint_env){
        .loop = w->loop,
        .index = w->index,
        .handler = proxy_handler(w->proxy),
        .limits = w->limits,
    };
}

static void retire_endpoints(struct worker *w)
{
    for (size_t i = 0; i < w->n_endpoints; i++)
        endpoint_retire(w->endpoints[i], &w->draining);
    free(w->endpoints);
    w->endpoints = NULL;
    w->n_endpoints = 0;
}

static bool reload_endpoints(struct worker *w, const struct order *o)
{
    const struct endpoint_env env = endpoint_env(w);
    struct config *c = o->config;
    struct endpoint **list = calloc(c->n_listeners, sizeof(struct endpoint *));
    bool ok = true;

    if (list == NULL)
        return false;
    for (size_t i = 0; i < c->n_listeners; i++) {
        const struct worker_listener *from = &o->listeners[i];
        if (!from->kept) {
            list[i] = endpoint_open(&env, c, &c->listeners[i], w->tls, from->sockets);
            ok = ok && list[i] != NULL;
            continue;
        }
        list[i] = w->endpoints[from->before];
        w->endpoints[from->before] = NULL;
        if (list[i] != NULL)
            endpoint_keep(&env, list[i], c, &c->listeners[i], w->tls);
    }
    retire_endpoints(w);
    w->endpoints = list;
    w->n_endpoints = c->n_listeners;
    return ok;
}

static bool reload(struct worker *w, const struct order *o)
{
    set_tls(w, o->tls);
    bool ok = upstream_reload(w->upstreams, o->config);
    ok = proxy_reload(w->proxy, o->config) && ok;
    ok = reload_endpoints(w, o) && ok;
    set_config(w, o->config);
    return ok;
}

static void replace_certificates(struct worker *w, struct tls_context *tls)
{
    set_tls(w, tls);
    for (size_t i = 0; i < w->n_endpoints; i++) {
        if (w->endpoints[i] != NULL)
            endpoint_set_tls(w->endpoints[i], tls);
    }
}

static void begin_drain(struct worker *w, unsigned drain_ms)
{
    w->stopping = true;
    retire_endpoints(w);
    ev_timer_set(&w->deadline, drain_ms / 1000.0, 0);
    ev_timer_start(w->loop, &w->deadline);
}

static void on_deadline(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)timer;
    (void)events;
    ev_break(loop, EVBREAK_ALL);
}

/* Drained endpoints go here, where no event of theirs is under way. */
static void on_tail(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    struct worker *w = watcher->data;

    (void)events;
    endpoint_sweep(&w->draining);
    if (w->stopping && w->draining == NULL)
        ev_break(loop, EVBREAK_ALL);
}

static void on_wake(struct ev_loop *loop, ev_async *watcher, int events)
{
    struct worker *w = watcher->data;

    (void)loop;
    (void)events;
    pthread_mutex_lock(&w->lock);
    struct order *o = w->order;
    pthread_mutex_unlock(&w->lock);
    if (o == NULL)
        return;
    switch (o->kind) {
    case ORDER_RELOAD:
        o->ok = reload(w, o);
        break;
    case ORDER_TLS:
        replace_certificates(w, o->tls);
        break;
    case ORDER_DRAIN:
        begin_drain(w, o->drain_ms);
        break;
    }
    pthread_mutex_lock(&w->lock);
    w->order = NULL;
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
}

/* ---- the thread ---- */

static bool set_up(struct worker *w)
{
    struct config *c = w->config;

    w->upstreams = upstream_create(w->loop, c);
    if (w->upstreams == NULL)
        return false;
    w->proxy = proxy_create(w->loop, c, w->cache, w->upstreams);
    w->endpoints = calloc(c->n_listeners, sizeof(struct endpoint *));
    if (w->proxy == NULL || w->endpoints == NULL)
        return false;
    w->n_endpoints = c->n_listeners;
    const struct endpoint_env env = endpoint_env(w);
    for (size_t i = 0; i < c->n_listeners; i++) {
        w->endpoints[i] = endpoint_open(&env, c, &c->listeners[i], w->tls, &w->sockets[i]);
        if (w->endpoints[i] == NULL)
            return false;
    }
    return true;
}

/* Front ends first: they cancel what the proxy still works on. */
static void tear_down(struct worker *w)
{
    for (size_t i = 0; i < w->n_endpoints; i++)
        endpoint_close(w->endpoints[i]);
    free(w->endpoints);
    w->endpoints = NULL;
    w->n_endpoints = 0;
    endpoint_close_all(&w->draining);
    proxy_destroy(w->proxy);
    upstream_destroy(w->upstreams);
    w->proxy = NULL;
    w->upstreams = NULL;
}

static void tell_main(struct worker *w, bool running)
{
    pthread_mutex_lock(&w->lock);
    w->running = running;
    w->ended = !running;
    pthread_cond_signal(&w->done);
    pthread_mutex_unlock(&w->lock);
}

static void *run(void *arg)
{
    struct worker *w = arg;

    metrics_attach();
    bool ok = set_up(w);
    if (ok) {
        tell_main(w, true);
        ev_run(w->loop, 0);
    }
    tear_down(w);
    tell_main(w, false);
    return NULL;
}

/* ---- main's side ---- */

struct worker *worker_create(size_t index, const struct worker_setup *setup)
{
    struct worker *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    upstream_lock();
    w->loop = ev_loop_new(EVFLAG_AUTO);
    upstream_unlock();
    if (w->loop == NULL) {
        free(w);
        return NULL;
    }
    w->index = index;
    w->cache = setup->cache;
    w->limits = setup->limits;
    set_config(w, setup->config);
    set_tls(w, setup->tls);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->done, NULL);

    ev_async_init(&w->wake, on_wake);
    w->wake.data = w;
    ev_async_start(w->loop, &w->wake);
    ev_prepare_init(&w->tail, on_tail);
    w->tail.data = w;
    ev_prepare_start(w->loop, &w->tail);
    ev_timer_init(&w->deadline, on_deadline, 0, 0);
    return w;
}

/* Signals are main's: the thread is born with all of them blocked. */
static bool start_thread(struct worker *w)
{
    char name[16]; /* as much as the kernel keeps */
    sigset_t all, before;

    sigfillset(&all);
    sigdelset(&all, SIGSYS); /* see sandbox.c */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&w->thread, NULL, run, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (ok) {
        snprintf(name, sizeof(name), "pithd/%u", (unsigned)(w->index % 1000));
        (void)pthread_setname_np(w->thread, name);
    }
    return ok;
}

bool worker_start(struct worker *w, struct socket_set *sockets)
{
    w->sockets = sockets;
    if (!start_thread(w))
        return false;
    pthread_mutex_lock(&w->lock);
    while (!w->running && !w->ended)
        pthread_cond_wait(&w->done, &w->lock);
    bool ok = w->running;
    pthread_mutex_unlock(&w->lock);
    w->sockets = NULL;
    if (!ok)
        pthread_join(w->thread, NULL);
    return ok;
}

/* Until the worker has carried it out. */
static void give_order(struct worker *w, struct order *o)
{
    pthread_mutex_lock(&w->lock);
    w->order = o;
    ev_async_send(w->loop, &w->wake);
    while (w->order != NULL && !w->ended)
        pthread_cond_wait(&w->done, &w->lock);
    w->order = NULL;
    pthread_mutex_unlock(&w->lock);
}

bool worker_reload(struct worker *w, struct config *config, struct tls_context *tls,
                   const struct worker_listener *listeners)
{
    struct order o = {
        .kind = ORDER_RELOAD, .config = config, .tls = tls, .listeners = listeners};

    give_order(w, &o);
    return o.ok;
}

void worker_set_tls(struct worker *w, struct tls_context *tls)
{
    struct order o = {.kind = ORDER_TLS, .tls = tls};

    give_order(w, &o);
}

void worker_drain(struct worker *w, unsigned drain_ms)
{
    struct order o = {.kind = ORDER_DRAIN, .drain_ms = drain_ms};

    give_order(w, &o);
}

void worker_join(struct worker *w)
{
    pthread_join(w->thread, NULL);
}

void worker_destroy(struct worker *w)
{
    if (w == NULL)
        return;
    ev_async_stop(w->loop, &w->wake);
    ev_prepare_stop(w->loop, &w->tail);
    ev_timer_stop(w->loop, &w->deadline);
    upstream_lock();
    ev_loop_destroy(w->loop);
    upstream_unlock();
    config_unref(w->config);
    tls_context_unref(w->tls);
    pthread_cond_destroy(&w->done);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
