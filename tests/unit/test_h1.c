/* test_h1.c - HTTP/1.1 sessions, by the octets that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/metrics.h"
#include "http/h1_parse.h"
#include "http/held.h"
#include "http/http.h"
#include "http_fake.h"

/* www.example.com A, ID 0, RD; and its base64url. */
static const uint8_t q1[] = {0,   0,   1,   0,   0,   1,   0,   0,   0,   0,   0,
                             0,   3,   'w', 'w', 'w', 7,   'e', 'x', 'a', 'm', 'p',
                             'l', 'e', 3,   'c', 'o', 'm', 0,   0,   1,   0,   1};
#define Q1_PATH "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"
#define HOST "host: dns.example\r\n"
#define GET "GET " Q1_PATH " HTTP/1.1\r\n" HOST "\r\n"
#define POST_HEAD                                                                              \
    "POST /dns-query HTTP/1.1\r\n" HOST "content-type: application/dns-message\r\n"

struct rig {
    struct fake_handler handler;
    struct http_options options;
    struct fake_carrier carrier;
};

static const char *const paths[] = {"/dns-query"};

static int setup(void **state)
{
    struct rig *g = calloc(1, sizeof(*g));

    fake_handler_init(&g->handler);
    g->options = (struct http_options){.handler = &g->handler.handler,
                                       .paths = paths,
                                       .n_paths = 1,
                                       .json = true,
                                       .cors = "*",
                                       .max_streams = 100};
    fake_carrier_init(&g->carrier);
    assert_true(http_h1_attach(&g->carrier.s, &g->options));
    *state = g;
    return 0;
}

static int teardown(void **state)
{
    struct rig *g = *state;

    fake_carrier_deinit(&g->carrier);
    assert_int_equal(g->handler.n_held, 0);
    free(g);
    return 0;
}

static void send_text(struct rig *g, const char *text)
{
    fake_data(&g->carrier, text, strlen(text));
}

/* Takes one response off `out`. Its head (with a NUL) goes to head, its body to body. Returns
 * the status, 0 when there is no whole response. `bodiless`: of HEAD. */
struct response {
    int status;
    char head[2048];
    uint8_t body[70000];
    size_t len;
};

static bool take(struct rig *g, struct response *r, bool bodiless)
{
    struct buf *out = &g->carrier.s.out;
    const char *end, *length;
    size_t head;

    memset(r, 0, sizeof(*r));
    end = memmem(buf_data(out), buf_len(out), "\r\n\r\n", 4);
    if (buf_len(out) == 0 || !end)
        return false;
    head = (size_t)(end + 4 - (const char *)buf_data(out));
    assert_true(head < sizeof(r->head));
    memcpy(r->head, buf_data(out), head);
    assert_int_equal(sscanf(r->head, "HTTP/1.1 %d ", &r->status), 1);
    length = strstr(r->head, "\r\ncontent-length: ");
    if (length && !bodiless)
        r->len = (size_t)atol(length + 18);
    assert_true(buf_len(out) >= head + r->len);
    memcpy(r->body, buf_data(out) + head, r->len);
    buf_consume(out, head + r->len);
    return true;
}

static int take_status(struct rig *g)
{
    static struct response r;

    return take(g, &r, false) ? r.status : 0;
}

static void assert_nothing(struct rig *g)
{
    assert_int_equal(buf_len(&g->carrier.s.out), 0);
}

static void assert_answer(struct rig *g, const uint8_t *query, size_t len)
{
    static struct response r;

    assert_true(take(g, &r, false));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.len, len);
    assert_memory_equal(r.body, query, 2);
    assert_int_equal(r.body[2], query[2] | 0x80);
    assert_memory_equal(r.body + 3, query + 3, len - 3);
}

static void assert_usable(struct rig *g)
{
    assert_false(g->carrier.ended);
    send_text(g, GET);
    assert_answer(g, q1, sizeof(q1));
    assert_nothing(g);
}

/* ---- tests */

static void get_answers(void **state)
{
    struct rig *g = *state;
    static struct response r;

    send_text(g, GET);
    assert_true(take(g, &r, false));
    assert_int_equal(r.status, 200);
    assert_int_equal(g->handler.msg_len, sizeof(q1));
    assert_memory_equal(g->handler.msg, q1, sizeof(q1));
    assert_non_null(strstr(r.head, "\r\ncontent-type: application/dns-message\r\n"));
    assert_non_null(strstr(r.head, "\r\ncontent-length: 33\r\n"));
    assert_non_null(strstr(r.head, "\r\ncache-control: max-age=300\r\n"));
    assert_non_null(strstr(r.head, "\r\naccess-control-allow-origin: *\r\n"));
    assert_non_null(strstr(r.head, "\r\ndate: "));
    assert_null(strstr(r.head, "connection:"));
    assert_nothing(g);
    assert_usable(g);
    assert_false(g->carrier.s.rider->mid_message(&g->carrier.s));
}

static void one_octet_at_a_time(void **state)
{
    struct rig *g = *state;

    for (size_t i = 0; i < sizeof(GET) - 1; i++) {
        assert_nothing(g);
        fake_data(&g->carrier, &GET[i], 1);
        if (i < sizeof(GET) - 2)
            assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    }
    assert_answer(g, q1, sizeof(q1));
    assert_usable(g);
}

static void post_plain(void **state)
{
    struct rig *g = *state;

    send_text(g, POST_HEAD "content-length: 33\r\n\r\n");
    fake_data(&g->carrier, q1, 10);
    assert_nothing(g);
    fake_data(&g->carrier, q1 + 10, sizeof(q1) - 10);
    assert_answer(g, q1, sizeof(q1));
    assert_usable(g);
}

static void post_chunked(void **state)
{
    struct rig *g = *state;

    send_text(g, POST_HEAD "Transfer-Encoding: Chunked\r\n\r\nA;ext=\"x\"\r\n");
    fake_data(&g->carrier, q1, 10);
    send_text(g, "\r\n17 ;a\r\n");
    fake_data(&g->carrier, q1 + 10, 23);
    assert_nothing(g);
    send_text(g, "\r\n0\r\nx-trailer: content-length: 5\r\n\r\n");
    assert_answer(g, q1, sizeof(q1));
    assert_usable(g);
}

/* Everything two parsers could read in two ways, and plain nonsense: one response, then the
 * end, and nothing of what follows is taken for a request. */
static void malformed_is_400_and_close(void **state)
{
    static const char *const bad[] = {
        /* length and framing */
        POST_HEAD "content-length: 33\r\ntransfer-encoding: chunked\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\ncontent-length: 33\r\n\r\n",
        POST_HEAD "content-length: 33\r\ncontent-length: 34\r\n\r\n",
        POST_HEAD "content-length: 33\r\ncontent-length: 33\r\n\r\n",
        POST_HEAD "content-length: 33, 33\r\n\r\n",
        POST_HEAD "content-length: +33\r\n\r\n",
        POST_HEAD "content-length: -1\r\n\r\n",
        POST_HEAD "content-length: 0x21\r\n\r\n",
        POST_HEAD "content-length: 3 3\r\n\r\n",
        POST_HEAD "content-length:\r\n\r\n",
        POST_HEAD "content-length: 99999999999999999999\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked, chunked\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
        POST_HEAD "transfer-encoding: identity\r\n\r\n",
        POST_HEAD "transfer-encoding: xchunked\r\n\r\n",
        POST_HEAD "transfer-encoding: gzip, chunked\r\n\r\n",
        POST_HEAD "transfer-encoding: \"chunked\"\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked;a=b\r\n\r\n",
        POST_HEAD "transfer-encoding:\r\n\r\n",
        POST_HEAD "transfer-encoding: \x0b"
                  "chunked\r\n\r\n",
        "POST /dns-query HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
        /* chunks */
        POST_HEAD "transfer-encoding: chunked\r\n\r\nx\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n0x1\r\nA\r\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n-1\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n 1\r\nA\r\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1 \r\nA\r\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1\nA\r\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1\r\nAB0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1\r\nA\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n x\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1\r\nA\r\n0\r\nx y\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n1;a=\x01\r\nA\r\n0\r\n\r\n",
        POST_HEAD "transfer-encoding: chunked\r\n\r\n10000000000000001\r\nA\r\n0\r\n\r\n",
        /* lines */
        "GET " Q1_PATH " HTTP/1.1\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\nhost: a\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "\n",
        "GET " Q1_PATH " HTTP/1.1\r\nhost: a\r\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x: a\rb\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x: a\r\n b\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x: a\r\n\tb\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n x: a\r\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x : a\r\n\r\n",
        POST_HEAD "content-length : 33\r\n\r\n",
        POST_HEAD "transfer-encoding\t: chunked\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST ": a\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "novalue\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x: a\x01\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x: a\x7f\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST "x(y): a\r\n\r\n",
        /* host */
        "GET " Q1_PATH " HTTP/1.1\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\n" HOST HOST "\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\nhost: a, b\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\nhost: a/b\r\n\r\n",
        "GET " Q1_PATH " HTTP/1.1\r\nhost: a@b\r\n\r\n",
        /* request line */
        "GET " Q1_PATH "\r\n" HOST "\r\n",
        "GET  " Q1_PATH " HTTP/1.1\r\n" HOST "\r\n",
        "GET " Q1_PATH "  HTTP/1.1\r\n" HOST "\r\n",
        "GET\t" Q1_PATH " HTTP/1.1\r\n" HOST "\r\n",
        " GET " Q1_PATH " HTTP/1.1\r\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/1.1 \r\n" HOST "\r\n",
        "GET " Q1_PATH " http/1.1\r\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/1.10\r\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/1,1\r\n" HOST "\r\n",
        "GET " Q1_PATH " HTTP/x.1\r\n" HOST "\r\n",
        "GET dns-query HTTP/1.1\r\n" HOST "\r\n",
        "GET ftp://a/dns-query HTTP/1.1\r\n" HOST "\r\n",
        "GET /dns-\xc3\xbcry HTTP/1.1\r\n" HOST "\r\n",
        "CONNECT dns.example:443 HTTP/1.1\r\n" HOST "\r\n",
        "(GET) / HTTP/1.1\r\n" HOST "\r\n",
        "\x16\x03\x01\x02\x01\x01\xfc\r\n",
        "\r\n \r\n",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rig *g;

        assert_int_equal(setup((void **)&g), 0);
        send_text(g, bad[i]);
        if (take_status(g) != 400)
            fail_msg("not 400: %s", bad[i]);
        assert_nothing(g);
        if (!g->carrier.ended)
            fail_msg("not closed: %s", bad[i]);
        assert_int_equal(g->handler.n_submitted, 0);
        teardown((void **)&g);
    }
    (void)state;
}

static void statuses(void **state)
{
    static const struct {
        const char *request;
        int status;
        bool ends; /* the connection */
        const char *field;
    } rows[] = {
        {"GET / HTTP/1.1\r\n" HOST "\r\n", 404, false, "\r\ncontent-type: text/plain"},
        {"GET /dns-query HTTP/1.1\r\n" HOST "\r\n", 400, false,
         "\r\ncache-control: no-store\r\n"},
        {"PUT /dns-query HTTP/1.1\r\n" HOST "content-length: 3\r\n\r\nabc", 405, false,
         "\r\nallow: GET, HEAD, POST, OPTIONS\r\n"},
        {"OPTIONS /dns-query HTTP/1.1\r\n" HOST "\r\n", 204, false,
         "\r\naccess-control-allow-headers: content-type, accept\r\n"},
        {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 204, false, NULL},
        {"POST /dns-query HTTP/1.1\r\n" HOST "content-length: 2\r\n\r\nab", 415, false, NULL},
        {POST_HEAD "\r\n", 400, false, NULL},
        {POST_HEAD "content-length: 0\r\n\r\n", 400, false, NULL},
        {POST_HEAD "expect: 200-ok\r\n\r\n", 417, false, NULL},
        {POST_HEAD "expect: 200-ok\r\ncontent-length: 33\r\n\r\n", 417, true, NULL},
        {"GET " Q1_PATH " HTTP/1.1\r\n" HOST "connection: close\r\n\r\n", 200, true,
         "\r\nconnection: close\r\n"},
        {"GET " Q1_PATH " HTTP/1.1\r\n" HOST "Connection: te, Close\r\n\r\n", 200, true,
         "\r\nconnection: close\r\n"},
        {"GET " Q1_PATH " HTTP/1.0\r\n\r\n", 200, true, "\r\nconnection: close\r\n"},
        {"GET " Q1_PATH " HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", 200, false,
         "\r\nconnection: keep-alive\r\n"},
        {"GET " Q1_PATH " HTTP/1.2\r\n" HOST "\r\n", 200, false, NULL},
        {"GET https://dns.example" Q1_PATH " HTTP/1.1\r\n" HOST "\r\n", 200, false, NULL},
        {"GET http://dns.example HTTP/1.1\r\n" HOST "\r\n", 404, false, NULL},
        {"GET " Q1_PATH " HTTP/1.1\r\nHost:\r\n\r\n", 200, false, NULL},
        {"GET " Q1_PATH " HTTP/1.1\r\nHost: [2001:db8::1]:443\t \r\nX:\r\nY: \xfc\r\n\r\n", 200,
         false, NULL},
        {"\r\n\r\n" GET, 200, false, NULL},
        {"GET " Q1_PATH " HTTP/2.0\r\n" HOST "\r\n", 505, true, NULL},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, true, NULL},
        {"GET " Q1_PATH " HTTP/1.1\r\n" HOST "Upgrade: h2c\r\nConnection: upgrade\r\n\r\n", 200,
         false, NULL},
    };
    static struct response r;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig *g;

        assert_int_equal(setup((void **)&g), 0);
        send_text(g, rows[i].request);
        assert_true(take(g, &r, false));
        if (r.status != rows[i].status)
            fail_msg("%s: %d", rows[i].request, r.status);
        if (rows[i].field && !strstr(r.head, rows[i].field))
            fail_msg("%s: %s", rows[i].request, r.head);
        assert_non_null(strstr(r.head, "\r\naccess-control-allow-origin: *\r\n"));
        assert_non_null(strstr(r.head, "\r\ndate: "));
        if (rows[i].ends) {
            assert_nothing(g);
            assert_true(g->carrier.ended);
        } else {
            assert_usable(g);
        }
        teardown((void **)&g);
    }
}

static void head_has_no_body(void **state)
{
    struct rig *g = *state;
    static struct response r;

    send_text(g, "HEAD " Q1_PATH " HTTP/1.1\r\n" HOST "\r\n" GET);
    assert_true(take(g, &r, true));
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "\r\ncontent-length: 33\r\n"));
    assert_answer(g, q1, sizeof(q1));
    assert_nothing(g);
}

static void long_heads(void **state)
{
    static char text[40000];
    struct rig *g = *state;

    /* a request line without end */
    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /", 5);
    fake_data(&g->carrier, text, 16000);
    assert_nothing(g);
    fake_data(&g->carrier, text, 1000);
    assert_int_equal(take_status(g), 414);
    assert_true(g->carrier.ended);

    /* one field without end, and many */
    teardown((void **)&g);
    setup((void **)&g);
    send_text(g, "GET / HTTP/1.1\r\n" HOST "x: ");
    fake_data(&g->carrier, text + 10, 17000);
    assert_int_equal(take_status(g), 431);
    assert_true(g->carrier.ended);

    teardown((void **)&g);
    setup((void **)&g);
    send_text(g, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 10000 && !g->carrier.ended; i++)
        send_text(g, "x: y\r\n");
    assert_int_equal(take_status(g), 431);
    assert_true(g->carrier.ended);
    *state = g;
}

/* A GET of 12 KB and a POST of 65535 octets are served; beyond is 413 and the end. */
static void long_messages(void **state)
{
    struct rig *g = *state;
    static uint8_t big[70000];
    static struct response r;
    char text[16000] = "GET /dns-query?dns=";
    size_t n = strlen(text);

    memset(text + n, 'A', 15000);
    strcpy(text + n + 15000, " HTTP/1.1\r\n" HOST "\r\n");
    send_text(g, text);
    assert_int_equal(take_status(g), 200);
    assert_int_equal(g->handler.msg_len, 15000 / 4 * 3);

    send_text(g, POST_HEAD "content-length: 65535\r\n\r\n");
    for (size_t at = 0; at < 65535; at += 13107)
        fake_data(&g->carrier, big + at, 13107);
    assert_true(take(g, &r, false));
    assert_int_equal(r.status, 200);
    assert_int_equal(r.len, 65535);
    assert_usable(g);

    send_text(g, POST_HEAD "transfer-encoding: chunked\r\n\r\nffff\r\n");
    fake_data(&g->carrier, big, 65535);
    send_text(g, "\r\n0\r\n\r\n");
    assert_true(take(g, &r, false));
    assert_int_equal(r.status, 200);
    assert_usable(g);

    /* said beforehand: answered at once, and what was announced is read before the end */
    send_text(g, POST_HEAD "content-length: 65536\r\n\r\n");
    assert_int_equal(take_status(g), 413);
    assert_false(g->carrier.ended);
    assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    fake_data(&g->carrier, big, 65536);
    assert_true(g->carrier.ended);
    assert_nothing(g);
}

static void too_much_in_chunks(void **state)
{
    struct rig *g = *state;
    static uint8_t big[65536];

    send_text(g, POST_HEAD "transfer-encoding: chunked\r\n\r\n10000\r\n");
    fake_data(&g->carrier, big, 65536);
    assert_int_equal(take_status(g), 413);
    assert_false(g->carrier.ended);
    send_text(g, "\r\n0\r\n\r\n" GET);
    assert_true(g->carrier.ended);
    assert_nothing(g);
}

/* Nobody reads a body without end. */
static void body_without_end(void **state)
{
    struct rig *g = *state;
    static uint8_t big[65536];
    unsigned n = 0;

    send_text(g, POST_HEAD "content-length: 999999999999\r\n\r\n");
    assert_int_equal(take_status(g), 413);
    while (!g->carrier.ended && n++ < 10)
        fake_data(&g->carrier, big, sizeof(big));
    assert_true(g->carrier.ended);
    assert_true(n <= 6);
}

static void expect_continue(void **state)
{
    struct rig *g = *state;
    struct buf *out = &g->carrier.s.out;

    send_text(g, POST_HEAD "content-length: 33\r\nExpect: 100-Continue\r\n\r\n");
    assert_int_equal(buf_len(out), 25);
    assert_memory_equal(buf_data(out), "HTTP/1.1 100 Continue\r\n\r\n", 25);
    buf_consume(out, 25);
    fake_data(&g->carrier, q1, sizeof(q1));
    assert_answer(g, q1, sizeof(q1));

    /* the body is here already */
    send_text(g, POST_HEAD "content-length: 33\r\nExpect: 100-continue\r\n\r\n\1\2\3");
    buf_consume(out, buf_len(out));
    teardown((void **)&g);
    setup((void **)&g);
    *state = g;
    out = &g->carrier.s.out;

    /* not before the answers to those before it */
    g->handler.hold = true;
    send_text(g, GET POST_HEAD "content-length: 33\r\nExpect: 100-continue\r\n\r\n");
    assert_nothing(g);
    fake_release(&g->handler, 0);
    fake_flush(&g->carrier);
    assert_int_equal(take_status(g), 200);
    assert_int_equal(buf_len(out), 25);
    buf_consume(out, 25);
    g->handler.hold = false;
    fake_data(&g->carrier, q1, sizeof(q1));
    assert_answer(g, q1, sizeof(q1));

    /* HTTP/1.0 knows no 100 */
    send_text(g,
              "POST /dns-query HTTP/1.0\r\ncontent-type: application/dns-message\r\n"
              "content-length: 33\r\nexpect: 100-continue\r\nconnection: keep-alive\r\n\r\n");
    assert_nothing(g);
    fake_data(&g->carrier, q1, sizeof(q1));
    assert_answer(g, q1, sizeof(q1));

    /* refused: the client keeps its body, so the end of the connection is the only sure mark */
    send_text(g, POST_HEAD "content-length: 65536\r\nExpect: 100-continue\r\n\r\n");
    assert_int_equal(take_status(g), 413);
    assert_true(g->carrier.ended);
}

static void pipelined(void **state)
{
    struct rig *g = *state;

    for (int i = 0; i < 50; i++)
        if (!buf_append(&g->carrier.rest, GET, sizeof(GET) - 1))
            fail();
    send_text(g, "");
    for (int i = 0; i < 50; i++)
        assert_answer(g, q1, sizeof(q1));
    assert_nothing(g);
}

/* Answers come in the order of the requests, whatever the order of the replies. */
static void pipelined_and_late(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    send_text(g, GET GET);
    g->handler.hold = false;
    send_text(g, GET "GET /nothing HTTP/1.1\r\n" HOST "\r\n" POST_HEAD
                     "content-length: 33\r\n\r\n");
    assert_nothing(g);
    assert_int_equal(g->carrier.s.rider->in_flight(&g->carrier.s), 2);
    fake_release(&g->handler, 1);
    fake_flush(&g->carrier);
    assert_nothing(g);
    fake_release(&g->handler, 0);
    assert_int_equal(g->carrier.kicks, 2);
    fake_flush(&g->carrier);
    assert_int_equal(take_status(g), 200);
    assert_int_equal(take_status(g), 200);
    assert_answer(g, q1, sizeof(q1));
    assert_int_equal(take_status(g), 404);
    assert_nothing(g);
    assert_true(g->carrier.s.rider->mid_message(&g->carrier.s));
    fake_data(&g->carrier, q1, sizeof(q1));
    assert_answer(g, q1, sizeof(q1));
    assert_int_equal(g->carrier.s.rider->in_flight(&g->carrier.s), 0);
}

/* Of who sends on and on, only so many requests are taken up. */
static void pipelining_has_a_limit(void **state)
{
    struct rig *g = *state;

    g->options.max_streams = 10;
    g->handler.hold = true;
    for (int i = 0; i < 50; i++)
        send_text(g, GET);
    assert_int_equal(g->handler.n_held, 10);
    assert_int_equal(buf_len(&g->carrier.rest), 40 * (sizeof(GET) - 1));
    assert_false(g->carrier.s.rider->mid_message(&g->carrier.s));
    for (int i = 0; i < 50; i++) {
        fake_release(&g->handler, 0);
        send_text(g, "");
        assert_int_equal(take_status(g), 200);
    }
    g->handler.hold = false;
    assert_usable(g);
}

/* A client that does not read: `out` stays near its mark, and all comes when it is drained. */
static void high_mark(void **state)
{
    struct rig *g = *state;
    static struct response r;
    unsigned n = 0;

    g->handler.extra = 40000;
    for (int i = 0; i < 20; i++)
        send_text(g, GET);
    assert_true(buf_len(&g->carrier.s.out) >= STREAM_OUT_HIGH);
    assert_true(buf_len(&g->carrier.s.out) < STREAM_OUT_HIGH + 41000);
    assert_true(buf_len(&g->carrier.rest) > 0);
    while (take(g, &r, false)) {
        assert_int_equal(r.len, 40033);
        n++;
        send_text(g, "");
    }
    assert_int_equal(n, 20);
}

/* Kept answers are bounded too. */
static void kept_answers_have_a_limit(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    send_text(g, GET);
    g->handler.hold = false;
    g->handler.extra = 60000;
    for (int i = 0; i < 90 && !g->carrier.ended; i++)
        send_text(g, GET);
    assert_true(g->carrier.ended);
}

/* And those of all connections together. */
static void kept_answers_together(void **state)
{
    struct rig *g = *state;
    size_t others = 0;

    assert_true(held_move(&others, HELD_ALL_MAX - 512 * 1024));
    g->handler.hold = true;
    send_text(g, GET);
    g->handler.hold = false;
    g->handler.extra = 60000;
    for (int i = 0; i < 20 && !g->carrier.ended; i++)
        send_text(g, GET);
    assert_true(g->carrier.ended);
    g->carrier.s.rider->destroy(&g->carrier.s);
    g->carrier.s.rider = NULL;
    assert_true(held_move(&others, HELD_ALL_MAX));
    assert_true(held_move(&others, 0));
}

static void end_of_input(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    send_text(g, GET GET);
    g->carrier.s.rider->on_eof(&g->carrier.s);
    fake_flush(&g->carrier);
    assert_false(g->carrier.ended);
    fake_release(&g->handler, 1);
    fake_release(&g->handler, 0);
    fake_flush(&g->carrier);
    assert_int_equal(take_status(g), 200);
    assert_int_equal(take_status(g), 200);
    assert_true(g->carrier.ended);
}

static void end_of_input_amid_a_request(void **state)
{
    struct rig *g = *state;

    send_text(g, POST_HEAD "content-length: 33\r\n\r\nabc");
    g->carrier.s.rider->on_eof(&g->carrier.s);
    fake_flush(&g->carrier);
    assert_int_equal(take_status(g), 400);
    assert_true(g->carrier.ended);
    assert_int_equal(g->handler.n_submitted, 0);
}

static void shutdown_drains(void **state)
{
    struct rig *g = *state;
    static struct response r;

    g->handler.hold = true;
    send_text(g, GET);
    g->carrier.s.rider->on_shutdown(&g->carrier.s);
    fake_flush(&g->carrier);
    assert_false(g->carrier.ended);
    send_text(g, GET);
    assert_int_equal(g->handler.n_held, 1);
    fake_release(&g->handler, 0);
    fake_flush(&g->carrier);
    assert_true(take(g, &r, false));
    assert_non_null(strstr(r.head, "\r\nconnection: close\r\n"));
    assert_true(g->carrier.ended);
    assert_nothing(g);
}

static void shutdown_when_idle(void **state)
{
    struct rig *g = *state;

    assert_usable(g);
    g->carrier.s.rider->on_shutdown(&g->carrier.s);
    fake_flush(&g->carrier);
    assert_true(g->carrier.ended);
    assert_nothing(g);
}

static void limit_of_queries(void **state)
{
    struct rig *g = *state;
    static struct response r;

    g->options.max_queries = 3;
    send_text(g, GET GET GET GET);
    assert_int_equal(take_status(g), 200);
    assert_int_equal(take_status(g), 200);
    assert_true(take(g, &r, false));
    assert_non_null(strstr(r.head, "\r\nconnection: close\r\n"));
    assert_nothing(g);
    assert_true(g->carrier.ended);
    assert_int_equal(g->handler.n_submitted, 3);
}

static void empty_lines_without_end(void **state)
{
    struct rig *g = *state;
    unsigned n = 0;

    while (!g->carrier.ended && n++ < 1000000)
        send_text(g, "\r\n\r\n\r\n\r\n");
    assert_true(g->carrier.ended);
}

static void destroy_cancels(void **state)
{
    struct rig *g = *state;

    g->handler.hold = true;
    send_text(g, GET GET POST_HEAD "content-length: 33\r\n\r\nabc");
    g->carrier.s.rider->destroy(&g->carrier.s);
    g->carrier.s.rider = NULL;
    assert_int_equal(g->handler.n_cancelled, 2);
}

static void requests_are_counted(void **state)
{
    struct rig *g = *state;
    uint32_t before = g->carrier.s.requests;

    assert_usable(g);
    assert_usable(g);
    assert_int_equal(g->carrier.s.requests, before + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(one_octet_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(post_plain, setup, teardown),
        cmocka_unit_test_setup_teardown(post_chunked, setup, teardown),
        cmocka_unit_test(malformed_is_400_and_close),
        cmocka_unit_test(statuses),
        cmocka_unit_test_setup_teardown(head_has_no_body, setup, teardown),
        cmocka_unit_test_setup_teardown(long_heads, setup, teardown),
        cmocka_unit_test_setup_teardown(long_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(too_much_in_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(body_without_end, setup, teardown),
        cmocka_unit_test_setup_teardown(expect_continue, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelined, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelined_and_late, setup, teardown),
        cmocka_unit_test_setup_teardown(pipelining_has_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(high_mark, setup, teardown),
        cmocka_unit_test_setup_teardown(kept_answers_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(kept_answers_together, setup, teardown),
        cmocka_unit_test_setup_teardown(end_of_input, setup, teardown),
        cmocka_unit_test_setup_teardown(end_of_input_amid_a_request, setup, teardown),
        cmocka_unit_test_setup_teardown(shutdown_drains, setup, teardown),
        cmocka_unit_test_setup_teardown(shutdown_when_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(limit_of_queries, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_lines_without_end, setup, teardown),
        cmocka_unit_test_setup_teardown(destroy_cancels, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_are_counted, setup, teardown),
    };

    return cmocka_run_group_tests_name("h1", tests, NULL, NULL);
}
