/* test_conn.c - connections over loopback, TLS and clear: caps, time-outs, ends, PROXY. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certs.h"
#include "core/metrics.h"
#include "net_fixture.h"

static struct certs certs;
static struct tls_context *context;

static int group_setup(void **state)
{
    char cert[CERTS_PATH], key[CERTS_PATH], error[256];
    (void)state;
    certs_init(&certs);
    certs_leaf(&certs, "a", "DNS:a.test", false);
    struct tls_certificate_files file = {certs_path(&certs, "a.pem", cert),
                                         certs_path(&certs, "a.key", key)};
    context = tls_context_create(
        &(struct tls_options){.certificates = &file, .n_certificates = 1}, error, sizeof error);
    return context ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    tls_context_unref(context);
    certs_deinit(&certs);
    return 0;
}

static int setup_clear(void **state)
{
    struct net *n = calloc(1, sizeof *n);
    net_init(n);
    *state = n;
    return 0;
}

static int setup_tls(void **state)
{
    setup_clear(state);
    ((struct net *)*state)->options.tls = context;
    return 0;
}

static int teardown(void **state)
{
    net_deinit(*state);
    free(*state);
    return 0;
}

/* Connects, with TLS where the listener has it. */
static void join(struct client *c, struct net *n)
{
    client_open(c, n);
    if (n->options.tls)
        assert_true(client_tls(c, &(struct client_tls){.alpn = "dot"}, NULL));
}

static void ask(struct client *c, uint16_t id)
{
    client_query(c, id);
    assert_int_equal(client_answer(c, 10000), id);
}

/* ---- messages and ends, on TLS and clear ---- */

static void queries_are_answered(void **state)
{
    struct net *n = *state;
    struct client a, b;
    net_listen(n);
    join(&a, n);
    join(&b, n);
    for (uint16_t id = 0; id < 50; id++) {
        ask(&a, id);
        ask(&b, (uint16_t)(id + 100));
    }
    assert_int_equal(n->handler.client.family, ADDR_V4);
    assert_int_equal(listener_connections(n->listener), 2);
    client_close(&a);
    net_until(n, listener_connections(n->listener) == 1);
    ask(&b, 7);
    client_close(&b);
}

/* cases.md's 25th: records and messages have nothing to do with one another. */
static void row_25_records_and_messages(void **state)
{
    struct net *n = *state;
    struct client c;
    uint8_t q[3 * ECHO_QUERY_SIZE];
    net_listen(n);
    join(&c, n);
    for (uint16_t i = 0; i < 3; i++)
        echo_query(q + i * ECHO_QUERY_SIZE, (uint16_t)(i + 1));
    client_send(&c, q, 2 * ECHO_QUERY_SIZE + 15);
    assert_int_equal(client_answer(&c, 10000), 1);
    assert_int_equal(client_answer(&c, 10000), 2);
    client_send(&c, q + 2 * ECHO_QUERY_SIZE + 15, ECHO_QUERY_SIZE - 15);
    assert_int_equal(client_answer(&c, 10000), 3);
    for (size_t i = 0; i < sizeof q; i++) {
        client_send(&c, q + i, 1);
        uint64_t since = 0;
        net_run(n, &since, 10);
    }
    for (int id = 1; id <= 3; id++)
        assert_int_equal(client_answer(&c, 10000), id);
    client_close(&c);
}

static void row_26_out_of_order(void **state)
{
    struct net *n = *state;
    struct client c;
    net_listen(n);
    join(&c, n);
    n->handler.hold = true;
    client_query(&c, 0x8001);
    ask(&c, 2);
    assert_int_equal(n->handler.n_held, 1);
    echo_release(&n->handler, 0);
    assert_int_equal(client_answer(&c, 10000), 0x8001);
    client_close(&c);
}

/* Half of the connection closed, with close_notify or without: what was asked is answered,
 * then comes the end in order. */
static void half_close(struct net *n, bool notify)
{
    struct client c;
    net_listen(n);
    join(&c, n);
    n->handler.hold = true;
    client_query(&c, 0x8001);
    client_query(&c, 0x8002);
    net_until(n, n->handler.n_held == 2);
    if (notify && c.ssl)
        SSL_shutdown(c.ssl);
    shutdown(c.fd, SHUT_WR);
    assert_int_equal(client_answer(&c, 30), -12); /* neither an answer nor the end */
    echo_release(&n->handler, 0);
    assert_int_equal(client_answer(&c, 10000), 0x8001);
    assert_int_equal(listener_connections(n->listener), 1);
    echo_release(&n->handler, 0);
    assert_int_equal(client_answer(&c, 10000), 0x8002);
    assert_int_equal(client_answer(&c, 10000), -10);
    net_until(n, listener_connections(n->listener) == 0);
    client_close(&c);
}

static void row_28_half_close(void **state)
{
    half_close(*state, true);
}

static void row_28_without_close_notify(void **state)
{
    half_close(*state, false);
}

/* The queries and the end in one go. */
static void row_28_all_at_once(void **state)
{
    struct net *n = *state;
    struct client c;
    net_listen(n);
    join(&c, n);
    client_query(&c, 1);
    client_query(&c, 2);
    if (c.ssl)
        SSL_shutdown(c.ssl);
    shutdown(c.fd, SHUT_WR);
    assert_int_equal(client_answer(&c, 10000), 1);
    assert_int_equal(client_answer(&c, 10000), 2);
    assert_int_equal(client_answer(&c, 10000), -10);
    client_close(&c);
}

static void client_leaves_with_queries_open(void **state)
{
    struct net *n = *state;
    struct client c;
    net_listen(n);
    join(&c, n);
    n->handler.hold = true;
    client_query(&c, 0x8001);
    net_until(n, n->handler.n_held == 1);
    struct linger reset = {1, 0};
    setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    client_close(&c);
    net_until(n, listener_connections(n->listener) == 0);
    assert_int_equal(n->handler.n_cancelled, 1);
}

/* Malformed framing ends its own stream, with what was owed, and no other. */
static void malformed_ends_one_stream(void **state)
{
    struct net *n = *state;
    struct client bad, good;
    net_listen(n);
    join(&bad, n);
    join(&good, n);
    client_query(&bad, 1);
    client_send(&bad, "\0\5abcde", 7);
    assert_int_equal(client_answer(&bad, 10000), 1);
    assert_int_equal(client_answer(&bad, 10000), -10);
    ask(&good, 2);
    client_close(&bad);
    client_close(&good);
}

/* Answers of 64 KiB go through in full, many at once. */
static void large_answers(void **state)
{
    struct net *n = *state;
    struct client c;
    net_listen(n);
    join(&c, n);
    n->handler.grow = 65535;
    for (uint16_t id = 0; id < 40; id++)
        client_query(&c, id);
    for (int id = 0; id < 40; id++)
        assert_int_equal(client_answer(&c, 10000), id);
    client_close(&c);
}

static void large_queries(void **state)
{
    struct net *n = *state;
    struct client c;
    uint8_t *q = calloc(1, 2 + 65535);
    net_listen(n);
    join(&c, n);
    q[0] = q[1] = 0xff;
    for (uint8_t id = 1; id < 5; id++) {
        q[3] = id;
        client_send(&c, q, 2 + 65535);
        client_query(&c, (uint16_t)(id + 100));
        assert_int_equal(client_answer(&c, 10000), id);
        assert_int_equal(client_answer(&c, 10000), id + 100);
    }
    free(q);
    client_close(&c);
}

/* ---- time-outs ---- */

/* The end comes, and not before at_least_ms have passed since since_ms. */
static void expect_end_after(struct client *c, uint64_t since_ms, unsigned at_least_ms)
{
    uint8_t octet;
    int n = client_read(c, &octet, 1, 10000);
    assert_true(n == 0 || n == -1);
    assert_true(net_real_ms() - since_ms + 5 >= at_least_ms);
    net_until(c->net, listener_connections(c->net->listener) == 0);
}

static void row_29_idle_connections(void **state)
{
    struct net *n = *state;
    struct client c;
    uint64_t before = metrics_sum(M_CONNS_TIMEOUT);
    n->options.idle_ms = 600;
    net_listen(n);
    join(&c, n);
    for (uint16_t id = 0; id < 4; id++) { /* longer than idle_ms in all */
        ask(&c, id);
        assert_int_equal(client_answer(&c, 200), -12);
    }
    uint64_t since = net_real_ms();
    ask(&c, 9);
    uint8_t octet;
    assert_int_equal(client_read(&c, &octet, 1, 10000), 0); /* in order */
    assert_true(net_real_ms() - since + 5 >= 600);
    assert_int_equal(metrics_sum(M_CONNS_TIMEOUT), before + 1);
    client_close(&c);
}

/* Who waits for an answer is not idle. */
static void row_29_waiting_is_not_idle(void **state)
{
    struct net *n = *state;
    struct client c;
    n->options.idle_ms = 50;
    net_listen(n);
    join(&c, n);
    n->handler.hold = true;
    client_query(&c, 0x8001);
    assert_int_equal(client_answer(&c, 200), -12);
    echo_release(&n->handler, 0);
    assert_int_equal(client_answer(&c, 10000), 0x8001);
    assert_int_equal(client_answer(&c, 10000), -10);
    client_close(&c);
}

static void slow_handshake(void **state)
{
    struct net *n = *state;
    struct client c;
    uint64_t since = net_real_ms();
    n->options.handshake_ms = 100;
    net_listen(n);
    client_open(&c, n);
    client_send(&c, "\x16\3\1", 3);
    expect_end_after(&c, since, 100);
    client_close(&c);
}

/* A message in dribs, each long before the time-out, ends at the time-out all the same. */
static void slow_message(void **state)
{
    struct net *n = *state;
    struct client c;
    uint8_t q[ECHO_QUERY_SIZE];
    n->options.read_ms = 200;
    net_listen(n);
    join(&c, n);
    ask(&c, 1);
    echo_query(q, 2);
    size_t sent = 0;
    int r = -2;
    uint64_t since = net_real_ms();
    while (sent < sizeof q && r == -2) {
        uint8_t octet;
        client_send(&c, q + sent++, 1);
        r = client_read(&c, &octet, 1, 20);
    }
    assert_true(r == 0 || r == -1);
    assert_true(sent >= 2 && sent < sizeof q);
    assert_true(net_real_ms() - since + 5 >= 200);
    client_close(&c);
}

/* Neither does a record of TLS in dribs pass for life, though no octet of a message came. */
static void slow_record(void **state)
{
    struct net *n = *state;
    struct client c;
    const uint8_t head[] = {23, 3, 3, 0x40, 0}; /* 16 KiB that never come */
    n->options.read_ms = 200;
    net_listen(n);
    join(&c, n);
    ask(&c, 1);
    size_t sent = 0;
    int r = -2;
    uint64_t since = net_real_ms();
    while (sent < 200 && r == -2) {
        uint8_t octet = sent < sizeof head ? head[sent] : 0;
        if (send(c.fd, &octet, 1, MSG_NOSIGNAL) == 1)
            sent++;
        r = client_read(&c, &octet, 1, 20);
    }
    assert_true(r == 0 || r == -1);
    assert_true(net_real_ms() - since + 5 >= 200);
    client_close(&c);
}

/* The same pace is fine where messages become whole: half a one is there all the time. */
static void steady_messages(void **state)
{
    struct net *n = *state;
    struct client c;
    enum { MANY = 12 };
    uint8_t q[MANY * ECHO_QUERY_SIZE];
    n->options.read_ms = 500;
    net_listen(n);
    join(&c, n);
    for (uint16_t i = 0; i < MANY; i++)
        echo_query(q + i * ECHO_QUERY_SIZE, i);
    client_send(&c, q, 20);
    for (int i = 0; i < MANY - 1; i++) {
        assert_int_equal(client_answer(&c, 60), -12);
        client_send(&c, q + i * ECHO_QUERY_SIZE + 20, ECHO_QUERY_SIZE);
        assert_int_equal(client_answer(&c, 10000), i);
    }
    client_close(&c);
}

/* Who does not read what was asked for is sent no more than the caps say, and ends. */
static void unread_answers(void **state)
{
    struct net *n = *state;
    struct client c;
    n->options.write_ms = 200;
    net_listen(n);
    join(&c, n);
    int small = 4096;
    setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    n->handler.grow = 60000;
    uint8_t *q = calloc(4000, ECHO_QUERY_SIZE);
    for (uint16_t i = 0; i < 4000; i++)
        echo_query(q + i * ECHO_QUERY_SIZE, i);
    client_send(&c, q, 4000 * ECHO_QUERY_SIZE);
    net_until(n, listener_connections(n->listener) == 0);
    /* What the kernel's buffers took and one `out`: not 4000. */
    assert_true(n->handler.n_seen < 400);
    free(q);
    client_close(&c);
}

/* ---- caps ---- */

static void cap_of_all(void **state)
{
    struct net *n = *state;
    struct client c[4];
    uint8_t octet;
    uint64_t before = metrics_sum(M_CONNS_REFUSED);
    n->options.max_connections = 3;
    net_listen(n);
    for (int i = 0; i < 3; i++) {
        join(&c[i], n);
        ask(&c[i], 1);
    }
    client_open(&c[3], n);
    assert_true(client_read(&c[3], &octet, 1, 10000) <= 0);
    assert_int_equal(metrics_sum(M_CONNS_REFUSED), before + 1);
    client_close(&c[3]);
    client_close(&c[0]);
    net_until(n, listener_connections(n->listener) == 2);
    join(&c[3], n);
    ask(&c[3], 2);
    for (int i = 1; i < 4; i++)
        client_close(&c[i]);
}

static void send_v2(struct client *c, const char *client_ip)
{
    uint8_t h[28] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
    struct addr a;
    assert_true(addr_parse(&a, client_ip, 0));
    memcpy(h + 16, a.ip, 4);
    memcpy(h + 20, "\xc0\0\2\x35\x10\0\0\x35", 8);
    client_send(c, h, sizeof h);
}

static void trust_loopback(struct net *n, struct cidr *list)
{
    assert_true(cidr_parse(list, "127.0.0.0/8"));
    n->options.proxy_protocol = list;
    n->options.n_proxy_protocol = 1;
}

/* Behind a load balancer the cap is for whom it names. */
static void cap_of_a_client(void **state)
{
    struct net *n = *state;
    struct client c[3];
    struct cidr proxies;
    uint8_t octet;
    trust_loopback(n, &proxies);
    n->options.max_connections_per_client = 2;
    net_listen(n);
    for (int i = 0; i < 2; i++) {
        client_open(&c[i], n);
        send_v2(&c[i], "198.51.100.1");
        ask(&c[i], 1);
    }
    client_open(&c[2], n);
    send_v2(&c[2], "198.51.100.1");
    assert_true(client_read(&c[2], &octet, 1, 10000) <= 0);
    client_close(&c[2]);
    client_open(&c[2], n);
    send_v2(&c[2], "198.51.100.2");
    ask(&c[2], 2);
    client_close(&c[2]);
    client_close(&c[0]);
    net_until(n, listener_connections(n->listener) == 1);
    client_open(&c[0], n);
    send_v2(&c[0], "198.51.100.1");
    ask(&c[0], 3);
    client_close(&c[0]);
    client_close(&c[1]);
}

static void trusted_proxies_are_exempt(void **state)
{
    struct net *n = *state;
    struct client c[3];
    struct cidr trusted;
    assert_true(cidr_parse(&trusted, "127.0.0.1"));
    n->options.max_connections_per_client = 1;
    n->options.trusted_proxies = &trusted;
    n->options.n_trusted_proxies = 1;
    net_listen(n);
    for (int i = 0; i < 3; i++) {
        join(&c[i], n);
        ask(&c[i], 1);
    }
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
}

static void cap_in_flight(void **state)
{
    struct net *n = *state;
    struct client c;
    n->dot.max_in_flight = 3;
    net_listen(n);
    join(&c, n);
    n->handler.hold = true;
    for (uint16_t i = 0; i < 10; i++)
        client_query(&c, (uint16_t)(0x8000 + i));
    net_until(n, n->handler.n_held == 3);
    assert_int_equal(client_answer(&c, 30), -12);
    assert_int_equal(n->handler.n_held, 3);
    for (int i = 0; i < 10; i++) {
        net_until(n, n->handler.n_held > 0);
        echo_release(&n->handler, 0);
        assert_int_equal(client_answer(&c, 10000), 0x8000 + i);
    }
    client_close(&c);
}

static void cap_of_queries(void **state)
{
    struct net *n = *state;
    struct client c;
    n->dot.max_queries = 3;
    net_listen(n);
    join(&c, n);
    for (uint16_t i = 0; i < 6; i++)
        client_query(&c, i);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_answer(&c, 10000), i);
    assert_int_equal(client_answer(&c, 10000), -10);
    client_close(&c);
}

/* One who sends without pause does not keep another waiting: the other's query is seen
 * after a bounded number of the first one's. */
static void greedy_does_not_starve(void **state)
{
    struct net *n = *state;
    struct client greedy, good;
    enum { MANY = 20000 };
    net_listen(n);
    join(&greedy, n);
    join(&good, n);
    ask(&good, 1);
    int large = 4 * 1024 * 1024;
    setsockopt(greedy.fd, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
    uint8_t *q = calloc(MANY, ECHO_QUERY_SIZE);
    for (size_t i = 0; i < MANY; i++)
        echo_query(q + i * ECHO_QUERY_SIZE, 3);
    ssize_t sent = send(greedy.fd, q, (size_t)MANY * ECHO_QUERY_SIZE, 0);
    assert_true(sent > 100 * 1024);
    size_t before = n->handler.n_seen;
    client_query(&good, 2);
    while (n->handler.last_id != 2)
        ev_run(n->loop, EVRUN_ONCE);
    /* Both were ready at once: one turn of a record each, and a second one at most. */
    assert_true(n->handler.n_seen - before <= 2 * 18 * 1024 / ECHO_QUERY_SIZE + 2);
    assert_int_equal(client_answer(&good, 10000), 2);
    free(q);
    client_close(&greedy);
    client_close(&good);
}

/* A flood of handshakes leaves the loop free for who is connected already. */
static void handshakes_take_turns(void **state)
{
    struct net *n = *state;
    struct client good, c[40];
    net_listen(n);
    join(&good, n);
    static const uint8_t junk[3] = {0x16, 3, 1};
    for (size_t i = 0; i < 40; i++) {
        client_open(&c[i], n);
        client_send(&c[i], junk, sizeof junk);
    }
    ask(&good, 1);
    for (size_t i = 0; i < 40; i++)
        client_close(&c[i]);
    net_until(n, listener_connections(n->listener) == 1);
    ask(&good, 2);
    client_close(&good);
}

/* Connections that never get to their protocol make room for those that do. */
static void half_made_connections_make_room(void **state)
{
    struct net *n = *state;
    enum { HALF_MADE = 120 / 4 + 64 };
    struct client good[3], junk[HALF_MADE];
    uint8_t octet;
    n->options.max_connections = 120;
    net_listen(n);
    for (size_t i = 0; i < HALF_MADE; i++) {
        client_open(&junk[i], n);
        client_send(&junk[i], "\x16\3\1", 3);
    }
    net_until(n, listener_connections(n->listener) == HALF_MADE);
    for (int i = 0; i < 3; i++) {
        join(&good[i], n);
        ask(&good[i], 1);
    }
    for (int i = 0; i < 3; i++)
        ask(&good[i], 2);
    assert_true(client_read(&junk[0], &octet, 1, 10000) >= -1); /* the oldest is gone */
    assert_int_equal(client_read(&junk[HALF_MADE - 1], &octet, 1, 20), -2);
    for (size_t i = 0; i < HALF_MADE; i++)
        client_close(&junk[i]);
    for (int i = 0; i < 3; i++)
        client_close(&good[i]);
}

/* Out of descriptors: accepting pauses and goes on by itself. */
static void descriptors_run_out(void **state)
{
    struct net *n = *state;
    struct client c[3];
    struct rlimit old, low;
    net_listen(n);
    join(&c[0], n);
    ask(&c[0], 1);
    client_open(&c[1], n);
    client_open(&c[2], n);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 3; /* none is left */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    client_query(&c[1], 2);
    assert_int_equal(client_answer(&c[1], 50), -12);
    ask(&c[0], 3); /* those open go on */
    assert_int_equal(listener_connections(n->listener), 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(client_answer(&c[1], 10000), 2);
    ask(&c[2], 4);
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
}

/* ---- PROXY ---- */

static void expect_client(struct net *n, const char *text)
{
    char got[ADDR_TEXT_SIZE];
    assert_string_equal(addr_format(&n->handler.client, got), text);
}

static void proxy_header_names_the_client(void **state)
{
    struct net *n = *state;
    struct client c;
    struct cidr proxies;
    trust_loopback(n, &proxies);
    net_listen(n);

    client_open(&c, n);
    send_v2(&c, "198.51.100.7");
    if (n->options.tls)
        assert_true(client_tls(&c, NULL, NULL));
    ask(&c, 1);
    expect_client(n, "198.51.100.7:4096");
    client_close(&c);

    /* Octet by octet, as a slow load balancer might. */
    static const char v1[] = "PROXY TCP6 2001:db8::7 2001:db8::1 4097 853\r\n";
    client_open(&c, n);
    for (size_t i = 0; i < sizeof v1 - 1; i++) {
        uint64_t since = 0;
        client_send(&c, v1 + i, 1);
        net_run(n, &since, 10);
    }
    if (n->options.tls)
        assert_true(client_tls(&c, NULL, NULL));
    ask(&c, 2);
    expect_client(n, "[2001:db8::7]:4097");
    client_close(&c);

    /* A check by the load balancer itself. */
    client_open(&c, n);
    client_send(&c, "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 16);
    if (n->options.tls)
        assert_true(client_tls(&c, NULL, NULL));
    ask(&c, 3);
    assert_true(addr_is_loopback(&n->handler.client));
    client_close(&c);
}

/* Header and first query in one segment. */
static void proxy_header_and_query_together(void **state)
{
    struct net *n = *state;
    struct client c;
    struct cidr proxies;
    uint8_t both[28 + ECHO_QUERY_SIZE] =
        "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6\x33\x64\1\xc0\0\2\1\0\1\0\2";
    echo_query(both + 28, 1);
    trust_loopback(n, &proxies);
    net_listen(n);
    client_open(&c, n);
    client_send(&c, both, sizeof both);
    assert_int_equal(client_answer(&c, 10000), 1);
    expect_client(n, "198.51.100.1:1");
    client_close(&c);
}

static void proxy_header_is_required(void **state)
{
    struct net *n = *state;
    struct client c;
    struct cidr proxies;
    trust_loopback(n, &proxies);
    n->options.handshake_ms = 100;
    net_listen(n);
    client_open(&c, n);
    client_query(&c, 1);
    assert_true(client_answer(&c, 10000) < -9);
    client_close(&c);
    uint64_t since = net_real_ms();
    client_open(&c, n); /* says nothing */
    expect_end_after(&c, since, 100);
    client_close(&c);
    assert_int_equal(n->handler.n_seen, 0);
}

static void proxy_header_from_others_means_nothing(void **state)
{
    struct net *n = *state;
    struct client c;
    struct cidr proxies;
    assert_true(cidr_parse(&proxies, "192.0.2.0/24"));
    n->options.proxy_protocol = &proxies;
    n->options.n_proxy_protocol = 1;
    net_listen(n);
    client_open(&c, n);
    client_send(&c, "PROXY TCP4 198.51.100.1 192.0.2.1 1 2\r\n", 39);
    net_until(n, listener_connections(n->listener) == 1);
    assert_int_equal(client_answer(&c, 30), -12); /* it is half a DNS message */
    assert_int_equal(n->handler.n_seen, 0);
    client_close(&c);
    client_open(&c, n);
    ask(&c, 1);
    assert_true(addr_is_loopback(&n->handler.client));
    client_close(&c);
}

/* ---- drain, protocols on clear text ---- */

static void drain(void **state)
{
    struct net *n = *state;
    struct client idle, busy, half;
    net_listen(n);
    join(&idle, n);
    ask(&idle, 1);
    join(&busy, n);
    n->handler.hold = true;
    client_query(&busy, 0x8001);
    net_until(n, n->handler.n_held == 1);
    client_open(&half, n);
    net_until(n, listener_connections(n->listener) == 3);
    listener_drain(n->listener);
    assert_int_equal(client_answer(&idle, 10000), -10);
    client_close(&idle);
    if (n->options.tls)
        assert_true(client_answer(&half, 10000) < -9);
    client_close(&half);
    assert_int_equal(client_answer(&busy, 30), -12);
    echo_release(&n->handler, 0);
    assert_int_equal(client_answer(&busy, 10000), 0x8001);
    assert_int_equal(client_answer(&busy, 10000), -10);
    client_close(&busy);
    net_until(n, listener_connections(n->listener) == 0);
}

static int starts_with_zero(const uint8_t *data, size_t len)
{
    return len < 2 ? -1 : data[0] == 0 && data[1] == ECHO_QUERY_SIZE - 2;
}

static bool refuse(struct stream *s, void *arg)
{
    (void)s;
    ++*(unsigned *)arg;
    return false;
}

static void clear_text_is_told_apart(void **state)
{
    struct net *n = *state;
    struct client c;
    unsigned refused = 0;
    n->protocols[0] = (struct listener_protocol){NULL, dot_attach, starts_with_zero, &n->dot};
    n->protocols[1] = (struct listener_protocol){NULL, refuse, NULL, &refused};
    net_listen(n);
    client_open(&c, n);
    uint8_t q[ECHO_QUERY_SIZE];
    echo_query(q, 1);
    for (size_t i = 0; i < sizeof q; i++) {
        uint64_t since = 0;
        client_send(&c, q + i, 1);
        net_run(n, &since, 10);
    }
    assert_int_equal(client_answer(&c, 10000), 1);
    assert_int_equal(refused, 0);
    client_close(&c);
    client_open(&c, n);
    client_send(&c, "GET /", 5);
    assert_true(client_answer(&c, 10000) < -9);
    assert_int_equal(refused, 1);
    client_close(&c);
    client_open(&c, n);
    client_send(&c, "", 1);
    shutdown(c.fd, SHUT_WR);
    assert_true(client_answer(&c, 10000) < -9);
    client_close(&c);
}

static void closing_with_everything_open(void **state)
{
    struct net *n = *state;
    struct client c[3];
    net_listen(n);
    join(&c[0], n);
    n->handler.hold = true;
    client_query(&c[0], 0x8001);
    net_until(n, n->handler.n_held == 1);
    join(&c[1], n);
    client_send(&c[1], "\0\35abc", 5);
    client_open(&c[2], n);
    net_until(n, listener_connections(n->listener) == 3);
    listener_close(n->listener);
    n->listener = NULL;
    assert_int_equal(n->handler.n_cancelled, 1);
    for (int i = 0; i < 3; i++)
        client_close(&c[i]);
}

int main(void)
{
#define CLEAR(test)                                                                            \
    {                                                                                          \
#test " (clear)", test, setup_clear, teardown, NULL                                    \
    }
#define TLS(test)                                                                              \
    {                                                                                          \
#test " (TLS)", test, setup_tls, teardown, NULL                                        \
    }
#define BOTH(test) CLEAR(test), TLS(test)
    const struct CMUnitTest tests[] = {
        BOTH(queries_are_answered),
        BOTH(row_25_records_and_messages),
        BOTH(row_26_out_of_order),
        BOTH(row_28_half_close),
        TLS(row_28_without_close_notify),
        BOTH(row_28_all_at_once),
        BOTH(client_leaves_with_queries_open),
        BOTH(malformed_ends_one_stream),
        BOTH(large_answers),
        BOTH(large_queries),
        BOTH(row_29_idle_connections),
        BOTH(row_29_waiting_is_not_idle),
        TLS(slow_handshake),
        BOTH(slow_message),
        BOTH(steady_messages),
        cmocka_unit_test_setup_teardown(slow_record, setup_tls, teardown),
        BOTH(unread_answers),
        BOTH(cap_of_all),
        CLEAR(cap_of_a_client),
        BOTH(trusted_proxies_are_exempt),
        BOTH(cap_in_flight),
        BOTH(cap_of_queries),
        CLEAR(greedy_does_not_starve),
        TLS(handshakes_take_turns),
        TLS(half_made_connections_make_room),
        CLEAR(descriptors_run_out),
        BOTH(proxy_header_names_the_client),
        CLEAR(proxy_header_and_query_together),
        BOTH(proxy_header_is_required),
        CLEAR(proxy_header_from_others_means_nothing),
        BOTH(drain),
        CLEAR(clear_text_is_told_apart),
        BOTH(closing_with_everything_open),
    };
#undef BOTH
#undef TLS
#undef CLEAR
    return cmocka_run_group_tests_name("conn", tests, group_setup, group_teardown);
}
