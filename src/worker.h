/* worker.h - one thread that answers: its loop, listeners, proxy and upstreams.
 *
 *      main                                     worker
 *      worker_create()                          -
 *      worker_start()      --- thread --->      upstreams, proxy, listeners; then ev_run()
 *      worker_reload() ... --- order, wake ---> done between two events, main waits for it
 *      worker_drain()      --- order, wake ---> finishes what it accepted, ends
 *      worker_join()       <-- thread ends ---  everything of it is gone
 *      worker_destroy()
 *
 * Owner: the server. All functions are for the main thread. What a worker has is created, used
 * and destroyed by its own thread, except its loop. */
#ifndef PITH_WORKER_H
#define PITH_WORKER_H

#include <stdbool.h>
#include <stddef.h>

#include "cache/cache.h"
#include "config.h"
#include "sockets.h"
#include "tls/listener.h"

struct worker;

/* What all workers share. Cache and limits outlive them; config and tls are referenced. */
struct worker_setup {
    struct config *config;
    struct tls_context *tls; /* NULL when no listener has TLS */
    struct cache *cache;
    struct conn_limits *limits;
};

/* index: which socket of each set is its own. NULL when resources are out. */
struct worker *worker_create(size_t index, const struct worker_setup *setup);

/* Starts the thread and waits until it has all its listeners. sockets: a set for each listener
 * of the configuration; taken from as far as it got. False when it could not (it has ended
 * then). */
bool worker_start(struct worker *w, struct socket_set *sockets);

/* Where the listeners of a new configuration come from. */
struct worker_listener {
    bool kept;                  /* it goes on, with what is new about it */
    size_t before;              /* then: which of the old configuration's it was */
    struct socket_set *sockets; /* else: where its sockets are */
};

/* Moves to another configuration; listeners has one for each of its listeners. Listeners that
 * are not kept finish what they accepted. False when memory was out; the worker goes on as well
 * as it can. */
bool worker_reload(struct worker *w, struct config *config, struct tls_context *tls,
                   const struct worker_listener *listeners);

/* New certificates for new connections. */
void worker_set_tls(struct worker *w, struct tls_context *tls);

/* Stops accepting; the thread ends when all that was accepted is answered, or after drain_ms.
 */
void worker_drain(struct worker *w, unsigned drain_ms);

void worker_join(struct worker *w);
/* Not running any more, or never started. */
void worker_destroy(struct worker *w);

#endif
