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
#include "http/http.h"
#include "http_fake.h"

enum { CLIENT_STREAMS = 512, BODY_MAX = 70000 };

/* www.example.com A, ID 0, RD; and its base64url. */
static const uint8_t q1[] = {0,   0,   1,   0,   0, 1,   0,   0,   0,   0,   0,
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
    uint8_t frame[9 + 20000] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type,
                                flags,                (uint8_t)(id >> 24), (uint8_t)(id >> 16),
                                (uint8_t)(id >> 8),   (uint8_t)id};

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
    const char *fixed[] = {":method", method, ":scheme", "https", ":authority", "dns.example",
                           ":path",   path,   NULL};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(post_answers, setup, teardown),
    };

    return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
