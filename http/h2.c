/* h2.c - HTTP/2 (RFC 9113): streams in, responses out, limits on what a client may cause.
 *
 *      on_data --mem_recv--> on_header ... doh_end() --(hit)--> respond() --+
 *      on_flush <--kick-- respond() <--(miss, later)-- query_reply()        |
 *         |                                                                 v
 *         +--mem_send--> HEADERS, DATA into `out` <-- nghttp2's queue <-- submit_response
 *
 * What a client can make us hold or do is bounded in one place each:
 * - requests: at most max_streams objects; those whose stream was reset while their query is
 *   still at work count as well, and may be half of them, so resetting (by either side) buys
 *   nothing;
 * - octets: messages and replies that wait count into `held`, and with all other connections'
 *   into held.h;
 * - nuisance (resets, PING, SETTINGS, empty DATA, stream errors): a token bucket, refilled by
 *   time and by answers that were taken;
 * - anything at all without a request: `idle_octets`.
 *
 * Beyond: GOAWAY with ENHANCE_YOUR_CALM and the end. nghttp2 bounds CONTINUATION and ACKs.
 *
 * Owner: the stream's rider_state. Thread: one worker. */
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "http/date.h"
#include "http/doh.h"
#include "http/h2_session.h"
#include "http/held.h"
#include "http/http.h"
#include "http/pool.h"

enum {
    STREAM_COST = 768,          /* nghttp2's, of an open stream and what waits for it, about */
    REPLY_INLINE = 512,         /* most replies, padded ones too (RFC 8467: 468) */
    HELD_MAX = 2 * 1024 * 1024, /* octets of bodies and replies of a connection */
    IDLE_OCTETS_MAX = 1024 * 1024, /* received since the last whole request */
    HEADERS_ABUSE = 4 * DOH_HEADERS_MAX,
    BUDGET_MAX = 200,  /* nuisances at once, */
    BUDGET_PER_S = 50, /* and in the long run */
    GOAWAY_FRAME = 9 + 8,
};

/* One request. Lives from its HEADERS until its stream is closed and its query answered. */
struct request {
    struct doh_request doh; /* first: respond() finds its request by it */
    struct h2 *h2;
    struct request *prev, *next; /* in h2->requests */
    int32_t id;
    bool ended;          /* END_STREAM came */
    bool asked;          /* its query is in flight */
    bool answered;       /* a response was submitted */
    bool closed;         /* the stream is gone, only the query is awaited */
    size_t message_held; /* octets of its message in h2->held */
    uint8_t *reply;      /* reply_inline or memory of its own */
    size_t reply_len, reply_sent;
    uint8_t reply_inline[REPLY_INLINE];
};

struct h2 {
    struct stream *stream;
    const struct http_options *options;
    nghttp2_session *session;
    struct request *requests;
    struct request *current; /* whose fields are coming */
    const char *date;        /* of this wake-up, NULL between */
    uint32_t n_requests;     /* objects, those with closed streams too */
    uint32_t n_reading;      /* requests not ended */
    uint32_t n_left;         /* queries in flight whose stream is closed */
    uint32_t n_asked;        /* queries in flight */
    uint32_t n_sending;      /* responses not all sent, stream open */
    uint32_t n_total;        /* requests of this connection's life */
    uint32_t budget;
    uint64_t refilled_ms; /* when the bucket last got something for time */
    size_t held, idle_octets;
    size_t reported;    /* of all that is held, see held.h */
    bool said_settings; /* ours are in `out` */
    bool greeted;       /* the client's SETTINGS came */
    bool draining;      /* GOAWAY said: no new requests */
    bool failed;        /* ends as soon as `out` is written */
};

static nghttp2_session_callbacks *callbacks; /* of all sessions of the process */

/* ---- requests */

static void respond(struct doh_request *r, const struct http_response *response);

static struct request *request_create(struct h2 *c, int32_t id)
{
    struct request *q = pool_take(sizeof(*q));

    if (!q)
        return NULL;
    doh_init(&q->doh, c->options, &c->stream->client, respond);
    q->h2 = c;
    q->id = id;
    q->ended = q->asked = q->answered = q->closed = false;
    q->message_held = 0;
    q->reply = q->reply_inline;
    q->reply_len = q->reply_sent = 0;
    q->prev = NULL;
    q->next = c->requests;
    if (q->next)
        q->next->prev = q;
    c->requests = q;
    c->n_requests++;
    c->n_reading++;
    return q;
}

/* The request's message may have got memory of its own, or given it back. */
static void account_message(struct request *q)
{
    size_t now = doh_memory(&q->doh);

    q->h2->held += now - q->message_held;
    q->message_held = now;
}

/* Gives back the object and what it holds; a query in flight is cancelled. */
static void request_destroy(struct request *q)
{
    struct h2 *c = q->h2;

    c->held -= q->message_held;
    c->n_asked -= q->asked;
    c->n_left -= q->asked && q->closed;
    doh_deinit(&q->doh);
    if (q->reply != q->reply_inline) {
        c->held -= q->reply_len;
        free(q->reply);
    }
    if (q->prev)
        q->prev->next = q->next;
    else
        c->requests = q->next;
    if (q->next)
        q->next->prev = q->prev;
    c->n_requests--;
    pool_give(q);
}

/* ---- limits */

/* Says GOAWAY past nghttp2, whose state may not allow it any more; `out` is always between two
 * frames. Returns what makes nghttp2 stop. */
static int fail(struct h2 *c, uint32_t code, const char *why)
{
    uint8_t frame[GOAWAY_FRAME] = {0, 0, 8, NGHTTP2_GOAWAY};
    uint32_t last = (uint32_t)nghttp2_session_get_last_proc_stream_id(c->session);

    if (c->failed)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    c->failed = true;
    metrics_count(code == NGHTTP2_ENHANCE_YOUR_CALM ? M_HTTP_ABUSE : M_STREAM_ERRORS);
    log_debug("http/2: connection ended: %s", why);
    for (int i = 0; i < 4; i++) {
        frame[9 + i] = (uint8_t)(last >> (24 - 8 * i));
        frame[13 + i] = (uint8_t)(code >> (24 - 8 * i));
    }
    buf_append(&c->stream->out, frame, sizeof(frame));
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* One nuisance; the clock is only read when the bucket is empty. */
static int spend(struct h2 *c, const char *what)
{
    uint64_t now = 0, tokens;

    if (c->budget == 0) {
        now = clock_now_ms();
        tokens = (now - c->refilled_ms) * BUDGET_PER_S / 1000;
        c->budget = tokens < BUDGET_MAX ? (uint32_t)tokens : BUDGET_MAX;
        if (tokens > 0)
            c->refilled_ms = now;
    }
    if (c->budget == 0)
        return fail(c, NGHTTP2_ENHANCE_YOUR_CALM, what);
    c->budget--;
    return 0;
}

/* ---- responses */

static ssize_t on_read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct request *q = source->ptr;
    size_t n = q->reply_len - q->reply_sent;

    (void)user;
    if (n > size)
        n = size;
    memcpy(out, q->reply + q->reply_sent, n);
    q->reply_sent += n;
    if (q->reply_sent == q->reply_len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        /* The rest of the request is of no use (RFC 9113 8.1). */
        if (!q->ended)
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    }
    return (ssize_t)n;
}

/* Keeps a body until nghttp2 may send it; false when there is no memory, or too much waits. */
static bool keep_reply(struct request *q, const uint8_t *body, size_t len)
{
    struct h2 *c = q->h2;

    if (len > sizeof(q->reply_inline)) {
        uint8_t *mem = c->held + len > HELD_MAX ? NULL : malloc(len);
        if (!mem)
            return false;
        q->reply = mem;
        c->held += len;
    }
    memcpy(q->reply, body, len);
    q->reply_len = len;
    return true;
}

/* Which fields are indexed by HPACK was measured (instructions a response): constant ones and
 * the date, which stays a second, cost a third of literals. A lifetime differs from answer to
 * answer; each new value would go into the table, push out another one, and cost 3200 more than
 * a literal. nghttp2 never indexes content-length by itself. */
static nghttp2_nv nv(const struct http_field *f)
{
    uint8_t flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;

    if (f->varies)
        flags |= NGHTTP2_NV_FLAG_NO_INDEX;
    /* nghttp2 does not write to names and values. Names are constants. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)f->name, (uint8_t *)(uintptr_t)f->value,
                        f->name_len, f->value_len, flags};
}

static void submit(struct request *q, const struct http_response *response)
{
    struct h2 *c = q->h2;
    struct http_field fields[RESPONSE_FIELDS_MAX];
    nghttp2_nv nva[RESPONSE_FIELDS_MAX + 1];
    nghttp2_data_provider body = {.source.ptr = q, .read_callback = on_read_body};
    char scratch[RESPONSE_SCRATCH], status[3];
    const char *date = c->date ? c->date : http_date(clock_wall_s());
    size_t n = response_fields(response, c->options, date, fields, scratch);

    for (int i = 0, v = response->status; i < 3; i++, v /= 10)
        status[2 - i] = (char)('0' + v % 10);
    nva[0] = nv(&(struct http_field){":status", status, 7, 3, false});
    for (size_t i = 0; i < n; i++)
        nva[i + 1] = nv(&fields[i]);
    /* Without a body END_STREAM is on the HEADERS; but an early answer needs DATA as the point
     * where the client is told to stop. */
    if (nghttp2_submit_response(c->session, q->id, nva, n + 1,
                                q->reply_len > 0 || !q->ended ? &body : NULL) != 0)
        fail(c, NGHTTP2_INTERNAL_ERROR, "out of memory");
}

static void respond(struct doh_request *r, const struct http_response *response)
{
    struct request *q = (struct request *)r;
    struct h2 *c = q->h2;

    c->n_asked -= q->asked;
    c->n_left -= q->asked && q->closed;
    q->asked = false;
    if (q->closed) {
        request_destroy(q);
        return;
    }
    q->answered = true;
    c->n_sending++;
    if (response->no_body || keep_reply(q, response->body, response->body_len))
        submit(q, response);
    else
        nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, q->id,
                                  NGHTTP2_ENHANCE_YOUR_CALM);
    if (!c->date)
        stream_kick(c->stream);
}

/* ---- what nghttp2 tells */

/* Half of the limit is for who waits for its answers. */
static bool has_room(const struct h2 *c)
{
    return c->n_requests < c->options->max_streams &&
           (c->n_left == 0 || 2 * c->n_left < c->options->max_streams);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *c = user;
    int32_t id = frame->hd.stream_id;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) { /* trailers */
        c->current = nghttp2_session_get_stream_user_data(session, id);
        return 0;
    }
    c->current = NULL;
    if (has_room(c))
        c->current = request_create(c, id);
    if (!c->current) {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
        return spend(c, "streams over the limit");
    }
    nghttp2_session_set_stream_user_data(session, id, c->current);
    return 0;
}

static void on_path(struct request *q, const char *text, size_t len)
{
    doh_target(&q->doh, text, len);
    account_message(q);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct h2 *c = user;
    struct request *q = c->current;
    struct doh_request *r;
    const char *text = (const char *)value;

    (void)session;
    (void)flags;
    if (!q)
        return 0;
    r = &q->doh;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        doh_field(r, (const char *)name, name_len, text, value_len);
    else
        r->headers += name_len + value_len + 32;
    if (r->headers > HEADERS_ABUSE)
        return fail(c, NGHTTP2_ENHANCE_YOUR_CALM, "header fields without end");
    if (r->error != 0 || name[0] != ':' || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (name_len == 5 && memcmp(name, ":path", 5) == 0)
        on_path(q, text, value_len);
    else if (name_len == 7 && memcmp(name, ":method", 7) == 0)
        doh_method(r, text, value_len);
    return 0;
}

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t id,
                         const uint8_t *data, size_t len, void *user)
{
    struct h2 *c = user;
    struct request *q = nghttp2_session_get_stream_user_data(session, id);

    (void)flags;
    if (!q)
        return 0;
    doh_body(&q->doh, data, len);
    account_message(q);
    if (c->held > HELD_MAX) {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM);
        return spend(c, "bodies without end");
    }
    return 0;
}

/* The client sent all of a request. */
static void end_request(struct h2 *c, struct request *q)
{
    if (q->ended)
        return;
    q->ended = true;
    c->n_reading--;
    c->n_total++;
    c->idle_octets = 0;
    c->stream->requests++;
    doh_end(&q->doh);
    account_message(q);
    if (q->doh.state == DOH_ASKED) {
        q->asked = true;
        c->n_asked++;
    }
}

static void on_headers_whole(struct h2 *c, const nghttp2_frame *frame)
{
    static const nghttp2_nv go_on = {(uint8_t *)(uintptr_t) ":status",
                                     (uint8_t *)(uintptr_t) "100", 7, 3, 0};
    struct request *q = c->current;
    bool body = !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM);

    c->current = NULL;
    if (!q)
        return;
    if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
        doh_headers(&q->doh, body);
        if (body && q->doh.expects && q->doh.state == DOH_READING)
            nghttp2_submit_headers(c->session, NGHTTP2_FLAG_NONE, q->id, NULL, &go_on, 1, NULL);
    }
    if (!body)
        end_request(c, q);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *c = user;
    struct request *q;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        on_headers_whole(c, frame);
        return 0;
    case NGHTTP2_DATA:
        if (!end)
            return frame->hd.length == 0 ? spend(c, "empty DATA") : 0;
        q = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (q)
            end_request(c, q);
        return 0;
    case NGHTTP2_SETTINGS:
        c->greeted = true;
        return frame->hd.flags & NGHTTP2_FLAG_ACK ? 0 : spend(c, "SETTINGS");
    case NGHTTP2_PING:
        return frame->hd.flags & NGHTTP2_FLAG_ACK ? 0 : spend(c, "PING");
    default:
        return 0;
    }
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct h2 *c = user;
    struct request *q = nghttp2_session_get_stream_user_data(session, id);

    if (!q) /* refused at its HEADERS, and counted there */
        return 0;
    if (c->current == q)
        c->current = NULL;
    c->n_reading -= !q->ended;
    c->n_sending -= q->answered;
    q->closed = true;
    c->n_left += q->asked;
    if (!q->asked)
        request_destroy(q);
    if (code == NGHTTP2_NO_ERROR) {
        c->budget += c->budget < BUDGET_MAX;
        return 0;
    }
    return spend(c, "reset streams");
}

/* ---- the rider */

static void drain(struct h2 *c)
{
    if (c->draining)
        return;
    c->draining = true;
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

static bool h2_on_data(struct stream *s, const uint8_t *data, size_t len, size_t *used)
{
    struct h2 *c = s->rider_state;
    ssize_t n;

    *used = 0;
    /* Nothing more is read from who does not read: what we would have to say to it, ACKs and
     * resets too, would pile up. */
    if (buf_len(&s->out) >= STREAM_OUT_HIGH)
        return true;
    *used = len;
    if (c->failed)
        return false;
    c->date = http_date(clock_wall_s());
    n = nghttp2_session_mem_recv(c->session, data, len);
    c->date = NULL;
    if (n < 0 && !c->failed)
        fail(c, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR,
             nghttp2_strerror((int)n));
    c->idle_octets += len;
    if (c->idle_octets > IDLE_OCTETS_MAX && !c->failed)
        fail(c, NGHTTP2_ENHANCE_YOUR_CALM, "octets without a request");
    if (c->options->max_queries > 0 && c->n_total >= c->options->max_queries)
        drain(c);
    return !c->failed;
}

static bool h2_on_flush(struct stream *s)
{
    struct h2 *c = s->rider_state;
    const uint8_t *data;
    ssize_t n;

    while (!c->failed && buf_len(&s->out) < STREAM_OUT_HIGH) {
        n = nghttp2_session_mem_send(c->session, &data);
        if (n == 0)
            break;
        if (n < 0 || !buf_append(&s->out, data, (size_t)n))
            fail(c, NGHTTP2_INTERNAL_ERROR, "out of memory");
        else if (!c->said_settings)
            c->said_settings = h2_session_announce(s->out.mem + s->out.end - n, (size_t)n,
                                                   c->options->max_streams);
    }
    if (!held_report(&c->reported,
                     c->held + c->n_requests * (sizeof(struct request) + STREAM_COST)))
        fail(c, NGHTTP2_ENHANCE_YOUR_CALM, "too much is held in all");
    if (c->failed)
        return false;
    if (buf_len(&s->out) >= STREAM_OUT_HIGH)
        return true;
    if (c->draining && c->n_requests == 0)
        return false;
    return nghttp2_session_want_read(c->session) || nghttp2_session_want_write(c->session);
}

static void h2_on_eof(struct stream *s)
{
    struct h2 *c = s->rider_state;

    drain(c);
    /* Requests that were cut off will never end. */
    for (struct request *q = c->requests; q; q = q->next)
        if (!q->ended && !q->closed)
            nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, q->id, NGHTTP2_CANCEL);
    stream_kick(s);
}

static void h2_on_shutdown(struct stream *s)
{
    drain(s->rider_state);
    stream_kick(s);
}

static size_t h2_in_flight(const struct stream *s)
{
    const struct h2 *c = s->rider_state;

    return c->n_asked;
}

static bool h2_mid_message(const struct stream *s)
{
    const struct h2 *c = s->rider_state;

    /* A response that waits for the client's window counts as well. */
    return !c->greeted || c->n_reading > 0 || c->n_sending > 0;
}

static void h2_destroy(struct stream *s)
{
    struct h2 *c = s->rider_state;

    while (c->requests)
        request_destroy(c->requests);
    held_move(&c->reported, 0);
    nghttp2_session_del(c->session);
    free(c);
    s->rider_state = NULL;
}

static const struct stream_rider h2_rider = {
    .name = "h2",
    .on_data = h2_on_data,
    .on_flush = h2_on_flush,
    .on_eof = h2_on_eof,
    .on_shutdown = h2_on_shutdown,
    .in_flight = h2_in_flight,
    .mid_message = h2_mid_message,
    .destroy = h2_destroy,
};

static void init_once(void)
{
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

bool http_h2_attach(struct stream *s, void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct http_options *options = arg;
    struct h2 *c;

    pthread_once(&once, init_once);
    c = callbacks ? calloc(1, sizeof(*c)) : NULL;
    if (!c)
        return false;
    c->stream = s;
    c->options = options;
    c->budget = BUDGET_MAX;
    c->refilled_ms = clock_now_ms();
    c->session = h2_session_create(callbacks, c, options->max_streams);
    if (!c->session) {
        free(c);
        return false;
    }
    s->rider_state = c;
    s->rider = &h2_rider;
    return true;
}

int http_h2_sniff(const uint8_t *data, size_t len)
{
    size_t n = len < NGHTTP2_CLIENT_MAGIC_LEN ? len : NGHTTP2_CLIENT_MAGIC_LEN;

    if (memcmp(data, NGHTTP2_CLIENT_MAGIC, n) != 0)
        return 0;
    return n == NGHTTP2_CLIENT_MAGIC_LEN ? 1 : -1;
}
