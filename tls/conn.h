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
 * left for fairness) waits in the ready queue, which runs before the loop sleeps. TLS
 * handshakes cost hundreds of times what an answer does: a pass of the loop has a share of
 * time for them, and those that do not get to it wait in a queue of their own.
 *
 * Files: conn.c turns, reading, writing, time-outs, the end; conn_start.c what comes before
 * the rider; conn_env.c the queues and what the connections of a listener share.
 * Owner of a connection: its environment. Thread: the worker. */
#ifndef PITH_TLS_CONN_H
#define PITH_TLS_CONN_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

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

enum conn_queue { QUEUE_NONE, QUEUE_READY, QUEUE_HANDSHAKE };

struct conn {
    struct stream stream; /* out: borrowed from the environment during a turn */
    struct tls_io io;
    struct conn_env *env;
    TAILQ_ENTRY(conn) link;  /* in `starting`, from OPEN on in `conns` */
    TAILQ_ENTRY(conn) place; /* in a queue */
    ev_io watcher;
    ev_timer timer;
    struct buf carry;        /* input the rider has not taken yet */
    uint64_t timer_at_ms;    /* when the timer fires; the deadline may be later */
    uint64_t since_ms;       /* begin of the state; in OPEN: of the last turn */
    uint64_t read_since_ms;  /* begin of the message that is half here */
    uint64_t cut_since_ms;   /* begin of the TLS record that is half here */
    uint64_t write_since_ms; /* since when the present step of output waits, 0: it does not */
    size_t buffered;         /* what conn_limits was told */
    size_t step;             /* octets of the present step of output; LINGER: thrown away */
    uint32_t requests;       /* stream.requests when read_since_ms was set */
    uint8_t state;           /* enum conn_state, changed by conn_set_state() only */
    uint8_t queue;           /* enum conn_queue: where it waits */
    bool running : 1;        /* inside a turn: its tail destroys, nobody else */
    bool kicked : 1;         /* the rider has something to flush */
    bool more : 1;           /* input may be there that no event will tell of */
    bool eof : 1;            /* the client's end was read */
    bool eof_told : 1;       /* and the rider knows */
    bool blocked : 1;        /* the rider left whole messages: no reading */
    bool half : 1;           /* a message is half here since read_since_ms */
    bool cut : 1;            /* a TLS record is half here since cut_since_ms */
    bool want_write : 1;     /* output waits for the socket */
    bool read_stuck : 1;     /* TLS has to write before it can read */
    bool in_order : 1;       /* nothing is under way to us: ends without LINGER */
    bool granted : 1;        /* its turn in the handshake queue has come */
    bool counted_client : 1; /* in conn_limits */
    bool counted_start : 1;
};

/* What the connections of one listener share. Owner: the listener. */
struct conn_env {
    struct ev_loop *loop;
    struct listener_options options; /* tls referenced */
    struct tls_alpn alpn;
    uint8_t *read_buf;    /* CONN_READ_SIZE octets, used within one turn */
    struct buf spare_out; /* lent to who has a turn: idle connections have no output
                           * buffer, and busy ones do not allocate */
    TAILQ_HEAD(conn_tailq, conn) starting, conns; /* oldest first */
    size_t n_starting, n_conns;                   /* of the first; of both */
    size_t n_conns_peak;                          /* since memory was last given back */
    struct conn_tailq ready, handshakes;          /* queues */
    uint64_t handshake_us_left;                   /* of this pass of the loop */
    size_t n_handshakes;                          /* in that queue */
    ev_prepare prepare;                           /* runs the queues before the loop sleeps */
    ev_idle idle; /* active while something waits: keeps the loop awake */
    void (*on_closed)(struct conn_env *env); /* a descriptor became free */
    bool draining;
};

enum {
    CONN_CARRY_SMALL = 2 * 1024, /* carried input that is cheaper copied than appended to */
    CONN_READ_SIZE = CONN_CARRY_SMALL + 16 * 1024, /* a turn reads at most a full record */
    CONN_CARRY_MAX = 2 + 65535, /* input kept that the rider does not take: reading stops */
};

/* ---- conn_env.c ---- */

/* Sets up lists and watchers; false when memory is out. */
bool conn_env_init(struct conn_env *env);
/* Ends every connection and frees. */
void conn_env_deinit(struct conn_env *env);
/* So many handshakes wait that accepting more would only make the queue longer. */
bool conn_env_busy(const struct conn_env *env);
/* Tells every rider to finish; connections without one end. */
void conn_env_drain(struct conn_env *env);
/* The connection gets a turn without a new event. Nothing when it waits already. */
void conn_enqueue(struct conn *c, enum conn_queue queue);
void conn_dequeue(struct conn *c);

/* ---- conn_start.c ---- */

/* Takes fd, a connected non-blocking socket. Without memory or over a cap it is closed. */
void conn_open(struct conn_env *env, int fd, const struct addr *peer);
/* The parts of a turn before OPEN. */
void conn_proxy_turn(struct conn *c);
void conn_handshake_turn(struct conn *c);
void conn_sniff_turn(struct conn *c);

/* ---- conn.c ---- */

extern const struct stream_carrier conn_carrier;
void conn_set_state(struct conn *c, enum conn_state state);
/* Reads behind what is carried; *data is valid until the next call. Returns the octets. */
size_t conn_gather(struct conn *c, bool readable, const uint8_t **data);
/* Keeps what was gathered from `used` on. */
void conn_carry(struct conn *c, const uint8_t *data, size_t len, size_t used);
/* One turn; events as libev has them, 0 for none. May destroy the connection. */
void conn_turn(struct conn *c, int events);
/* The end of every event: watchers, time-out, or the end of the connection. */
void conn_tail(struct conn *c);
void conn_on_io(struct ev_loop *loop, ev_io *w, int events);
void conn_on_timer(struct ev_loop *loop, ev_timer *w, int events);
/* Frees at once; not inside a turn. */
void conn_destroy(struct conn *c);

#endif
