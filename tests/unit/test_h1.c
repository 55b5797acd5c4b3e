/* test_h1.c - HTTP/1.1 sessions, by the octets that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/metrics.h"
#include "http/h1_parse.h"
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
        fake_data(&g->carrier, GET + i, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(get_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(one_octet_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(post_plain, setup, teardown),
        cmocka_unit_test_setup_teardown(post_chunked, setup, teardown),
        cmocka_unit_test(malformed_is_400_and_close),
    };

    return cmocka_run_group_tests_name("h1", tests, NULL, NULL);
}
