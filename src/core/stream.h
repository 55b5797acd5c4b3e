/* stream.h - the seam between an ordered byte stream and the protocol on it.
 *
 * The carrier (tls/conn.c: TLS or clear TCP; in tests: memory) embeds a struct
 * stream. The rider (DNS over TCP/TLS framing, HTTP/2, HTTP/1.1) gets bytes by
 * on_data(), puts bytes into `out`, and never does I/O. One wake-up goes:
 *
 *      read(s) -> on_data() ... -> on_flush() -> one write of all of `out`
 *
 * An answer that comes later (a miss) is the rider's own event: it calls
 * stream_kick(), and the carrier runs on_flush() and writes before its loop sleeps,
 * once for all that was kicked.
 *
 * Lifetimes: the carrier calls destroy() exactly once, from the tail of its event
 * handler, never inside a call of the rider. After stream_close() or a false from
 * on_data()/on_flush() the rider gets no more data, but may still be asked to flush.
 * Thread: one worker. */
#ifndef PITH_CORE_STREAM_H
#define PITH_CORE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/buf.h"

struct stream;

enum {
    /* A rider stops producing when `out` holds this much, and goes on at the next
     * on_flush(), which follows when the carrier has drained it. One DNS message and
     * its frame may go over the mark. */
    STREAM_OUT_HIGH = 128 * 1024,
};

enum stream_close {
    STREAM_FLUSH, /* send what is in `out`, then end in good order (close_notify, FIN) */
    STREAM_ABORT, /* end now */
};

struct stream_carrier {
    void (*kick)(struct stream *s);
    void (*close)(struct stream *s, enum stream_close how);
};

struct stream_rider {
    const char *name;
    /* len > 0 octets came. Sets *used to how many it is done with (all, or fewer when a
     * frame is not whole yet or `out` is full); the rest comes again, with more after
     * it or once `out` was drained. False: end the stream after flushing. */
    bool (*on_data)(struct stream *s, const uint8_t *data, size_t len, size_t *used);
    /* Put what waits into `out`, up to STREAM_OUT_HIGH. False: end after flushing. */
    bool (*on_flush)(struct stream *s);
    /* The client sent all it has (close_notify or FIN), `left` octets were never used:
     * answers still owed go out, then the rider closes. */
    void (*on_eof)(struct stream *s);
    /* The server stops or the listener goes away: finish what was accepted, say so to the
     * client where the protocol can (GOAWAY), close when nothing is owed. */
    void (*on_shutdown)(struct stream *s);
    /* Queries (or other work) in flight: the idle time-out runs only at 0. */
    size_t (*in_flight)(const struct stream *s);
    /* True while the peer is in the middle of something it has to finish (half a frame,
     * a request without its end): the read time-out runs instead of the idle one. */
    bool (*mid_message)(const struct stream *s);
    /* Cancel queries in flight, free what the rider owns. */
    void (*destroy)(struct stream *s);
};

struct stream {
    const struct stream_carrier *carrier;
    const struct stream_rider *rider; /* NULL until ALPN chose one */
    void *rider_state;                /* the rider's own; freed by its destroy() */
    struct buf out;                   /* rider -> carrier */
    struct addr peer;                 /* who connected */
    struct addr client;               /* who asks: the peer, or what PROXY said */
    struct addr local;                /* what it connected to */
    bool secure;                      /* TLS */
    uint32_t requests;                /* whole requests so far, counted by the rider: each
                                       * starts the read time-out anew */
};

static inline void stream_kick(struct stream *s)
{
    s->carrier->kick(s);
}

static inline void stream_close(struct stream *s, enum stream_close how)
{
    s->carrier->close(s, how);
}

#endif
