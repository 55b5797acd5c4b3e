/* h1.c - HTTP/1.1 and 1.0 (RFC 9112): requests in, responses out, in order.
 *
 *            +------+     +--------+     +------+ or +------------+ size  +------------+
 *     +----> | LINE | --> | FIELDS | --> | BODY |    | CHUNK_LINE | ----> | CHUNK_DATA |
 *     |      +------+     +--------+     +------+    +------------+ <---- +------------+
 *     |                     | no body       |           | size 0        CHUNK_END
 *     |                     v               v           v
 *     +---------------- request ended <-----+------- TRAILERS     OVER: no more is read
 *
 * Requests queue in the order they came. A response is written straight to `out` when its
 * request is the first of the queue, else it is kept until those before it are answered. At
 * most max_streams requests wait; then the rest of the input stays with the carrier.
 *
 * An error in framing is answered 400 and ends the connection; so does a response to a request
 * whose body was not read to its end.
 *
 * Owner: the stream's rider_state. Thread: one worker. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "http/date.h"
#include "http/doh.h"
#include "http/h1_parse.h"
#include "http/held.h"
#include "http/http.h"

enum {
    HEAD_MAX = DOH_HEADERS_MAX, /* octets of a head, request line and all */
    CHUNK_LINE_MAX = 256,
    HELD_MAX = 2 * 1024 * 1024,    /* responses that wait for their turn */
    UNREAD_MAX = 256 * 1024,       /* of a body that is read only to be thrown away */
    IDLE_OCTETS_MAX = 1024 * 1024, /* received since the last whole request */
    RESPONSE_HEAD = 1024,          /* more than status line and fields ever take */
};

enum h1_state { LINE, FIELDS, BODY, CHUNK_LINE, CHUNK_DATA, CHUNK_END, TRAILERS, OVER };

struct request {
    struct doh_request doh; /* first: respond() finds its request by it */
    struct h1 *h1;
    struct request *next;
    bool http10, close;
    bool wants_continue;  /* 100 is due when its turn comes */
    bool ended;           /* all of it was read */
    bool asked, answered; /* its query is in flight; its response is written or kept */
    struct buf kept;      /* the response, while others are before it */
};

struct h1 {
    struct stream *stream;
    const struct http_options *options;
    struct request *first, *last; /* the queue */
    struct request *current;      /* being read; the last one, or NULL */
    struct h1_head head;          /* of current */
    struct buf in;                /* a line that is not whole */
    uint64_t left;                /* of the body or chunk */
    size_t head_octets;           /* of the head, later of the trailers */
    size_t unread, held, idle_octets;
    size_t reported; /* of all that is held, see held.h */
    uint32_t n_requests, n_asked, n_total;
    uint8_t state;
    bool in_data;  /* within on_data(): no kick is needed */
    bool draining; /* no request after the present ones */
    bool over;     /* the last response is in `out` */
};

/* ---- requests */

static void respond(struct doh_request *r, const struct http_response *response);

static struct request *request_create(struct h1 *c)
{
    struct request *q = malloc(sizeof(*q));

    if (!q)
        return NULL;
    doh_init(&q->doh, c->options, &c->stream->client, respond);
    memset((char *)q + offsetof(struct request, h1), 0,
           sizeof(*q) - offsetof(struct request, h1));
    q->h1 = c;
    if (c->last)
        c->last->next = q;
    else
        c->first = q;
    c->last = c->current = q;
    c->n_requests++;
    return q;
}

/* Takes the first one off the queue. */
static void request_pop(struct h1 *c)
{
    struct request *q = c->first;

    c->first = q->next;
    if (!c->first)
        c->last = NULL;
    if (c->current == q)
        c->current = NULL;
    c->n_requests--;
    c->n_asked -= q->asked;
    c->held -= q->kept.size;
    buf_release(&q->kept);
    doh_deinit(&q->doh);
    free(q);
}

/* Moves on what may go: kept responses whose turn came, 100 (Continue), the end. */
static void advance(struct h1 *c)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct buf *out = &c->stream->out;
    struct request *q;

    while ((q = c->first) && !c->over && buf_len(out) < STREAM_OUT_HIGH) {
        if (q->wants_continue && !q->answered) {
            q->wants_continue = false;
            if (!buf_append(out, go_on, sizeof(go_on) - 1))
                c->over = true;
        }
        if (!q->answered)
            return;
        if (!buf_append(out, buf_data(&q->kept), buf_len(&q->kept)))
            c->over = true;
        c->held -= q->kept.size;
        buf_release(&q->kept);
        if (!q->ended && c->state != OVER)
            return; /* the rest of its body is being thrown away */
        c->over |= q->close;
        request_pop(c);
    }
}

/* ---- responses */

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

/* Status line, fields and the empty line at `at`; returns their end. */
static char *write_head(char *at, const struct request *q, const struct http_response *response)
{
    const struct http_options *o = q->h1->options;
    struct http_field fields[RESPONSE_FIELDS_MAX];
    char scratch[RESPONSE_SCRATCH], status[4] = "000";
    const char *reason = response_reason(response->status);
    size_t n = response_fields(response, o, http_date(clock_wall_s()), fields, scratch);

    for (int i = 0, v = response->status; i < 3; i++, v /= 10)
        status[2 - i] = (char)('0' + v % 10);
    at = PUT(at, "HTTP/1.1 ");
    at = put(at, status, 3);
    at = PUT(at, " ");
    at = put(at, reason, strlen(reason));
    at = PUT(at, "\r\n");
    for (size_t i = 0; i < n; i++) {
        at = put(at, fields[i].name, fields[i].name_len);
        at = PUT(at, ": ");
        at = put(at, fields[i].value, fields[i].value_len);
        at = PUT(at, "\r\n");
    }
    if (q->close)
        at = PUT(at, "connection: close\r\n");
    else if (q->http10)
        at = PUT(at, "connection: keep-alive\r\n");
    return PUT(at, "\r\n");
}

static bool write_response(struct buf *out, const struct request *q,
                           const struct http_response *response)
{
    size_t cors = q->h1->options->cors ? strlen(q->h1->options->cors) : 0;
    size_t body = response->no_body ? 0 : response->body_len;
    char *at = (char *)buf_reserve(out, RESPONSE_HEAD + cors + body), *end;

    if (!at)
        return false;
    end = write_head(at, q, response);
    if (body > 0)
        end = put(end, (const char *)response->body, body);
    buf_commit(out, (size_t)(end - at));
    return true;
}

/* The response cannot be kept: this one and those after it are lost, the client sees the end.
 */
static void give_up(struct h1 *c)
{
    log_debug("http/1.1: responses wait without end");
    metrics_count(M_HTTP_ABUSE);
    c->state = OVER;
    stream_close(c->stream, STREAM_FLUSH);
}

static void respond(struct doh_request *r, const struct http_response *response)
{
    struct request *q = (struct request *)r;
    struct h1 *c = q->h1;
    bool direct = q == c->first && buf_len(&c->stream->out) < STREAM_OUT_HIGH;

    c->n_asked -= q->asked;
    q->asked = false;
    q->answered = true;
    if (!q->ended)
        q->close = true; /* where its body ends is not worth finding out */
    if (c->draining && !q->next)
        q->close = true;
    if (!write_response(direct ? &c->stream->out : &q->kept, q, response))
        c->over = true;
    c->held += q->kept.size;
    if (c->held > HELD_MAX)
        give_up(c);
    if (!c->in_data) {
        advance(c);
        stream_kick(c->stream);
    }
}

/* ---- reading */

/* The request is answered with an error of framing, nothing after it is read. */
static void refuse(struct h1 *c, uint16_t status)
{
    struct request *q = c->current ? c->current : request_create(c);

    c->state = OVER;
    c->current = NULL;
    metrics_count(M_STREAM_ERRORS);
    if (!q) {
        c->over = true;
        return;
    }
    q->close = true;
    doh_refuse(&q->doh, status);
}

static void end_request(struct h1 *c)
{
    struct request *q = c->current;

    c->current = NULL;
    c->state = q->close ? OVER : LINE;
    c->idle_octets = 0;
    c->n_total++;
    c->stream->requests++;
    q->ended = true;
    q->wants_continue = false;
    doh_end(&q->doh);
    if (q->doh.state == DOH_ASKED) {
        q->asked = true;
        c->n_asked++;
    }
}

/* What follows the head. */
static void begin_body(struct h1 *c)
{
    const struct h1_head *h = &c->head;
    struct request *q = c->current;
    bool body = h->chunked || h->length > 0;

    q->http10 = h->minor == 0;
    q->close = h->close || (q->http10 && !h->keep_alive) || c->draining ||
               (c->options->max_queries > 0 && c->n_total + 1 >= c->options->max_queries);
    q->ended = !body;
    doh_headers(&q->doh, body);
    if (!body) {
        end_request(c);
        return;
    }
    c->state = h->chunked ? CHUNK_LINE : BODY;
    c->left = h->length;
    c->unread = 0;
    if (q->http10)
        return;
    if ((q->doh.expects || q->doh.error == 417) && q->doh.state == DOH_DONE)
        c->state = OVER; /* the client will not send its body */
    else
        q->wants_continue = q->doh.expects;
}

/* One line without its CRLF, from data + *pos and what is in c->in. False: more is needed, or
 * the connection's requests are over. The line is good until line_done(). */
static bool read_line(struct h1 *c, const uint8_t *data, size_t len, size_t *pos, size_t max,
                      const char **line, size_t *line_len)
{
    const uint8_t *start = data + *pos, *lf = memchr(start, '\n', len - *pos);
    size_t n = lf ? (size_t)(lf - start) + 1 : len - *pos;

    *pos += n;
    if (buf_len(&c->in) + n > max) {
        refuse(c, c->state == LINE ? 414 : c->state == FIELDS ? 431 : 400);
        return false;
    }
    if (!lf || buf_len(&c->in) > 0) {
        if (!buf_append(&c->in, start, n)) {
            refuse(c, 503);
            return false;
        }
        start = buf_data(&c->in);
        n = buf_len(&c->in);
    }
    if (!lf)
        return false;
    if (n < 2 || start[n - 2] != '\r') { /* a bare LF ends no line (RFC 9112 2.2) */
        refuse(c, 400);
        return false;
    }
    *line = (const char *)start;
    *line_len = n - 2;
    return true;
}

static void line_done(struct h1 *c)
{
    if (c->in.mem)
        buf_release(&c->in);
}

static void on_request_line(struct h1 *c, const char *line, size_t len)
{
    struct h1_head *h = &c->head;
    struct request *q;
    uint16_t status;

    if (len == 0) /* one or the other is sent after a body (RFC 9112 2.2) */
        return;
    *h = (struct h1_head){0};
    q = request_create(c);
    if (!q) {
        c->state = OVER;
        c->over = true;
        return;
    }
    status = h1_request_line(h, line, len);
    if (status == 0 && !h1_target(&h->target, &h->target_len))
        status = 400;
    if (status != 0) {
        refuse(c, status);
        return;
    }
    doh_method(&q->doh, h->method, h->method_len);
    doh_target(&q->doh, h->target, h->target_len);
    c->head_octets = len;
    c->state = FIELDS;
}

static void on_field_line(struct h1 *c, const char *line, size_t len)
{
    struct http_field f;
    char lower[DOH_NAME_MAX];
    uint16_t status;

    c->head_octets += len + 2;
    if (len == 0)
        status = h1_head_end(&c->head);
    else if (c->head_octets > HEAD_MAX)
        status = 431;
    else
        status = h1_field_line(&c->head, line, len, &f, lower);
    if (status != 0)
        refuse(c, status);
    else if (len == 0)
        begin_body(c);
    else
        doh_field(&c->current->doh, f.name, f.name_len, f.value, f.value_len);
}

static void on_chunk_line(struct h1 *c, const char *line, size_t len)
{
    if (!h1_chunk_line(line, len, &c->left)) {
        refuse(c, 400);
        return;
    }
    c->head_octets = 0;
    c->state = c->left > 0 ? CHUNK_DATA : TRAILERS;
}

/* Trailers mean nothing here, but have to be well-formed. */
static void on_trailer_line(struct h1 *c, const char *line, size_t len)
{
    struct h1_head ignored = {.minor = 1};
    struct http_field f;
    char lower[DOH_NAME_MAX];

    c->head_octets += len + 2;
    if (len == 0)
        end_request(c);
    else if (c->head_octets > HEAD_MAX || h1_field_line(&ignored, line, len, &f, lower) != 0)
        refuse(c, 400);
}

static void on_line(struct h1 *c, const uint8_t *data, size_t len, size_t *pos)
{
    const char *line;
    size_t n;
    bool chunk = c->state == CHUNK_LINE || c->state == CHUNK_END;

    if (!read_line(c, data, len, pos, chunk ? CHUNK_LINE_MAX : HEAD_MAX, &line, &n))
        return;
    switch ((enum h1_state)c->state) {
    case LINE:
        on_request_line(c, line, n);
        break;
    case FIELDS:
        on_field_line(c, line, n);
        break;
    case CHUNK_LINE:
        on_chunk_line(c, line, n);
        break;
    case CHUNK_END:
        c->state = CHUNK_LINE;
        if (n > 0)
            refuse(c, 400);
        break;
    case TRAILERS:
        on_trailer_line(c, line, n);
        break;
    case BODY:
    case CHUNK_DATA:
    case OVER:
        break;
    }
    line_done(c);
}

/* Octets of a body or chunk. */
static size_t on_body(struct h1 *c, const uint8_t *data, size_t len)
{
    struct request *q = c->current;
    size_t n = c->left < len ? (size_t)c->left : len;

    q->wants_continue = false;
    doh_body(&q->doh, data, n);
    c->left -= n;
    if (q->doh.state == DOH_DONE)
        c->unread += n;
    if (c->unread > UNREAD_MAX) {
        c->state = OVER;
        c->current = NULL;
    } else if (c->left == 0 && c->state == CHUNK_DATA) {
        c->state = CHUNK_END;
    } else if (c->left == 0) {
        end_request(c);
    }
    return n;
}

/* No further request is taken up now; what is begun goes on. */
static bool must_wait(const struct h1 *c)
{
    return buf_len(&c->stream->out) >= STREAM_OUT_HIGH ||
           (c->state == LINE && c->n_requests >= c->options->max_streams);
}

static bool h1_on_data(struct stream *s, const uint8_t *data, size_t len, size_t *used)
{
    struct h1 *c = s->rider_state;
    size_t pos = 0;

    c->in_data = true;
    while (pos < len && c->state != OVER && !must_wait(c)) {
        if (c->state == BODY || c->state == CHUNK_DATA)
            pos += on_body(c, data + pos, len - pos);
        else
            on_line(c, data, len, &pos);
        advance(c);
    }
    c->in_data = false;
    c->idle_octets += pos;
    if (c->idle_octets > IDLE_OCTETS_MAX)
        give_up(c);
    *used = c->state == OVER ? len : pos;
    return true;
}

/* What it keeps between wake-ups. Messages of queries in flight were given back. */
static size_t held_octets(const struct h1 *c)
{
    size_t message = c->current ? doh_memory(&c->current->doh) : 0;

    return c->held + c->in.size + message + c->n_requests * sizeof(struct request);
}

static bool h1_on_flush(struct stream *s)
{
    struct h1 *c = s->rider_state;

    advance(c);
    if (!held_report(&c->reported, held_octets(c))) {
        log_debug("http/1.1: too much is held in all");
        metrics_count(M_HTTP_ABUSE);
        return false;
    }
    return !c->over && (c->first || (!c->draining && c->state != OVER));
}

/* A request that was begun is not waited for; one that has no first octet is none. */
static void h1_on_eof(struct stream *s)
{
    struct h1 *c = s->rider_state;

    c->draining = true;
    if (c->current && !c->current->answered)
        refuse(c, 400);
    c->state = OVER;
    c->current = NULL;
    stream_kick(s);
}

static void h1_on_shutdown(struct stream *s)
{
    struct h1 *c = s->rider_state;

    c->draining = true;
    if (!c->current && c->state == LINE)
        c->state = OVER;
    stream_kick(s);
}

static size_t h1_in_flight(const struct stream *s)
{
    const struct h1 *c = s->rider_state;

    return c->n_asked;
}

static bool h1_mid_message(const struct stream *s)
{
    const struct h1 *c = s->rider_state;

    return c->current || buf_len(&c->in) > 0;
}

static void h1_destroy(struct stream *s)
{
    struct h1 *c = s->rider_state;

    while (c->first)
        request_pop(c);
    buf_release(&c->in);
    held_move(&c->reported, 0);
    free(c);
    s->rider_state = NULL;
}

static const struct stream_rider h1_rider = {
    .name = "http/1.1",
    .on_data = h1_on_data,
    .on_flush = h1_on_flush,
    .on_eof = h1_on_eof,
    .on_shutdown = h1_on_shutdown,
    .in_flight = h1_in_flight,
    .mid_message = h1_mid_message,
    .destroy = h1_destroy,
};

bool http_h1_attach(struct stream *s, void *arg)
{
    struct h1 *c = calloc(1, sizeof(*c));

    if (!c)
        return false;
    c->stream = s;
    c->options = arg;
    s->rider_state = c;
    s->rider = &h1_rider;
    return true;
}
