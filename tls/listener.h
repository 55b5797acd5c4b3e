/* listener.h - listening TCP sockets, their connections and caps, one worker.
 *
 * Hides accept, TLS handshake, ALPN, PROXY, time-outs and writes. What runs on a connection is
 * chosen from the listener's protocols by ALPN. Owner and thread: the worker that runs the
 * loop. */
#ifndef PITH_TLS_LISTENER_H
#define PITH_TLS_LISTENER_H

#include <ev.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/stream.h"
#include "tls/tls.h"

/* What may run on a listener. attach() sets s->rider and s->rider_state; false when memory is
 * out (the connection ends). */
struct listener_protocol {
    const char
        *alpn; /* NULL: chosen when the client sends no ALPN or the listener is clear text; on
                * clear text with several such rows the first whose sniff() says yes */
    bool (*attach)(struct stream *s, void *arg);
    /* Clear text only, may be NULL (yes): 1 yes, 0 no, -1 needs more octets. */
    int (*sniff)(const uint8_t *data, size_t len);
    void *arg;
};

/* What the caps of listener_options are counted against, by all workers (limits.h). Owner: the
 * server, which outlives all listeners. NULL when memory is out. */
struct conn_limits;
struct conn_limits *conn_limits_create(void);
void conn_limits_destroy(struct conn_limits *l);

struct listener_options {
    struct addr address;
    const struct listener_protocol *protocols;
    size_t n_protocols;
    struct tls_context *tls;           /* NULL: clear text. Referenced */
    const struct cidr *proxy_protocol; /* from whom PROXY is required; n 0: nobody */
    size_t n_proxy_protocol;
    const struct cidr *trusted_proxies; /* exempt from the cap per client */
    size_t n_trusted_proxies;
    struct conn_limits *limits;
    uint32_t max_connections, max_connections_per_client; /* over all workers */
    uint32_t handshake_ms, idle_ms, read_ms, write_ms;
};

struct listener;

/* Takes fd, a bound and listening non-blocking socket. options is copied, but what its pointers
 * name is borrowed until listener_close(), except tls, which is referenced. NULL when memory is
 * out. */
struct listener *listener_open(struct ev_loop *loop, int fd,
                               const struct listener_options *options);
/* New connections get this context from now on (reload). */
void listener_set_tls(struct listener *l, struct tls_context *tls);
/* New time-outs and caps (reload). */
void listener_set_limits(struct listener *l, const struct listener_options *options);
/* Stops accepting and tells riders to finish (on_shutdown). */
void listener_drain(struct listener *l);
size_t listener_connections(const struct listener *l);
/* Ends all connections now and frees. */
void listener_close(struct listener *l);

#endif
