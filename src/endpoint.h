/* endpoint.h - a listener of the configuration, as one worker has it: sockets, protocols,
 * options.
 *
 *                 endpoint_open()
 *                       |      <----+ endpoint_keep(), endpoint_set_tls()
 *                       v           |
 *                    OPEN ----------+
 *                       | endpoint_retire(): accepts nothing more, finishes what it accepted
 *                       v
 *                   DRAINING
 *                       | endpoint_sweep(): all is finished
 *                       v
 *                     gone
 *
 * Owner and thread: the worker. */
#ifndef PITH_ENDPOINT_H
#define PITH_ENDPOINT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "core/query.h"
#include "sockets.h"
#include "tls/listener.h"

struct endpoint;

/* What all endpoints of a worker have in common. */
struct endpoint_env {
    struct ev_loop *loop;
    size_t index; /* of the worker: which socket of a set is its own */
    struct query_handler *handler;
    struct conn_limits *limits;
};

/* l is a listener of c, which is referenced. tls: for listeners that want it. Takes the
 * worker's sockets of the set, even when it fails. NULL when memory is out. */
struct endpoint *endpoint_open(const struct endpoint_env *env, struct config *c,
                               const struct config_listener *l, struct tls_context *tls,
                               struct socket_set *sockets);

/* The same listener in another configuration: new options, limits and certificates, the sockets
 * and connections it has. */
void endpoint_keep(const struct endpoint_env *env, struct endpoint *e, struct config *c,
                   const struct config_listener *l, struct tls_context *tls);

/* Certificates for new connections; nothing for a listener without TLS. */
void endpoint_set_tls(struct endpoint *e, struct tls_context *tls);

/* Stops accepting, tells clients so, and puts the endpoint on the list. NULL is fine. */
void endpoint_retire(struct endpoint *e, struct endpoint **draining);

/* Closes those on the list that have nothing open any more. Not inside an event of theirs. */
void endpoint_sweep(struct endpoint **draining);

/* Ends what is open, cancels its queries, frees. Not inside an event of the endpoint. NULL is
 * fine. */
void endpoint_close(struct endpoint *e);
void endpoint_close_all(struct endpoint **draining);

#endif
