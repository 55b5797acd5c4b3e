/* server.h - workers and their listeners: start, reload, drain.
 *
 * The server belongs to the main thread. Each worker thread owns an ev_loop, its SO_REUSEPORT
 * sockets, an upstream set, a proxy; the cache, TLS contexts and connection caps are shared. */
#ifndef PITH_SERVER_H
#define PITH_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

struct server;

/* Opens every listener, then starts the workers. On failure nothing is left started, and one
 * clear line is in error. crowded(arg) is called in a worker when the cache wants more memory:
 * the main thread is to call server_grow_cache(). */
struct server *server_start(struct config *config, void (*crowded)(void *arg), void *arg,
                            char *error, size_t error_size);
void server_grow_cache(struct server *s);
/* Moves to a new configuration without dropping a connection, a query or the cache. False with
 * a line in error, and the old one goes on. */
bool server_reload(struct server *s, struct config *config, char *error, size_t error_size);
/* Certificate files changed on disk: load them (a bad one is logged, the old one stays). Called
 * now and then by main. */
void server_check_certificates(struct server *s);
/* Stops accepting, waits up to drain_ms for what was accepted, stops the workers, saves the
 * snapshot, frees. */
void server_stop(struct server *s, unsigned drain_ms);

#endif
