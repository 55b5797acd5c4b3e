/* dot.c - DNS messages on a byte stream (RFC 1035 4.2.2, RFC 7766, RFC 7858).
 *
 *      0        2               2+n      4+n
 *      +--------+---------------+--------+------
 *      | n      | DNS message   | m      | ...
 *      +--------+---------------+--------+------
 *
 * A query that is answered inside query_submit() uses the connection's spare query object;
 * one that is answered later keeps it, and the next query gets a new spare: a hit
 * allocates nothing. Owner: the stream. Thread: the worker. */
#include "tls/dot.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/metrics.h"

struct dot;

struct dot_query {
    struct query query;
    struct dot *dot;
    struct dot_query *prev, *next; /* among the connection's open ones */
    bool open;                     /* submitted, not yet replied */
};

struct dot {
    struct stream *stream;
    const struct dot_options *options;
    struct dot_query *spare;
    struct dot_query *open; /* queries that wait for their answer */
    uint32_t in_flight;
    uint32_t seen;   /* queries of this connection so far */
    bool submitting; /* inside query_submit() */
    bool ended;      /* no further query: end of input, shutdown, malformed input */
    bool half;       /* the input ends with a part of a message */
};

static struct dot_query *from_query(struct query *q)
{
    return (struct dot_query *)((char *)q - offsetof(struct dot_query, query));
}

static void unlink_open(struct dot *d, struct dot_query *q)
{
    if (q->prev)
        q->prev->next = q->next;
    else
        d->open = q->next;
    if (q->next)
        q->next->prev = q->prev;
    d->in_flight--;
}

static void link_open(struct dot *d, struct dot_query *q)
{
    q->prev = NULL;
    q->next = d->open;
    if (d->open)
        d->open->prev = q;
    d->open = q;
    d->in_flight++;
}

/* No query comes any more; when none is owed an answer the stream ends. */
static void end_input(struct dot *d)
{
    d->ended = true;
    d->half = false;
    if (d->in_flight == 0 && !d->submitting)
        stream_close(d->stream, STREAM_FLUSH);
}

static void malformed(struct dot *d)
{
    metrics_count(M_STREAM_ERRORS);
    log_debug("dot: stream ended for a malformed message");
    end_input(d);
}

/* Frames the answer into `out`. Without memory the stream ends: an answer is never lost
 * silently. */
static void put_answer(struct dot *d, const struct query_reply *reply)
{
    size_t len = reply->len;
    uint8_t *p = len <= 65535 ? buf_reserve(&d->stream->out, 2 + len) : NULL;
    if (!p) {
        stream_close(d->stream, STREAM_ABORT);
        return;
    }
    p[0] = (uint8_t)(len >> 8);
    p[1] = (uint8_t)len;
    memcpy(p + 2, reply->msg, len);
    buf_commit(&d->stream->out, 2 + len);
}

static void on_reply(struct query *query, const struct query_reply *reply)
{
    struct dot_query *q = from_query(query);
    struct dot *d = q->dot;

    if (reply->verdict == QUERY_MALFORMED)
        malformed(d);
    else
        put_answer(d, reply);
    if (!q->open) {
        d->submitting = false; /* inside submit: the spare stays the spare */
        return;
    }
    unlink_open(d, q);
    if (d->spare)
        free(q);
    else
        d->spare = q;
    if (d->ended && d->in_flight == 0)
        stream_close(d->stream, STREAM_FLUSH);
    stream_kick(d->stream);
}

/* False when memory is out. */
static bool submit(struct dot *d, const uint8_t *msg, size_t len)
{
    struct dot_query *q = d->spare;
    if (!q) {
        q = d->spare = malloc(sizeof *q);
        if (!q)
            return false;
    }
    q->dot = d;
    q->open = false;
    q->query.msg = msg;
    q->query.msg_len = len;
    q->query.handler = d->options->handler;
    q->query.on_reply = on_reply;
    q->query.client = d->stream->client;
    q->query.transport = d->options->transport;
    d->seen++;
    d->stream->requests++;
    d->submitting = true;
    query_submit(&q->query);
    if (d->submitting) { /* no answer yet */
        d->submitting = false;
        d->spare = NULL;
        q->open = true;
        link_open(d, q);
    }
    return true;
}

/* Takes no further query now; what is here waits. */
static bool is_full(const struct dot *d)
{
    return d->in_flight >= d->options->max_in_flight ||
           buf_len(&d->stream->out) >= STREAM_OUT_HIGH;
}

static bool is_spent(const struct dot *d)
{
    return d->options->max_queries > 0 && d->seen >= d->options->max_queries;
}

static bool dot_on_data(struct stream *s, const uint8_t *data, size_t len, size_t *used)
{
    struct dot *d = s->rider_state;
    size_t at = 0;

    d->half = false;
    while (!d->ended && !is_full(d)) {
        if (is_spent(d)) {
            end_input(d);
            break;
        }
        if (len - at < 2) {
            d->half = len > at;
            break;
        }
        size_t n = (size_t)data[at] << 8 | data[at + 1];
        if (len - at - 2 < n) {
            d->half = true;
            break;
        }
        if (!submit(d, data + at + 2, n)) {
            stream_close(s, STREAM_ABORT);
            break;
        }
        at += 2 + n;
    }
    *used = d->ended ? len : at;
    if (d->ended && d->in_flight == 0)
        stream_close(s, STREAM_FLUSH);
    return true;
}

static bool dot_on_flush(struct stream *s)
{
    (void)s; /* answers are put into `out` as they come */
    return true;
}

static void dot_on_eof(struct stream *s)
{
    end_input(s->rider_state);
}

static size_t dot_in_flight(const struct stream *s)
{
    const struct dot *d = s->rider_state;
    return d->in_flight;
}

static bool dot_mid_message(const struct stream *s)
{
    const struct dot *d = s->rider_state;
    return d->half;
}

static void dot_destroy(struct stream *s)
{
    struct dot *d = s->rider_state;
    while (d->open) {
        struct dot_query *q = d->open;
        unlink_open(d, q);
        query_cancel(&q->query);
        free(q);
    }
    free(d->spare);
    free(d);
    s->rider_state = NULL;
}

static const struct stream_rider dot_rider = {
    .name = "dot",
    .on_data = dot_on_data,
    .on_flush = dot_on_flush,
    .on_eof = dot_on_eof,
    .on_shutdown = dot_on_eof,
    .in_flight = dot_in_flight,
    .mid_message = dot_mid_message,
    .destroy = dot_destroy,
};

bool dot_attach(struct stream *s, void *arg)
{
    struct dot *d = calloc(1, sizeof *d);
    if (!d)
        return false;
    d->stream = s;
    d->options = arg;
    s->rider = &dot_rider;
    s->rider_state = d;
    return true;
}
