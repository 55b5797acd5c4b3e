/* endpoint.c - see endpoint.h. */
#include "endpoint.h"

#include <stdlib.h>

#include "http/http.h"
#include "tls/dot.h"
#include "udp.h"

enum { PROTOCOLS_MAX = 3 };

struct endpoint {
    struct config *opened;  /* whose lists the listener borrows for its life */
    struct config *current; /* whose texts the options below borrow */
    bool tls;
    struct listener_protocol protocols[PROTOCOLS_MAX];
    size_t n_protocols;
    struct http_options http;
    struct dot_options dot;
    struct listener *tcp;
    struct udp_listener *udp; /* plain DNS only */
    struct endpoint *next;    /* among those that drain */
};

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
static void set_options(struct endpoint *e, const struct endpoint_env *env, struct config *c,
                        const struct config_listener *l)
{
    struct config *before = e->current;

    e->current = config_ref(c);
    e->http = (struct http_options){
        .handler = env->handler,
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
        .handler = env->handler,
        .transport = l->tls ? QUERY_DOT : QUERY_TCP,
        .max_in_flight = c->limit_streams,
        .max_queries = c->limit_queries_per_connection,
    };
    config_unref(before);
}

static struct listener_options listener_options(const struct endpoint_env *env,
                                                const struct endpoint *e,
                                                const struct config *c,
                                                const struct config_listener *l)
{
    return (struct listener_options){
        .address = l->address,
        .protocols = e->protocols,
        .n_protocols = e->n_protocols,
        .proxy_protocol = l->proxy_protocol.list,
        .n_proxy_protocol = l->proxy_protocol.n,
        .trusted_proxies = l->trusted_proxies.list,
        .n_trusted_proxies = l->trusted_proxies.n,
        .limits = env->limits,
        .max_connections = c->limit_connections,
        .max_connections_per_client = c->limit_connections_per_client,
        .handshake_ms = c->limit_handshake_ms,
        .idle_ms = c->limit_idle_ms,
        .read_ms = c->limit_read_ms,
        .write_ms = c->limit_write_ms,
    };
}

/* Who opens a listener on a socket takes it, whether it works or not. */
static int take(int *fds, size_t index)
{
    int fd = fds[index];

    fds[index] = -1;
    return fd;
}

struct endpoint *endpoint_open(const struct endpoint_env *env, struct config *c,
                               const struct config_listener *l, struct tls_context *tls,
                               struct socket_set *sockets)
{
    struct endpoint *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->opened = config_ref(c);
    e->tls = l->tls;
    choose_protocols(e, l);
    set_options(e, env, c, l);

    struct listener_options options = listener_options(env, e, c, l);
    options.address = sockets->address;
    options.tls = l->tls ? tls : NULL;
    e->tcp = listener_open(env->loop, take(sockets->tcp, env->index), &options);
    if (l->kind == LISTENER_DNS)
        e->udp = udp_open(env->loop, take(sockets->udp, env->index), env->handler);
    if (e->tcp == NULL || (l->kind == LISTENER_DNS && e->udp == NULL)) {
        endpoint_close(e);
        return NULL;
    }
    return e;
}

void endpoint_keep(const struct endpoint_env *env, struct endpoint *e, struct config *c,
                   const struct config_listener *l, struct tls_context *tls)
{
    set_options(e, env, c, l);
    struct listener_options options = listener_options(env, e, c, l);
    listener_set_limits(e->tcp, &options);
    endpoint_set_tls(e, tls);
}

void endpoint_set_tls(struct endpoint *e, struct tls_context *tls)
{
    if (e->tls)
        listener_set_tls(e->tcp, tls);
}

void endpoint_retire(struct endpoint *e, struct endpoint **draining)
{
    if (e == NULL)
        return;
    listener_drain(e->tcp);
    if (e->udp != NULL)
        udp_drain(e->udp);
    e->next = *draining;
    *draining = e;
}

static bool is_drained(const struct endpoint *e)
{
    return listener_connections(e->tcp) == 0 && (e->udp == NULL || udp_in_flight(e->udp) == 0);
}

void endpoint_sweep(struct endpoint **draining)
{
    for (struct endpoint **link = draining; *link != NULL;) {
        struct endpoint *e = *link;
        if (!is_drained(e)) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        endpoint_close(e);
    }
}

void endpoint_close(struct endpoint *e)
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

void endpoint_close_all(struct endpoint **draining)
{
    while (*draining != NULL) {
        struct endpoint *e = *draining;
        *draining = e->next;
        endpoint_close(e);
    }
}
