/* test_h2.c - HTTP/2 sessions against nghttp2's client and against raw frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <nghttp2/nghttp2.h>

#include "core/clock.h"
#include "core/metrics.h"
#include "http/held.h"
#include "http/http.h"
#include "http_fake.h"

enum { CLIENT_STREAMS = 512, BODY_MAX = 70000 };

/* www.example.com A, ID 0, RD; and its base64url. */
static const uint8_t q1[] = {0,   0,   1,   0,   0,   1,   0,   0,   0,   0,   0,
                             0,   3,   'w', 'w', 'w', 7,   'e', 'x', 'a', 'm', 'p',
                             'l', 'e', 3,   'c', 'o', 'm', 0,   0,   1,   0,   1};
#define Q1_PATH "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"

/* What the client saw of one stream. */
struct seen {
    int status;
    char fields[1024]; /* "name: value\n" each */
    uint8_t *body;
    size_t len;
    bool ended, closed;
    uint32_t code; /* of the close */
};

struct rig {
    struct fake_handler handler;
    struct http_options options;
    struct fake_carrier carrier;
    nghttp2_session *client;
    struct seen seen[CLIENT_STREAMS]; /* by (stream - 1) / 2 */
    bool goaway;
    uint32_t goaway_code;
    unsigned ping_acks, settings_acks, informational;
    uint32_t max_streams;
};

static const char *const paths[] = {"/dns-query", "/other"};

static struct seen *seen_of(struct rig *g, int32_t id)
{
    return &g->seen[(id - 1) / 2 % CLIENT_STREAMS];
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *user)
{
    struct rig *g = user;
    struct seen *s = seen_of(g, frame->hd.stream_id);
    size_t at = strlen(s->fields);

    (void)session;
    (void)flags;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        s->status = atoi((const char *)value);
        g->informational += s->status == 100;
    } else {
        snprintf(s->fields + at, sizeof(s->fields) - at, "%.*s: %.*s\n", (int)name_len, name,
                 (int)value_len, value);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                   size_t len, void *user)
{
    struct seen *s = seen_of(user, id);

    (void)session;
    (void)flags;
    if (!s->body)
        s->body = malloc(BODY_MAX);
    assert_true(s->len + len <= BODY_MAX);
    memcpy(s->body + s->len, data, len);
    s->len += len;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct rig *g = user;

    if (frame->hd.type == NGHTTP2_GOAWAY) {
        g->goaway = true;
        g->goaway_code = frame->goaway.error_code;
    }
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        g->settings_acks++;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        g->ping_acks++;
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        seen_of(g, frame->hd.stream_id)->ended = true;
    g->max_streams =
        nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    struct seen *s = seen_of(user, id);

    (void)session;
    s->closed = true;
    s->code = code;
    return 0;
}

/* ---- moving octets */

/* What the server wrote goes to the client. */
static void to_client(struct rig *g)
{
    struct buf *out = &g->carrier.s.out;

    if (buf_len(out) > 0) {
        ssize_t n = nghttp2_session_mem_recv(g->client, buf_data(out), buf_len(out));
        assert_true(n >= 0);
        assert_int_equal(n, buf_len(out));
        buf_consume(out, buf_len(out));
    }
}

/* All that waits on either side, until both are silent. */
static void pump(struct rig *g)
{
    for (bool moved = true; moved;) {
        const uint8_t *data;
        ssize_t n;

        moved = false;
        while ((n = nghttp2_session_mem_send(g->client, &data)) > 0) {
            fake_data(&g->carrier, data, (size_t)n);
            moved = true;
        }
        fake_flush(&g->carrier);
        moved |= buf_len(&g->carrier.s.out) > 0;
        to_client(g);
    }
}

static void raw(struct rig *g, uint8_t type, uint8_t flags, uint32_t id, const void *payload,
                size_t len)
{
    uint8_t frame[9 + 20000] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

    assert_true(len <= 20000);
    if (len > 0)
        memcpy(frame + 9, payload, len);
    fake_data(&g->carrier, frame, 9 + len);
}

static void raw_settings(struct rig *g, uint16_t id, uint32_t value)
{
    uint8_t p[6] = {(uint8_t)(id >> 8),     (uint8_t)id,           (uint8_t)(value >> 24),
                    (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};

    raw(g, NGHTTP2_SETTINGS, 0, 0, p, sizeof(p));
}

/* A GET of `path` as HEADERS with literal fields only. */
static size_t block_get(uint8_t *out, const char *path)
{
    size_t n = 0, len = strlen(path);

    assert_true(len < 127);
    out[n++] = 0x82; /* :method GET */
    out[n++] = 0x87; /* :scheme https */
    out[n++] = 0x04; /* :path, literal */
    out[n++] = (uint8_t)len;
    memcpy(out + n, path, len);
    n += len;
    out[n++] = 0x01; /* :authority, literal */
    out[n++] = 1;
    out[n++] = 'a';
    return n;
}

static void raw_get(struct rig *g, uint32_t id)
{
    uint8_t block[256];

    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, id, block,
        block_get(block, Q1_PATH));
}

/* ---- set-up */

static void start(struct rig *g)
{
    nghttp2_session_callbacks *cb;

    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    nghttp2_session_client_new(&g->client, cb, g);
    nghttp2_session_callbacks_del(cb);
    fake_handler_init(&g->handler);
    g->options = (struct http_options){.handler = &g->handler.handler,
                                       .paths = paths,
                                       .n_paths = 2,
                                       .json = true,
                                       .cors = "*",
                                       .max_streams = 100};
    fake_carrier_init(&g->carrier);
    assert_true(http_h2_attach(&g->carrier.s, &g->options));
}

static int setup(void **state)
{
    struct rig *g = calloc(1, sizeof(*g));

    start(g);
    nghttp2_submit_settings(g->client, 0, NULL, 0);
    pump(g);
    assert_int_equal(g->settings_acks, 1);
    assert_int_equal(g->max_streams, 100);
    *state = g;
    return 0;
}

/* The connection preface is sent, but frames are the test's own. */
static int setup_raw(void **state)
{
    struct rig *g = calloc(1, sizeof(*g));

    start(g);
    fake_data(&g->carrier, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    raw(g, NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    raw(g, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
    buf_consume(&g->carrier.s.out, buf_len(&g->carrier.s.out));
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct rig *g = *state;

    fake_carrier_deinit(&g->carrier);
    assert_int_equal(g->handler.n_held, 0);
    nghttp2_session_del(g->client);
    for (size_t i = 0; i < CLIENT_STREAMS; i++)
        free(g->seen[i].body);
    free(g);
    return 0;
}

/* ---- requests of the nghttp2 client */

struct body {
    const uint8_t *data;
    size_t len, at;
};

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct body *b = source->ptr;
    size_t n = b->len - b->at < size ? b->len - b->at : size;

    (void)session;
    (void)id;
    (void)user;
    memcpy(out, b->data + b->at, n);
    b->at += n;
    if (b->at == b->len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* fields: name, value, ... NULL. body NULL: none. */
static int32_t request(struct rig *g, const char *method, const char *path,
                       const char *const *fields, struct body *body)
{
    nghttp2_nv nva[160];
    size_t n = 0;
    const char *fixed[] = {":method",     method,  ":scheme", "https", ":authority",
                           "dns.example", ":path", path,      NULL};
    nghttp2_data_provider provider = {.source.ptr = body, .read_callback = read_body};

    for (const char *const *f = fixed; *f; f += 2)
        nva[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)f[0], (uint8_t *)(uintptr_t)f[1],
                                strlen(f[0]), strlen(f[1]), 0};
    for (const char *const *f = fields; f && *f && n < 160; f += 2)
        nva[n++] = (nghttp2_nv){(uint8_t *)(uintptr_t)f[0], (uint8_t *)(uintptr_t)f[1],
                                strlen(f[0]), strlen(f[1]), 0};
    return nghttp2_submit_request(g->client, NULL, nva, n, body ? &provider : NULL, NULL);
}

static struct seen *ask(struct rig *g, const char *method, const char *path,
                        const char *const *fields, struct body *body)
{
    int32_t id = request(g, method, path, fields, body);

    assert_true(id > 0);
    pump(g);
    return seen_of(g, id);
}

static const char *const message_type[] = {"content-type", "application/dns-message", NULL};

static void assert_answer(const struct seen *s, const uint8_t *query, size_t len)
{
    assert_int_equal(s->status, 200);
    assert_true(s->ended && s->closed);
    assert_int_equal(s->code, 0);
    assert_int_equal(s->len, len);
    assert_memory_equal(s->body, query, 2);
    assert_int_equal(s->body[2], query[2] | 0x80);
    assert_memory_equal(s->body + 3, query + 3, len - 3);
}

static void assert_usable(struct rig *g)
{
    assert_answer(ask(g, "GET", Q1_PATH, NULL, NULL), q1, sizeof(q1));
}

/* ---- tests */

static void get_answers(void **state)
{
    struct rig *g = *state;
    struct seen *s = ask(g, "GET", Q1_PATH, NULL, NULL);

    assert_answer(s, q1, sizeof(q1));
    assert_int_equal(g->handler.msg_len, sizeof(q1));
    assert_memory_equal(g->handler.msg, q1, sizeof(q1));
    assert_non_null(strstr(s->fields, "content-type: application/dns-message\n"));
    assert_non_null(strstr(s->fields, "content-length: 33\n"));
    assert_non_null(strstr(s->fields, "cache-control: max-age=300\n"));
    assert_non_null(strstr(s->fields, "access-control-allow-origin: *\n"));
    assert_non_null(strstr(s->fields, "date: "));
    assert_int_equal(g->carrier.s.rider->in_flight(&g->carrier.s), 0);
    assert_false(g->carrier.s.rider->mid_message(&g->carrier.s));
}

static void post_answers(void **state)
{
    struct rig *g = *state;
    struct body b = {q1, sizeof(q1), 0};

    assert_answer(ask(g, "POST", "/dns-query", message_type, &b), q1, sizeof(q1));
    assert_usable(g);
}

/* Method, target, media type (NULL: no body, else q1 as body), and what is due. */
static void statuses(void **state)
{
    static const struct {
        const char *method, *path, *type;
        int status;
        const char *field; /* NULL: any */
    } rows[] = {
        {"GET", Q1_PATH "=", NULL, 400, NULL}, /* 44 characters need none */
        {"GET", "/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE=", NULL, 200, NULL},
        {"GET", "/other?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", NULL, 200, NULL},
        {"GET", "/dns-query", NULL, 400, "cache-control: no-store\n"},
        {"GET", "/dns-query?dns=", NULL, 400, NULL},
        {"GET", "/dns-query?dns=!!!", NULL, 400, NULL},
        {"GET", Q1_PATH "&dns=AAAB", NULL, 400, NULL},
        {"GET", "/", NULL, 404, "content-type: text/plain; charset=utf-8\n"},
        {"GET", "/dns-queryx", NULL, 404, NULL},
        {"GET", "/dns-quer", NULL, 404, NULL},
        {"HEAD", Q1_PATH, NULL, 200, "content-length: 33\n"},
        {"HEAD", "/dns-query", NULL, 400, NULL},
        {"PUT", "/dns-query", "application/dns-message", 405,
         "allow: GET, HEAD, POST, OPTIONS\n"},
        {"DELETE", Q1_PATH, NULL, 405, "allow: GET, HEAD, POST, OPTIONS\n"},
        {"get", Q1_PATH, NULL, 405, NULL},
        {"OPTIONS", "/dns-query", NULL, 204,
         "access-control-allow-methods: GET, HEAD, POST, OPTIONS\n"},
        {"OPTIONS", "/nothing", NULL, 404, NULL},
        {"POST", "/dns-query", "application/dns-message", 200, NULL},
        {"POST", "/dns-query", "Application/DNS-Message ; charset=x", 200, NULL},
        {"POST", "/dns-query", "application/dns-messages", 415, NULL},
        {"POST", "/dns-query", "text/plain", 415, NULL},
        {"POST", "/nothing", "application/dns-message", 404, NULL},
    };
    struct rig *g = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct body b = {q1, sizeof(q1), 0};
        const char *type[] = {"content-type", rows[i].type, NULL};
        struct seen *s = ask(g, rows[i].method, rows[i].path, rows[i].type ? type : NULL,
                             rows[i].type ? &b : NULL);

        if (s->status != rows[i].status)
            fail_msg("%s %s: %d", rows[i].method, rows[i].path, s->status);
        if (rows[i].field && !strstr(s->fields, rows[i].field))
            fail_msg("%s %s: %s", rows[i].method, rows[i].path, s->fields);
        assert_true(s->ended && s->closed);
        assert_int_equal(s->code, 0);
        assert_non_null(strstr(s->fields, "date: "));
        assert_non_null(strstr(s->fields, "access-control-allow-origin: *\n"));
        if (strcmp(rows[i].method, "HEAD") == 0)
            assert_int_equal(s->len, 0);
    }
    assert_usable(g);
}

static void verdicts_and_lifetimes(void **state)
{
    struct rig *g = *state;
    struct seen *s;

    g->handler.max_age_s = 0;
    s = ask(g, "GET", Q1_PATH, NULL, NULL);
    assert_non_null(strstr(s->fields, "cache-control: no-store\n"));
    g->handler.max_age_s = 4294967295u;
    g->handler.private_answer = true;
    s = ask(g, "GET", Q1_PATH, NULL, NULL);
    assert_non_null(strstr(s->fields, "cache-control: private, max-age=4294967295\n"));
    g->handler.verdict = QUERY_LIMITED;
    s = ask(g, "GET", Q1_PATH, NULL, NULL);
    assert_int_equal(s->status, 429);
    assert_non_null(strstr(s->fields, "retry-after: 1\n"));
    g->handler.verdict = QUERY_MALFORMED;
    s = ask(g, "GET", Q1_PATH, NULL, NULL);
    assert_int_equal(s->status, 400);
}

/* HEADERS of a POST without its end, literal fields; length < 0: none is declared. */
static void raw_post(struct rig *g, uint32_t id, int length)
{
    static const char type[] = "application/dns-message";
    uint8_t b[256];
    size_t n = block_get(b, "/dns-query");

    b[0] = 0x83; /* :method POST */
    b[n++] = 0x0f;
    b[n++] = 31 - 15; /* content-type */
    b[n++] = sizeof(type) - 1;
    memcpy(b + n, type, sizeof(type) - 1);
    n += sizeof(type) - 1;
    if (length >= 0) {
        b[n++] = 0x0f;
        b[n++] = 28 - 15; /* content-length */
        b[n] = (uint8_t)snprintf((char *)b + n + 1, 8, "%d", length);
        n += 1u + b[n];
    }
    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, b, n);
}

static void raw_data(struct rig *g, uint32_t id, const uint8_t *data, size_t len, bool end)
{
    raw(g, NGHTTP2_DATA, end ? NGHTTP2_FLAG_END_STREAM : 0, id, data, len);
}

/* Takes the frames in `out`: counts those of a type and stream, keeps the last one's payload
 * start. */
static unsigned frames_out(struct rig *g, uint8_t type, uint32_t id, uint8_t first8[8],
                           uint8_t *flags)
{
    struct buf *out = &g->carrier.s.out;
    const uint8_t *p = buf_data(out), *end = p + buf_len(out);
    unsigned n = 0;

    while (end - p >= 9) {
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        uint32_t sid = (uint32_t)p[5] << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8];

        assert_true((size_t)(end - p) >= 9 + len);
        if (p[3] == type && sid == id) {
            n++;
            if (first8)
                memcpy(first8, p + 9, len < 8 ? len : 8);
            if (flags)
                *flags = p[4];
        }
        p += 9 + len;
    }
    assert_true(p == end);
    return n;
}

static void drop_out(struct rig *g)
{
    buf_consume(&g->carrier.s.out, buf_len(&g->carrier.s.out));
}

static void assert_reset(struct rig *g, uint32_t id, uint32_t code)
{
    uint8_t p[8];

    assert_int_equal(frames_out(g, NGHTTP2_RST_STREAM, id, p, NULL), 1);
    assert_int_equal((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3],
                     code);
}

/* A 200 went out: HEADERS and DATA with END_STREAM. */
static void assert_answered(struct rig *g, uint32_t id)
{
    uint8_t p[8] = {0}, flags = 0;

    assert_int_equal(frames_out(g, NGHTTP2_HEADERS, id, p, NULL), 1);
    /* :status 200, in the first block after the new size of the table (RFC 7541 6.3) */
    assert_int_equal(p[p[0] == 0x3f ? 3 : 0], 0x88);
    assert_true(frames_out(g, NGHTTP2_DATA, id, NULL, &flags) >= 1);
    assert_true(flags & NGHTTP2_FLAG_END_STREAM);
}

static void assert_raw_usable(struct rig *g, uint32_t id)
{
    assert_false(g->carrier.ended);
    drop_out(g);
    raw_get(g, id);
    assert_answered(g, id);
}

/* unbound#1469, okhttp#9684: no content-length, split, padded and empty DATA. */
static void row_07_post_in_parts(void **state)
{
    struct rig *g = *state;
    uint8_t padded[1 + 23 + 200] = {200};

    raw_post(g, 1, -1);
    raw_data(g, 1, q1, 10, false);
    raw_data(g, 1, q1 + 10, 23, true);
    assert_answered(g, 1);

    raw_post(g, 3, 33);
    memcpy(padded + 1, q1, 23);
    raw(g, NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 3, padded, sizeof(padded));
    raw_data(g, 3, q1 + 23, 10, false);
    assert_int_equal(frames_out(g, NGHTTP2_HEADERS, 3, NULL, NULL), 0);
    raw_data(g, 3, NULL, 0, true);
    assert_answered(g, 3);
    assert_int_equal(g->handler.msg_len, sizeof(q1));
    assert_memory_equal(g->handler.msg, q1, sizeof(q1));
    assert_raw_usable(g, 5);
}

/* knot#619, knot#931: two bodies interleaved. */
static void row_10_posts_interleaved(void **state)
{
    struct rig *g = *state;
    uint8_t q2[sizeof(q1)];

    memcpy(q2, q1, sizeof(q1));
    q2[0] = 0x22;
    raw_post(g, 1, 33);
    raw_post(g, 3, 33);
    raw_data(g, 1, q1, 10, false);
    raw_data(g, 3, q2, 10, false);
    assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    raw_data(g, 1, q1 + 10, 23, true);
    assert_memory_equal(g->handler.msg, q1, sizeof(q1));
    raw_data(g, 3, q2 + 10, 23, true);
    assert_memory_equal(g->handler.msg, q2, sizeof(q2));
    assert_answered(g, 1);
    assert_answered(g, 3);
}

/* bind !11709: longer or shorter than declared is the fault of that stream alone. */
static void row_08_length_mismatch_resets_the_stream(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    raw_get(g, 1);
    g->handler.hold = false;
    raw_post(g, 3, 32);
    raw_data(g, 3, q1, sizeof(q1), true);
    assert_reset(g, 3, NGHTTP2_PROTOCOL_ERROR);
    raw_post(g, 5, 34);
    raw_data(g, 5, q1, sizeof(q1), true);
    assert_reset(g, 5, NGHTTP2_PROTOCOL_ERROR);
    fake_release(&g->handler, 0);
    assert_int_equal(g->carrier.kicks, 1);
    fake_flush(&g->carrier);
    assert_answered(g, 1);
    assert_int_equal(g->handler.n_submitted, 1);
    assert_raw_usable(g, 7);
}

static void long_bodies(void **state)
{
    struct rig *g = *state;
    uint8_t *big = calloc(1, 65536 + 4096);
    struct body b = {big, 65535, 0};
    const char *declared[] = {"content-type", "application/dns-message", "content-length",
                              "65536", NULL};
    struct seen *s = ask(g, "POST", "/dns-query", message_type, &b);

    assert_int_equal(s->status, 200);
    assert_int_equal(g->handler.msg_len, 65535);
    assert_int_equal(s->len, 65535);

    b = (struct body){big, 65536, 0};
    s = ask(g, "POST", "/dns-query", message_type, &b);
    assert_int_equal(s->status, 413);
    assert_true(s->closed);

    b = (struct body){big, 65536, 0};
    s = ask(g, "POST", "/dns-query", declared, &b);
    assert_int_equal(s->status, 413);
    assert_true(s->closed);
    assert_int_equal(s->code, NGHTTP2_NO_ERROR);
    assert_int_equal(g->handler.n_submitted, 1);
    assert_usable(g);
    free(big);
}

/* Long queries in the path take memory too, which is given back and counted right. */
static void long_queries(void **state)
{
    struct rig *g = *state;
    static char path[4200] = "/dns-query?dns=";
    static uint8_t big[60000];

    memset(path + 15, 'A', 4000);
    g->handler.extra = 3000;
    for (int i = 0; i < 1200; i++) { /* of 4 KB: more than a connection may hold at a time */
        struct body b = {big, sizeof(big), 0};
        struct seen *s = ask(g, "GET", path, NULL, NULL);

        assert_int_equal(s->status, 200);
        if (i % 40 == 0)
            assert_int_equal(ask(g, "POST", "/dns-query", message_type, &b)->status, 200);
        for (size_t j = 0; j < CLIENT_STREAMS; j++) {
            free(g->seen[j].body);
            g->seen[j] = (struct seen){0};
        }
    }
}

static void row_10_many_at_once(void **state)
{
    struct rig *g = *state;
    int32_t ids[100];

    g->handler.hold = true;
    for (size_t i = 0; i < 100; i++)
        ids[i] = request(g, "GET", Q1_PATH, NULL, NULL);
    pump(g);
    assert_int_equal(g->handler.n_held, 100);
    assert_int_equal(g->carrier.s.rider->in_flight(&g->carrier.s), 100);
    while (g->handler.n_held > 0) /* from the last to the first */
        fake_release(&g->handler, g->handler.n_held - 1);
    pump(g);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(seen_of(g, ids[i])->status, 200);
    assert_int_equal(g->carrier.s.rider->in_flight(&g->carrier.s), 0);
}

/* A stream over the limit is refused, the rest goes on (RFC 9113 5.1.2). */
static void row_19_streams_over_the_limit(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    for (uint32_t i = 0; i < 100; i++)
        raw_get(g, 2 * i + 1);
    assert_int_equal(g->handler.n_held, 100);
    drop_out(g);
    for (uint32_t id = 201; id < 211; id += 2) {
        raw_get(g, id);
        assert_reset(g, id, NGHTTP2_REFUSED_STREAM);
    }
    assert_false(g->carrier.ended);
    /* One is reset, but its query is still at work: no room yet. */
    raw(g, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    assert_int_equal(g->handler.n_held, 100);
    raw_get(g, 211);
    assert_reset(g, 211, NGHTTP2_REFUSED_STREAM);
    fake_release(&g->handler, 0);
    g->handler.hold = false;
    assert_raw_usable(g, 213);
    while (g->handler.n_held > 0)
        fake_release(&g->handler, 0);
}

static void assert_calmed(struct rig *g)
{
    uint8_t p[8] = {0};

    assert_true(g->carrier.ended);
    assert_int_equal(frames_out(g, NGHTTP2_GOAWAY, 0, p, NULL), 1);
    assert_int_equal(p[7], NGHTTP2_ENHANCE_YOUR_CALM);
}

/* CVE-2023-44487 (pdns#13349): HEADERS and RST_STREAM over and over. */
static void row_19_rapid_reset(void **state)
{
    struct rig *g = *state;
    uint32_t id = 1;

    g->handler.hold = true;
    for (; id < 20000 && !g->carrier.ended; id += 2) {
        raw_get(g, id);
        raw(g, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\x08", 4);
    }
    assert_calmed(g);
    assert_true(id < 1000);
    assert_true(g->handler.peak <= 50);
}

/* The same with answers from the cache, both frames in one read. */
static void row_19_rapid_reset_of_hits(void **state)
{
    struct rig *g = *state;
    uint32_t id = 1;
    uint8_t both[512], reset[13] = {0, 0, 4, NGHTTP2_RST_STREAM, 0, 0, 0, 0, 0, 0, 0, 0, 8};

    for (; id < 20000 && !g->carrier.ended; id += 2) {
        size_t n = block_get(both + 9, Q1_PATH);
        const uint8_t head[9] = {0, 0, (uint8_t)n,         NGHTTP2_HEADERS, 5,
                                 0, 0, (uint8_t)(id >> 8), (uint8_t)id};
        memcpy(both, head, 9);
        reset[7] = (uint8_t)(id >> 8);
        reset[8] = (uint8_t)id;
        memcpy(both + 9 + n, reset, sizeof(reset));
        fake_data(&g->carrier, both, 9 + n + sizeof(reset));
    }
    assert_calmed(g);
    assert_true(id < 1000);
}

/* CVE-2025-8671 (pdns#16007): the client makes us reset, by a window beyond 2^31 - 1. */
static void row_19_made_you_reset(void **state)
{
    struct rig *g = *state;
    uint32_t id = 1;

    g->handler.hold = true;
    for (; id < 20000 && !g->carrier.ended; id += 2) {
        raw_get(g, id);
        raw(g, NGHTTP2_WINDOW_UPDATE, 0, id, "\x7f\xff\xff\xff", 4);
    }
    assert_calmed(g);
    assert_true(id < 1000);
    assert_true(g->handler.peak <= 50);
}

/* A WINDOW_UPDATE of 0 is an error in nghttp2's eyes that ends the connection. */
static void window_update_of_zero(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    raw_get(g, 1);
    raw(g, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\0", 4);
    assert_true(g->carrier.ended);
    assert_int_equal(frames_out(g, NGHTTP2_GOAWAY, 0, NULL, NULL), 1);
}

/* Lawful clients give up on queries too; answers taken and time make up for it. */
static void resets_now_and_then(void **state)
{
    struct rig *g = *state;

    for (uint32_t id = 1; id < 4000; id += 4) {
        g->handler.hold = true;
        raw_get(g, id);
        raw(g, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\x08", 4);
        g->handler.hold = false;
        fake_release(&g->handler, 0);
        raw_get(g, id + 2);
        drop_out(g);
        assert_false(g->carrier.ended);
    }
    for (uint32_t id = 4001; id < 8000; id += 2) {
        g->handler.hold = true;
        raw_get(g, id);
        raw(g, NGHTTP2_RST_STREAM, 0, id, "\0\0\0\x08", 4);
        fake_release(&g->handler, 0);
        clock_advance(100);
        drop_out(g);
        assert_false(g->carrier.ended);
    }
}

/* CVE-2019-9512, 9515, 9518 (pdns#8200): frames that only cost. */
static void row_20_floods(void **state)
{
    static const struct {
        uint8_t type, len;
        uint32_t id;
        const char *payload;
        unsigned within;
    } rows[] = {
        {NGHTTP2_SETTINGS, 6, 0, "\0\1\0\0\x10\0", 1000},
        {NGHTTP2_SETTINGS, 0, 0, "", 1000},
        {NGHTTP2_PING, 8, 0, "pingping", 1000},
        {NGHTTP2_PRIORITY, 5, 5, "\0\0\0\0\x0f", 1000000},
        {NGHTTP2_DATA, 0, 1, "", 1000},
        {NGHTTP2_WINDOW_UPDATE, 4, 0, "\0\0\0\1", 1000000},
        {0x42, 8, 0, "unknown.", 1000000},
        {NGHTTP2_PING, 8, 0, "", 1000000},
    };
    struct rig *g;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n = 0;
        uint8_t flags = i == 7 ? NGHTTP2_FLAG_ACK : 0;

        assert_int_equal(setup_raw((void **)&g), 0);
        raw_post(g, 1, -1);
        while (!g->carrier.ended && n++ < rows[i].within) {
            drop_out(g);
            raw(g, rows[i].type, flags, rows[i].id, i == 7 ? "12345678" : rows[i].payload,
                rows[i].len);
        }
        if (!g->carrier.ended)
            fail_msg("row %zu goes on", i);
        assert_calmed(g);
        teardown((void **)&g);
    }
}

/* A peer that writes and never reads: what we owe it stays bounded. */
static void flood_without_reading(void **state)
{
    struct rig *g = *state;

    g->options.max_streams = 100;
    for (unsigned n = 0; n < 100000 && !g->carrier.ended; n++) {
        if (buf_len(&g->carrier.rest) > 1000)
            break; /* the carrier would have stopped to read */
        raw_settings(g, NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 4096);
    }
    assert_true(g->carrier.ended);
    assert_true(buf_len(&g->carrier.s.out) < 2 * STREAM_OUT_HIGH);
}

/* pdns#14128: the ACK of a PING goes out with the wake-up that brought it. */
static void row_20_ping_is_answered_at_once(void **state)
{
    struct rig *g = *state;
    uint8_t p[8], flags;

    g->handler.hold = true;
    raw_get(g, 1);
    drop_out(g);
    raw(g, NGHTTP2_PING, 0, 0, "pingpong", 8);
    assert_int_equal(frames_out(g, NGHTTP2_PING, 0, p, &flags), 1);
    assert_memory_equal(p, "pingpong", 8);
    assert_int_equal(flags, NGHTTP2_FLAG_ACK);
}

/* knot !1202: a window that never opens; what waits is bounded and has a time-out. */
static void row_22_closed_window(void **state)
{
    struct rig *g = *state;

    raw_settings(g, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    g->handler.extra = 60000;
    drop_out(g);
    for (uint32_t id = 1; id < 200; id += 2)
        raw_get(g, id);
    assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    /* About 34 of 60 KB fit into the 2 MiB; the others were reset. */
    assert_int_equal(frames_out(g, NGHTTP2_RST_STREAM, 1, NULL, NULL), 0);
    assert_int_equal(frames_out(g, NGHTTP2_HEADERS, 1, NULL, NULL), 1);
    assert_int_equal(frames_out(g, NGHTTP2_DATA, 1, NULL, NULL), 0);
    assert_reset(g, 199, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_false(g->carrier.ended);
}

/* Many such connections together: the one that grows beyond the cap of all ends. */
static void row_22_closed_windows_together(void **state)
{
    struct rig *g = *state;
    size_t others = 0;

    assert_true(held_move(&others, HELD_ALL_MAX - 1024 * 1024));
    raw_settings(g, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    g->handler.extra = 60000;
    drop_out(g);
    for (uint32_t id = 1; id < 200 && !g->carrier.ended; id += 2)
        raw_get(g, id);
    assert_calmed(g);
    g->carrier.s.rider->destroy(&g->carrier.s);
    g->carrier.s.rider = NULL;
    assert_true(held_move(&others, HELD_ALL_MAX));
    assert_true(held_move(&others, 0));
}

static void row_22_window_of_one_octet(void **state)
{
    struct rig *g = *state;
    unsigned octets = 0;
    uint8_t flags = 0;

    raw_settings(g, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1);
    drop_out(g);
    raw_get(g, 1);
    while (!(flags & NGHTTP2_FLAG_END_STREAM)) {
        assert_int_equal(frames_out(g, NGHTTP2_DATA, 1, NULL, &flags), 1);
        octets++;
        drop_out(g);
        raw(g, NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4);
        assert_true(octets <= sizeof(q1));
    }
    assert_int_equal(octets, sizeof(q1));
    assert_false(g->carrier.ended);
}

static void header_list_too_large(void **state)
{
    struct rig *g = *state;
    static char value[4000];
    const char *fields[] = {"x-a", value, "x-b", value, "x-c", value,
                            "x-d", value, "x-e", value, NULL};
    struct seen *s;

    memset(value, 'v', sizeof(value) - 1);
    s = ask(g, "GET", Q1_PATH, fields, NULL);
    assert_int_equal(s->status, 431);
    assert_true(s->closed);
    fields[6] = NULL;
    s = ask(g, "GET", Q1_PATH, fields, NULL);
    assert_int_equal(s->status, 200);
}

/* A block of one octet a field: entry 62 is a long one of the dynamic table. */
static void hpack_bomb(void **state)
{
    struct rig *g = *state;
    uint8_t block[16000];
    size_t n = block_get(block, Q1_PATH), value = 3000;

    block[n++] = 0x40;
    block[n++] = 1;
    block[n++] = 'x';
    block[n++] = 0x7f;
    block[n++] = (uint8_t)((value - 127) & 127) | 128;
    block[n++] = (uint8_t)((value - 127) >> 7);
    memset(block + n, 'v', value);
    n += value;
    memset(block + n, 0x80 | 62, sizeof(block) - n);
    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block,
        sizeof(block));
    assert_calmed(g);
}

static void continuation_without_end(void **state)
{
    struct rig *g = *state;
    uint8_t block[256];
    unsigned n = 0;

    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, block, block_get(block, Q1_PATH));
    assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    while (!g->carrier.ended && n++ < 100)
        raw(g, NGHTTP2_CONTINUATION, 0, 1, "\0\1x\1y", 5);
    assert_true(g->carrier.ended);
    assert_int_equal(frames_out(g, NGHTTP2_GOAWAY, 0, NULL, NULL), 1);
}

static void trailers(void **state)
{
    struct rig *g = *state;
    uint8_t long_block[20000];
    size_t n;

    raw_post(g, 1, 33);
    raw_data(g, 1, q1, sizeof(q1), false);
    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, "\0\1x\1y",
        5);
    assert_answered(g, 1);
    assert_int_equal(g->handler.msg_len, sizeof(q1));
    assert_raw_usable(g, 3);

    raw_post(g, 5, 33);
    raw_data(g, 5, q1, sizeof(q1), false);
    for (n = 0; n + 5 <= 16000; n += 5)
        memcpy(long_block + n, "\0\1x\1y", 5);
    raw(g, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 5, long_block,
        n);
    assert_calmed(g);
}

static void expect_continue(void **state)
{
    struct rig *g = *state;
    struct body b = {q1, sizeof(q1), 0};
    const char *fields[] = {"content-type", "application/dns-message", "expect", "100-continue",
                            NULL};

    assert_answer(ask(g, "POST", "/dns-query", fields, &b), q1, sizeof(q1));
    assert_int_equal(g->informational, 1);
    fields[3] = "200-ok";
    b.at = 0;
    assert_int_equal(ask(g, "POST", "/dns-query", fields, &b)->status, 417);
    assert_usable(g);
}

/* Answers in flight go out, new requests are not taken up, then the end. */
static void shutdown_drains(void **state)
{
    struct rig *g = *state;
    int32_t id = request(g, "GET", Q1_PATH, NULL, NULL);

    g->handler.hold = true;
    pump(g);
    g->carrier.s.rider->on_shutdown(&g->carrier.s);
    assert_true(g->carrier.kicks > 0);
    pump(g);
    assert_true(g->goaway);
    assert_int_equal(g->goaway_code, NGHTTP2_NO_ERROR);
    assert_false(g->carrier.ended);
    fake_release(&g->handler, 0);
    pump(g);
    assert_int_equal(seen_of(g, id)->status, 200);
    assert_true(g->carrier.ended);
}

static void end_of_input_delivers(void **state)
{
    struct rig *g = *state;
    int32_t id = request(g, "GET", Q1_PATH, NULL, NULL);

    g->handler.hold = true;
    pump(g);
    g->carrier.s.rider->on_eof(&g->carrier.s);
    pump(g);
    assert_false(g->carrier.ended);
    fake_release(&g->handler, 0);
    pump(g);
    assert_int_equal(seen_of(g, id)->status, 200);
    assert_true(g->carrier.ended);
}

static void end_of_input_when_idle(void **state)
{
    struct rig *g = *state;

    assert_usable(g);
    g->carrier.s.rider->on_eof(&g->carrier.s);
    fake_flush(&g->carrier);
    assert_true(g->carrier.ended);
}

static void limit_of_queries(void **state)
{
    struct rig *g = *state;

    g->options.max_queries = 3;
    assert_usable(g);
    assert_usable(g);
    assert_false(g->goaway);
    assert_usable(g);
    assert_true(g->goaway);
    assert_int_equal(g->goaway_code, NGHTTP2_NO_ERROR);
    assert_true(g->carrier.ended);
}

/* Queries in flight are cancelled when the connection goes; teardown checks that none is left.
 */
static void destroy_cancels(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    raw_get(g, 1);
    raw_get(g, 3);
    raw(g, NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x08", 4);
    raw_post(g, 5, 33);
    g->carrier.s.rider->destroy(&g->carrier.s);
    g->carrier.s.rider = NULL;
    assert_int_equal(g->handler.n_cancelled, 2);
}

static void not_http2(void **state)
{
    struct rig *g = calloc(1, sizeof(*g));

    (void)state;
    start(g);
    fake_data(&g->carrier, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_true(g->carrier.ended);
    teardown((void **)&g);
    assert_int_equal(http_h2_sniff((const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n...", 27),
                     1);
    assert_int_equal(http_h2_sniff((const uint8_t *)"PRI * HT", 8), -1);
    assert_int_equal(http_h2_sniff((const uint8_t *)"PRI * HTTP/1.1\r\n", 16), 0);
    assert_int_equal(http_h2_sniff((const uint8_t *)"P", 1), -1);
    assert_int_equal(http_h2_sniff((const uint8_t *)"POST", 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(post_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(statuses, setup, teardown),
        cmocka_unit_test_setup_teardown(verdicts_and_lifetimes, setup, teardown),
        cmocka_unit_test_setup_teardown(row_07_post_in_parts, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_10_posts_interleaved, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_08_length_mismatch_resets_the_stream, setup_raw,
                                        teardown),
        cmocka_unit_test_setup_teardown(long_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(long_queries, setup, teardown),
        cmocka_unit_test_setup_teardown(row_10_many_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(row_19_streams_over_the_limit, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_19_rapid_reset, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_19_rapid_reset_of_hits, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_19_made_you_reset, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(window_update_of_zero, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(resets_now_and_then, setup_raw, teardown),
        cmocka_unit_test(row_20_floods),
        cmocka_unit_test_setup_teardown(flood_without_reading, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_20_ping_is_answered_at_once, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_22_closed_window, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_22_closed_windows_together, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(row_22_window_of_one_octet, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(header_list_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(hpack_bomb, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(continuation_without_end, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(trailers, setup_raw, teardown),
        cmocka_unit_test_setup_teardown(expect_continue, setup, teardown),
        cmocka_unit_test_setup_teardown(shutdown_drains, setup, teardown),
        cmocka_unit_test_setup_teardown(end_of_input_delivers, setup, teardown),
        cmocka_unit_test_setup_teardown(end_of_input_when_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(limit_of_queries, setup, teardown),
        cmocka_unit_test_setup_teardown(destroy_cancels, setup_raw, teardown),
        cmocka_unit_test(not_http2),
    };

    return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
