/* http_fake.h - what the HTTP tests, fuzz targets and benchmarks put at both ends of a session:
 * a carrier in memory and a handler that answers with a canned reply, at once or when told. */
#ifndef PITH_TESTS_HTTP_FAKE_H
#define PITH_TESTS_HTTP_FAKE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/query.h"
#include "core/stream.h"

enum { FAKE_HELD_MAX = 4096, FAKE_REPLY_MAX = 65535 };

/* Answers the octets of the query with QR set, followed by `extra` octets of 0xaa. */
struct fake_handler {
    struct query_handler handler; /* first */
    bool hold;                    /* keep queries for fake_release() */
    enum query_verdict verdict;
    uint32_t max_age_s;
    bool private_answer;
    size_t extra;
    struct query *held[FAKE_HELD_MAX];
    size_t n_held, n_submitted, n_cancelled, peak;
    struct addr client;          /* of the last query */
    uint8_t msg[FAKE_REPLY_MAX]; /* the last query */
    size_t msg_len;
};

static inline void fake_reply(struct fake_handler *h, struct query *q, const uint8_t *msg,
                              size_t len)
{
    static _Thread_local uint8_t out[FAKE_REPLY_MAX];
    struct query_reply reply = {
        .verdict = h->verdict, .max_age_s = h->max_age_s, .private_answer = h->private_answer};

    if (len < 12 && h->verdict == QUERY_ANSWER)
        reply.verdict = QUERY_MALFORMED;
    if (reply.verdict == QUERY_ANSWER) {
        size_t extra = h->extra < sizeof(out) - len ? h->extra : sizeof(out) - len;
        memcpy(out, msg, len);
        out[2] |= 0x80;
        memset(out + len, 0xaa, extra);
        reply.msg = out;
        reply.len = len + extra;
    }
    q->on_reply(q, &reply);
}

static inline void fake_submit(struct query_handler *qh, struct query *q)
{
    struct fake_handler *h = (struct fake_handler *)qh;

    h->n_submitted++;
    h->client = q->client;
    h->msg_len = q->msg_len < sizeof(h->msg) ? q->msg_len : sizeof(h->msg);
    if (h->msg_len > 0)
        memcpy(h->msg, q->msg, h->msg_len);
    if (!h->hold || h->n_held == FAKE_HELD_MAX) {
        fake_reply(h, q, q->msg, q->msg_len);
        return;
    }
    q->state = h;
    h->held[h->n_held++] = q;
    if (h->n_held > h->peak)
        h->peak = h->n_held;
}

static inline void fake_forget(struct fake_handler *h, size_t i)
{
    memmove(h->held + i, h->held + i + 1, (h->n_held - i - 1) * sizeof(h->held[0]));
    h->n_held--;
}

static inline void fake_cancel(struct query_handler *qh, struct query *q)
{
    struct fake_handler *h = (struct fake_handler *)qh;

    for (size_t i = 0; i < h->n_held; i++) {
        if (h->held[i] == q) {
            fake_forget(h, i);
            h->n_cancelled++;
            return;
        }
    }
    abort(); /* cancelled what is not in flight */
}

/* Answers the i-th query that is held, with a message of its own. */
static inline void fake_release(struct fake_handler *h, size_t i)
{
    static const uint8_t header[12] = {0};
    struct query *q = h->held[i];

    fake_forget(h, i);
    fake_reply(h, q, header, sizeof(header));
}

static inline void fake_handler_init(struct fake_handler *h)
{
    memset(h, 0, sizeof(*h));
    h->handler.submit = fake_submit;
    h->handler.cancel = fake_cancel;
    h->max_age_s = 300;
}

struct fake_carrier {
    struct stream s; /* first */
    unsigned kicks;
    bool ended; /* the rider wants the stream to end */
    bool aborted;
    struct buf rest; /* given, but not used yet */
};

static inline void fake_kick(struct stream *s)
{
    ((struct fake_carrier *)s)->kicks++;
}

static inline void fake_close(struct stream *s, enum stream_close how)
{
    ((struct fake_carrier *)s)->ended = true;
    ((struct fake_carrier *)s)->aborted |= how == STREAM_ABORT;
}

static inline void fake_carrier_init(struct fake_carrier *c)
{
    static const struct stream_carrier carrier = {fake_kick, fake_close};

    memset(c, 0, sizeof(*c));
    c->s.carrier = &carrier;
    addr_parse(&c->s.peer, "192.0.2.1:4000", 0);
    c->s.client = c->s.peer;
    addr_parse(&c->s.local, "192.0.2.53:443", 0);
}

static inline void fake_flush(struct fake_carrier *c)
{
    if (!c->s.rider->on_flush(&c->s))
        c->ended = true;
}

/* One wake-up: data comes, and what it causes goes into s.out. */
static inline void fake_data(struct fake_carrier *c, const void *data, size_t len)
{
    size_t used = 0;

    if (c->ended)
        return;
    if (!buf_append(&c->rest, data, len))
        abort();
    if (buf_len(&c->rest) > 0) {
        if (!c->s.rider->on_data(&c->s, buf_data(&c->rest), buf_len(&c->rest), &used))
            c->ended = true;
        buf_consume(&c->rest, used);
    }
    fake_flush(c);
}

static inline void fake_carrier_deinit(struct fake_carrier *c)
{
    if (c->s.rider)
        c->s.rider->destroy(&c->s);
    buf_release(&c->s.out);
    buf_release(&c->rest);
}

#endif
