/* worker.c - see worker.h. */
#include "worker.h"

#include <ev.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/metrics.h"
#include "http/http.h"
#include "proxy.h"
#include "tls/dot.h"
#include "udp.h"
#include "upstream.h"

enum { PROTOCOLS_MAX = 3 };

/* A listener of the configuration, as this worker has it. */
struct endpoint {
    struct config *opened;  /* whose lists the listener borrows for its life */
    struct config *current; /* whose texts the options below borrow */
    struct listener_protocol protocols[PROTOCOLS_MAX];
    size_t n_protocols;
    struct http_options http;
    struct dot_options dot;
    struct listener *tcp;
    struct udp_listener *udp; /* plain DNS only */
    struct endpoint *next;    /* in the worker's list of draining ones */
};

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

/* --- endpoints -------------------------------------------------------------------------------
 */

static void add_protocol(struct endpoint *e, const char *alpn,
                         bool (*attach)(struct stream *s, void *arg),
                         int (*sniff)(const uint8_t *data, size_t len), void *arg)
{
    e->protocols[e->n_protocols++] = (struct listener_protocol){
        .alpn = alpn,
        .attach = attach,
        .sniff = sniff,
        .arg = arg,
    };
}

/* In the order in which we like them. Who sends no ALPN gets the last. */
static void choose_protocols(struct endpoint *e, const struct config_listener *l)
{
    if (l->kind == LISTENER_DOH && l->tls) {
        add_protocol(e, "h2", http_h2_attach, NULL, &e->http);
        add_protocol(e, "http/1.1", http_h1_attach, NULL, &e->http);
        add_protocol(e, NULL, http_h1_attach, NULL, &e->http);
    } else if (l->kind == LISTENER_DOH) {
        add_protocol(e, NULL, http_h2_attach, http_h2_sniff, &e->http);
        add_protocol(e, NULL, http_h1_attach, NULL, &e->http);
    } else {
        if (l->tls)
            add_protocol(e, "dot", dot_attach, NULL, &e->dot);
        add_protocol(e, NULL, dot_attach, NULL, &e->dot);
    }
}

/* Riders read their options anew for each request, so that what changes here is in force at
 * once on old connections as well. */
static void set_options(struct endpoint *e, struct worker *w, struct config *c,
                        const struct config_listener *l)
{
    struct config *before = e->current;

    e->current = config_ref(c);
    e->http = (struct http_options){
        .handler = proxy_handler(w->proxy),
        .paths = (const char *const *)c->http_paths,
        .n_paths = c->n_http_paths,
        .json = c->http_json,
        .cors = c->http_cors,
        .trusted_proxies = l->trusted_proxies.list,
        .n_trusted_proxies = l->trusted_proxies.n,
        .max_streams = c->limit_streams,
        .max_queries = c->limit_queries_per_connection,
    };
    e->dot = (struct dot_options){
        .handler = proxy_handler(w->proxy),
        .transport = l->tls ? QUERY_DOT : QUERY_TCP,
        .max_in_flight = c->limit_streams,
        .max_queries = c->limit_queries_per_connection,
    };
    config_unref(before);
}

static struct listener_options listener_options(const struct worker *w,
                                                const struct endpoint *e,
                                                const struct config *c,
                                                const struct config_listener *l)
{
    return (struct listener_options){
        .address = l->address,
        .protocols = e->protocols,
        .n_protocols = e->n_protocols,
        .tls = l->tls ? w->tls : NULL,
        .proxy_protocol = l->proxy_protocol.list,
        .n_proxy_protocol = l->proxy_protocol.n,
        .trusted_proxies = l->trusted_proxies.list,
        .n_trusted_proxies = l->trusted_proxies.n,
        .limits = w->limits,
        .max_connections = c->limit_connections,
        .max_connections_per_client = c->limit_connections_per_client,
        .handshake_ms = c->limit_handshake_ms,
        .idle_ms = c->limit_idle_ms,
        .read_ms = c->limit_read_ms,
        .write_ms = c->limit_write_ms,
    };
}

static void close_endpoint(struct endpoint *e)
{
    if (e == NULL)
        return;
    if (e->tcp != NULL)
        listener_close(e->tcp);
    if (e->udp != NULL)
        udp_close(e->udp);
    config_unref(e->opened);
    config_unref(e->current);
    free(e);
}

static void drain_endpoint(struct endpoint *e)
{
    if (e->tcp != NULL)
        listener_drain(e->tcp);
    if (e->udp != NULL)
        udp_drain(e->udp);
}

static bool is_drained(const struct endpoint *e)
{
    return (e->tcp == NULL || listener_connections(e->tcp) == 0) &&
           (e->udp == NULL || udp_in_flight(e->udp) == 0);
}

/* Who opens a listener on a socket takes it, whether it works or not. */
static int take(int *fds, size_t index)
{
    int fd = fds[index];

    fds[index] = -1;
    return fd;
}

static struct endpoint *open_endpoint(struct worker *w, struct config *c,
                                      const struct config_listener *l,
                                      struct socket_set *sockets)
{
    struct endpoint *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->opened = config_ref(c);
    choose_protocols(e, l);
    set_options(e, w, c, l);

    struct listener_options options = listener_options(w, e, c, l);
    options.address = sockets->address;
    e->tcp = listener_open(w->loop, take(sockets->tcp, w->index), &options);
    if (l->kind == LISTENER_DNS)
        e->udp = udp_open(w->loop, take(sockets->udp, w->index), proxy_handler(w->proxy));
    if (e->tcp == NULL || (l->kind == LISTENER_DNS && e->udp == NULL)) {
        close_endpoint(e);
        return NULL;
    }
    return e;
}

/* The same sockets, with what the new configuration has for them. */
static void keep_endpoint(struct worker *w, struct endpoint *e, struct config *c,
                          const struct config_listener *l)
{
    set_options(e, w, c, l);
    struct listener_options options = listener_options(w, e, c, l);
    listener_set_limits(e->tcp, &options);
    if (l->tls)
        listener_set_tls(e->tcp, w->tls);
}

/* --- orders ----------------------------------------------------------------------------------
 */

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

static void retire(struct worker *w, struct endpoint *e)
{
    if (e == NULL)
        return;
    drain_endpoint(e);
    e->next = w->draining;
    w->draining = e;
}

static bool reload_endpoints(struct worker *w, const struct order *o)
{
    struct config *c = o->config;
    struct endpoint **list = calloc(c->n_listeners, sizeof(struct endpoint *));
    bool ok = true;

    if (list == NULL)
        return false;
    for (size_t i = 0; i < c->n_listeners; i++) {
        const struct worker_listener *from = &o->listeners[i];
        if (!from->kept) {
            list[i] = open_endpoint(w, c, &c->listeners[i], from->sockets);
            ok = ok && list[i] != NULL;
            continue;
        }
        list[i] = w->endpoints[from->before];
        w->endpoints[from->before] = NULL;
        if (list[i] != NULL)
            keep_endpoint(w, list[i], c, &c->listeners[i]);
    }
    for (size_t i = 0; i < w->n_endpoints; i++)
        retire(w, w->endpoints[i]);
    free(w->endpoints);
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
        if (w->config->listeners[i].tls && w->endpoints[i] != NULL)
            listener_set_tls(w->endpoints[i]->tcp, tls);
    }
}

static void begin_drain(struct worker *w, unsigned drain_ms)
{
    w->stopping = true;
    for (size_t i = 0; i < w->n_endpoints; i++)
        retire(w, w->endpoints[i]);
    free(w->endpoints);
    w->endpoints = NULL;
    w->n_endpoints = 0;
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
    struct endpoint **link = &w->draining;

    (void)events;
    while (*link != NULL) {
        struct endpoint *e = *link;
        if (is_drained(e)) {
            *link = e->next;
            close_endpoint(e);
        } else {
            link = &e->next;
        }
    }
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

/* --- the thread ------------------------------------------------------------------------------
 */

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
    for (size_t i = 0; i < c->n_listeners; i++) {
        w->endpoints[i] = open_endpoint(w, c, &c->listeners[i], &w->sockets[i]);
        if (w->endpoints[i] == NULL)
            return false;
    }
    return true;
}

/* Front ends first: they cancel what the proxy still works on. */
static void tear_down(struct worker *w)
{
    for (size_t i = 0; i < w->n_endpoints; i++)
        close_endpoint(w->endpoints[i]);
    free(w->endpoints);
    w->endpoints = NULL;
    w->n_endpoints = 0;
    while (w->draining != NULL) {
        struct endpoint *e = w->draining;
        w->draining = e->next;
        close_endpoint(e);
    }
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

/* --- main's side -----------------------------------------------------------------------------
 */

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
