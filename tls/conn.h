/* conn.h - one connection: the carrier of a stream, TLS or clear.
 *
 *                  +-------+     +-----------+
 *     accepted --> | PROXY | --> | HANDSHAKE | ---+
 *         |        +-------+     +-----------+    |
 *         |            |         +-------+     +------+
 *         +------------+-------> | SNIFF | --> | OPEN | --+
 *                                +-------+     +------+   |
 *                  +------+     +--------+     +-------+  |
 *                  | DEAD | <-- | LINGER | <-- | FLUSH | <+
 *                  +------+     +--------+     +-------+
 *
 * PROXY waits for the header of a load balancer, SNIFF for enough clear text to tell the
 * protocol, FLUSH sends what is left, LINGER has said FIN and waits shortly for the
 * client's, so that the kernel does not throw away what is under way (a close with unread
 * input is a reset). Every state may go to DEAD; only the tail of an event destroys.
 *
 * One wake-up is one turn: read what is there (bounded), give it to the rider, write all
 * that it produced. What remains to be done without a new event (kicks by riders, input
 * left for fairness) waits in the ready list, which runs before the loop sleeps. */
#ifndef PITH_TLS_CONN_H
#define PITH_TLS_CONN_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/stream.h"
#include "tls/io.h"
#include "tls/listener.h"

enum conn_state {
    CONN_PROXY,
    CONN_HANDSHAKE,
    CONN_SNIFF,
    CONN_OPEN,
    CONN_FLUSH,
    CONN_LINGER,
    CONN_DEAD,
};

struct conn;

/* What the connections of one listener share. Owner: the listener. */
struct conn_env {
    struct ev_loop *loop;
    struct listener_options options; /* tls referenced */
    struct tls_alpn alpn;
    uint8_t *read_buf;    /* CONN_READ_SIZE octets, used within one turn */
    struct buf spare_out; /* lent to the `out` of who has a turn */
    struct conn *conns;   /* all of them */
    size_t n_conns;
    struct conn *ready, **ready_tail;
    ev_prepare prepare; /* runs the ready list before the loop sleeps */
    ev_idle idle;       /* active while something is left on it: keeps the loop awake */
    void (*on_closed)(struct conn_env *env); /* a descriptor became free */
};

enum {
    CONN_READ_SIZE = 64 * 1024, /* octets that one turn reads at most */
    CONN_CARRY_MAX =
        2 + 65535, /* input kept that the rider does not take: then reading stops */
};

/* Sets up lists and watchers; false when memory is out. */
bool conn_env_init(struct conn_env *env);
/* Ends every connection and frees. */
void conn_env_deinit(struct conn_env *env);

/* Takes fd, a connected non-blocking socket. Without memory or over a cap it is closed. */
void conn_open(struct conn_env *env, int fd, const struct addr *peer);
/* Tells every rider to finish; connections without one end. */
void conn_drain_all(struct conn_env *env);

#endif
