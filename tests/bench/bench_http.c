/* bench_http.c - what HTTP alone costs a query: a session between a carrier in memory and a
 * handler with a canned reply, so neither sockets nor TLS nor the cache are in it.
 *
 * bench_http [h2|post|h1] [REQUESTS] [BATCH]
 * bench_http idle [SESSIONS]      memory of an HTTP/2 session that has answered and waits
 *
 * Under callgrind: --toggle-collect=server_turn counts the server's side only, without
 * start-up. */
#include <malloc.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/metrics.h"
#include "http/http.h"
#include "unit/http_fake.h"

enum { QUERY_LEN = 45, REPLY_EXTRA = 45, LIFETIMES = 300 };

static const char *const paths[] = {"/dns-query"};
static struct fake_handler handler;
static struct fake_carrier carrier;
static nghttp2_session *client;
static unsigned n_closed;
static uint64_t spent_ns;

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Lifetimes differ from answer to answer, as those of a cache do. */
static void submit(struct query_handler *h, struct query *q)
{
    handler.max_age_s = (uint32_t)(handler.n_submitted % LIFETIMES + 1);
    fake_submit(h, q);
}

void server_turn(const uint8_t *data, size_t len);

/* One wake-up of the server. Not inlined: profilers look for it by name. */
__attribute__((noinline)) void server_turn(const uint8_t *data, size_t len)
{
    size_t used = 0;

    if (!carrier.s.rider->on_data(&carrier.s, data, len, &used) || used != len ||
        !carrier.s.rider->on_flush(&carrier.s)) {
        fprintf(stderr, "the server ended the connection\n");
        exit(1);
    }
}

static void serve(const uint8_t *data, size_t len)
{
    uint64_t start = now_ns();

    server_turn(data, len);
    spent_ns += now_ns() - start;
}

/* ---- HTTP/2 */

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *user)
{
    (void)session;
    (void)id;
    (void)user;
    n_closed += code == 0;
    return 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)session;
    (void)id;
    (void)size;
    (void)user;
    memcpy(out, source->ptr, QUERY_LEN);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return QUERY_LEN;
}

/* All that the client has to say goes to the server in one wake-up, then the answers back. */
static void exchange(void)
{
    static uint8_t sent[1 << 20];
    const uint8_t *data;
    size_t len = 0;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(client, &data)) > 0) {
        memcpy(sent + len, data, (size_t)n);
        len += (size_t)n;
    }
    if (len > 0)
        serve(sent, len);
    if (nghttp2_session_mem_recv(client, buf_data(&carrier.s.out), buf_len(&carrier.s.out)) < 0)
        exit(1);
    buf_consume(&carrier.s.out, buf_len(&carrier.s.out));
}

#define NV(name, value)                                                                        \
    {                                                                                          \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1,         \
            strlen(value), 0                                                                   \
    }

static void run_h2(size_t requests, size_t batch, bool post, uint8_t *query)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_data_provider body = {.source.ptr = query, .read_callback = read_body};
    char path[128] = "/dns-query?dns=";
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&client, callbacks, NULL);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(client, 0, NULL, 0);
    nghttp2_session_set_local_window_size(client, 0, 0, (1 << 30) - 1);
    exchange();
    for (size_t i = 0; i < requests; i++) {
        char *at = path + 15;

        query[13] = (uint8_t)('a' + i % 26); /* names differ */
        query[14] = (uint8_t)('a' + i / 26 % 26);
        for (size_t j = 0; !post && j < QUERY_LEN; j += 3) {
            uint32_t v = (uint32_t)query[j] << 16 | (uint32_t)query[j + 1] << 8 | query[j + 2];
            *at++ = alphabet[v >> 18];
            *at++ = alphabet[v >> 12 & 63];
            *at++ = alphabet[v >> 6 & 63];
            *at++ = alphabet[v & 63];
        }
        *at = 0;
        if (post)
            path[10] = 0;
        nghttp2_nv nva[] = {
            NV(":method", post ? "POST" : "GET"),
            NV(":path", path),
            NV(":scheme", "https"),
            NV(":authority", "dns.example.net"),
            NV("user-agent", "bench"),
            NV("accept", "application/dns-message"),
            NV("content-type", "application/dns-message"),
            NV("content-length", "45"),
        };
        nghttp2_submit_request(client, NULL, nva, post ? 8 : 6, post ? &body : NULL, NULL);
        if (i % batch == batch - 1 || i == requests - 1)
            exchange();
    }
    nghttp2_session_del(client);
}

/* ---- memory */

/* A preface, empty SETTINGS and a GET with some fields, as octets. */
static size_t first_flight(uint8_t *out)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char path[] = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
    static const char rest[] = "\x41\x0f"
                               "dns.example.net"
                               "\x7a\x05"
                               "bench"
                               "\x53\x17"
                               "application/dns-message";
    size_t n = sizeof(preface) - 1, block;

    memcpy(out, preface, n);
    out += n;
    block = 4 + sizeof(path) - 1 + sizeof(rest) - 1;
    const uint8_t head[13] = {0,    0,    (uint8_t)block, NGHTTP2_HEADERS, 5, 0, 0, 0, 1,
                              0x82, 0x87, 0x04,           sizeof(path) - 1};
    memcpy(out, head, sizeof(head));
    memcpy(out + sizeof(head), path, sizeof(path) - 1);
    memcpy(out + sizeof(head) + sizeof(path) - 1, rest, sizeof(rest) - 1);
    return n + 9 + block;
}

static int run_idle(size_t sessions, struct http_options *options)
{
    struct fake_carrier *all = calloc(sessions, sizeof(*all));
    uint8_t flight[256];
    size_t len = first_flight(flight), before = mallinfo2().uordblks;

    for (size_t i = 0; i < sessions; i++) {
        fake_carrier_init(&all[i]);
        if (!http_h2_attach(&all[i].s, options))
            return 1;
        fake_data(&all[i], flight, len);
        if (buf_len(&all[i].s.out) < 100)
            return 1;
        buf_release(&all[i].s.out);
        buf_release(&all[i].rest);
    }
    printf("idle: %zu sessions, %zu octets each\n", sessions,
           (mallinfo2().uordblks - before) / sessions);
    for (size_t i = 0; i < sessions; i++)
        fake_carrier_deinit(&all[i]);
    free(all);
    return 0;
}

/* ---- HTTP/1.1 */

static void run_h1(size_t requests, size_t batch)
{
    static const char get[] =
        "GET /dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB HTTP/1.1\r\n"
        "host: dns.example.net\r\nuser-agent: bench\r\naccept: application/dns-message\r\n\r\n";
    static uint8_t sent[1 << 20];

    for (size_t i = 0; i < requests; i += batch) {
        size_t len = 0;

        for (size_t j = 0; j < batch; j++, len += sizeof(get) - 1)
            memcpy(sent + len, get, sizeof(get) - 1);
        serve(sent, len);
        for (const uint8_t *p = buf_data(&carrier.s.out), *end = p + buf_len(&carrier.s.out);
             (p = memmem(p, (size_t)(end - p), "HTTP/1.1 200", 12)); p++)
            n_closed++;
        buf_consume(&carrier.s.out, buf_len(&carrier.s.out));
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "h2";
    size_t requests = argc > 2 ? strtoul(argv[2], NULL, 10) : 200000;
    size_t batch = argc > 3 ? strtoul(argv[3], NULL, 10) : 20;
    struct http_options options = {.handler = &handler.handler,
                                   .paths = paths,
                                   .n_paths = 1,
                                   .json = true,
                                   .cors = "*",
                                   .max_streams = 100};
    uint8_t query[QUERY_LEN] = {0, 0, 1, 0, 0, 1, [12] = 27, [40] = 0, 0, 1, 0, 1};
    bool h1 = strcmp(mode, "h1") == 0;

    if (batch == 0 || batch > 100)
        batch = 100;
    memset(query + 13, 'x', 27);
    fake_handler_init(&handler);
    handler.handler.submit = submit;
    handler.extra = REPLY_EXTRA;
    fake_carrier_init(&carrier);
    metrics_attach();
    if (strcmp(mode, "idle") == 0)
        return run_idle(argc > 2 ? requests : 1000, &options);
    if (!(h1 ? http_h1_attach : http_h2_attach)(&carrier.s, &options))
        return 1;
    if (h1)
        run_h1(requests, batch);
    else
        run_h2(requests, batch, strcmp(mode, "post") == 0, query);
    fake_carrier_deinit(&carrier);
    if (n_closed < requests) {
        fprintf(stderr, "%u of %zu answered\n", n_closed, requests);
        return 1;
    }
    printf("%s: %zu requests, %zu a wake-up: %.0f ns a request\n", mode, requests, batch,
           (double)spent_ns / (double)requests);
    return 0;
}
