/* test_udp.c - DNS over UDP on loopback: batches, source addresses, caps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <ev.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/metrics.h"
#include "echo_handler.h"
#include "udp.h"

struct fixture {
    struct ev_loop *loop;
    struct echo_handler handler;
    struct udp_listener *udp;
    uint16_t port;
};

/* A listener on this address, in any family, and a port that the kernel chooses. */
static void listen_on(struct fixture *f, const char *text)
{
    struct addr a;
    struct sockaddr_storage ss;
    assert_true(addr_parse(&a, text, 0));
    socklen_t len = addr_to_sockaddr(&a, &ss);
    int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0), off = 0;
    assert_true(fd >= 0);
    if (ss.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
    len = sizeof ss;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &len), 0);
    assert_true(addr_from_sockaddr(&a, (struct sockaddr *)&ss));
    f->port = a.port;
    f->udp = udp_open(f->loop, fd, &f->handler.handler);
    assert_non_null(f->udp);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->loop = ev_loop_new(0);
    echo_init(&f->handler);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    udp_close(f->udp);
    assert_int_equal(f->handler.n_held, 0);
    ev_loop_destroy(f->loop);
    free(f);
    return 0;
}

static void on_wake(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)w, (void)events;
}

static void run(struct fixture *f)
{
    ev_timer wake;
    ev_timer_init(&wake, on_wake, 0.001, 0.);
    ev_timer_start(f->loop, &wake);
    ev_run(f->loop, EVRUN_ONCE);
    ev_timer_stop(f->loop, &wake);
}

/* A client's socket that takes answers only from where it asked. */
static int open_client(struct fixture *f, const char *server)
{
    struct addr a;
    struct sockaddr_storage ss;
    assert_true(addr_parse(&a, server, f->port));
    socklen_t len = addr_to_sockaddr(&a, &ss);
    int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), 0);
    return fd;
}

static void ask(int fd, uint16_t id)
{
    uint8_t q[ECHO_QUERY_SIZE];
    echo_query(q, id);
    assert_int_equal(send(fd, q + 2, sizeof q - 2, 0), sizeof q - 2);
}

/* ID of the next answer, -1 when none came after so many runs of the loop. */
static int answer(struct fixture *f, int fd, int runs)
{
    uint8_t m[65536];
    for (int i = 0; i <= runs; i++) {
        ssize_t n = recv(fd, m, sizeof m, 0);
        if (n >= 0) {
            assert_true(n >= 12 && (m[2] & 0x80));
            return m[0] << 8 | m[1];
        }
        assert_int_equal(errno, EAGAIN);
        run(f);
    }
    return -1;
}

enum { LONG = 5000, SHORT = 20 };

static void one_query(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    ask(fd, 7);
    assert_int_equal(answer(f, fd, LONG), 7);
    assert_int_equal(f->handler.transport, QUERY_UDP);
    assert_true(addr_is_loopback(&f->handler.client));
    assert_int_equal(udp_in_flight(f->udp), 0);
    close(fd);
}

/* Containers may have no IPv6, not even on loopback. */
static bool has_ipv6(void)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* The answer comes from the address that was asked, also where the socket has many. */
static void source_address(void **state)
{
    static const struct {
        const char *listen, *ask;
    } rows[] = {
        {"0.0.0.0", "127.0.0.1"}, {"0.0.0.0", "127.0.0.2"}, {"[::]:0", "127.0.0.3"},
        {"[::]:0", "[::1]"},      {"[::1]:0", "[::1]"},     {"127.0.0.4", "127.0.0.4"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strchr(rows[i].listen, ':') && !has_ipv6())
            continue;
        listen_on(f, rows[i].listen);
        int fd = open_client(f, rows[i].ask);
        f->handler.hold = true;
        ask(fd, (uint16_t)i);
        if (answer(f, fd, LONG) != (int)i)
            fail_msg("%s asked at %s", rows[i].listen, rows[i].ask);
        ask(fd, (uint16_t)(0x8000 + i)); /* and later as well */
        while (f->handler.n_held == 0)
            run(f);
        echo_release(&f->handler, 0);
        assert_int_equal(answer(f, fd, LONG), 0x8000 + i);
        bool v4 = strchr(rows[i].ask, ':') == NULL;
        assert_int_equal(f->handler.client.family, v4 ? ADDR_V4 : ADDR_V6);
        close(fd);
        udp_close(f->udp);
        f->udp = NULL;
    }
}

/* More than fit in one batch, from several clients, each answered once. */
static void many_queries(void **state)
{
    struct fixture *f = *state;
    enum { CLIENTS = 5, EACH = 40 };
    int fd[CLIENTS];
    listen_on(f, "127.0.0.1");
    for (int c = 0; c < CLIENTS; c++) {
        fd[c] = open_client(f, "127.0.0.1");
        for (uint16_t i = 0; i < EACH; i++)
            ask(fd[c], (uint16_t)(c * 100 + i));
    }
    for (int c = 0; c < CLIENTS; c++) {
        for (int i = 0; i < EACH; i++)
            assert_int_equal(answer(f, fd[c], LONG), c * 100 + i);
        assert_int_equal(answer(f, fd[c], SHORT), -1);
        close(fd[c]);
    }
    assert_int_equal(f->handler.n_seen, CLIENTS * EACH);
}

static void row_26_out_of_order(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    f->handler.hold = true;
    for (uint16_t i = 0; i < 100; i++)
        ask(fd, (uint16_t)((i % 2 ? 0x8000 : 0) + i));
    for (int i = 0; i < 100; i += 2)
        assert_int_equal(answer(f, fd, LONG), i);
    assert_int_equal(f->handler.n_held, 50);
    assert_int_equal(udp_in_flight(f->udp), 50);
    for (int i = 49; i >= 0; i--)
        echo_release(&f->handler, (size_t)i);
    for (int i = 99; i >= 0; i -= 2)
        assert_int_equal(answer(f, fd, LONG), 0x8000 + i);
    assert_int_equal(udp_in_flight(f->udp), 0);
    close(fd);
}

/* What is no query gets nothing, and is counted. */
static void no_answer_to_garbage(void **state)
{
    struct fixture *f = *state;
    uint64_t before = metrics_sum(M_UDP_DROPPED);
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    assert_int_equal(send(fd, "", 0, 0), 0);
    assert_int_equal(send(fd, "abc", 3, 0), 3);
    assert_int_equal(send(fd, "\0\1\200\0\0\0\0\0\0\0\0\0", 12, 0), 12); /* a response */
    ask(fd, 1);
    assert_int_equal(answer(f, fd, LONG), 1);
    assert_int_equal(answer(f, fd, SHORT), -1);
    assert_int_equal(metrics_sum(M_UDP_DROPPED), before + 3);
    close(fd);
}

/* A datagram larger than any query is cut, not dropped: it gets its FORMERR. */
static void oversized_datagram(void **state)
{
    struct fixture *f = *state;
    uint8_t *m = calloc(1, 60000);
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    m[1] = 9;
    assert_int_equal(send(fd, m, 60000, 0), 60000);
    assert_int_equal(answer(f, fd, LONG), 9);
    free(m);
    close(fd);
}

/* An answer that cannot be sent does not take the others with it. */
static void send_errors_are_single(void **state)
{
    struct fixture *f = *state;
    uint64_t before = metrics_sum(M_UDP_SEND_ERRORS);
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    f->handler.hold = true;
    ask(fd, 0x8001);
    ask(fd, 0x8002);
    while (f->handler.n_held < 2)
        run(f);
    f->handler.grow = 10000; /* more than an answer over UDP ever has */
    echo_release(&f->handler, 0);
    f->handler.grow = 0;
    echo_release(&f->handler, 0);
    assert_int_equal(answer(f, fd, LONG), 0x8002);
    assert_int_equal(metrics_sum(M_UDP_SEND_ERRORS), before + 1);
    close(fd);
}

/* The system's own calls, or a system that is out of buffers for a while. */
static unsigned sends, sends_without_buffers;

int sendmmsg(int fd, struct mmsghdr *m, unsigned n, int flags)
{
    sends++;
    if (sends_without_buffers > 0) {
        sends_without_buffers--;
        errno = ENOBUFS;
        return -1;
    }
    return (int)syscall(SYS_sendmmsg, fd, m, n, flags);
}

/* A socket that is said to be writable, and to be so again and again, while nothing can be
 * sent: no answer is lost, and the loop does not turn idly meanwhile. */
static void without_buffers(void **state)
{
    enum { TRIES = 20 };
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    ask(fd, 5);
    ask(fd, 6);
    sends = 0;
    sends_without_buffers = TRIES;
    ev_tstamp since = ev_time();
    while (sends <= TRIES)
        ev_run(f->loop, EVRUN_ONCE);
    assert_true(ev_time() - since > TRIES * 0.001 / 2);
    assert_int_equal(answer(f, fd, LONG), 5);
    assert_int_equal(answer(f, fd, LONG), 6);
    assert_int_equal(udp_in_flight(f->udp), 0);
    close(fd);
}

/* Keeps the even IDs waiting, answers the others. */
static size_t n_kept;

static void keep_even(struct query_handler *h, struct query *q)
{
    if (q->msg[1] & 1)
        echo_submit(h, q);
    else
        n_kept++;
}

static void forget(struct query_handler *h, struct query *q)
{
    (void)h, (void)q;
    n_kept--;
}

/* However many wait, what can be answered at once is. */
static void waiting_is_capped(void **state)
{
    enum { BURST = 64, CAP = 65536 };
    struct fixture *f = *state;
    f->handler.handler.submit = keep_even;
    f->handler.handler.cancel = forget;
    n_kept = 0;
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    for (size_t sent = 0; sent < CAP + BURST; sent += BURST) {
        for (size_t i = 0; i < BURST; i++)
            ask(fd, 2);
        run(f);
    }
    run(f);
    assert_int_equal(n_kept, CAP);
    assert_int_equal(udp_in_flight(f->udp), CAP);
    ask(fd, 3);
    assert_int_equal(answer(f, fd, LONG), 3);
    close(fd);
}

static void drain_and_close(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1");
    int fd = open_client(f, "127.0.0.1");
    f->handler.hold = true;
    ask(fd, 0x8001);
    ask(fd, 0x8002);
    while (f->handler.n_held < 2)
        run(f);
    udp_drain(f->udp);
    ask(fd, 3);
    assert_int_equal(answer(f, fd, SHORT), -1);
    echo_release(&f->handler, 0);
    assert_int_equal(answer(f, fd, LONG), 0x8001);
    assert_int_equal(udp_in_flight(f->udp), 1);
    udp_close(f->udp);
    f->udp = NULL;
    assert_int_equal(f->handler.n_cancelled, 1);
    close(fd);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(one_query),           T(source_address),         T(many_queries),
        T(row_26_out_of_order), T(no_answer_to_garbage),   T(oversized_datagram),
        T(waiting_is_capped),   T(send_errors_are_single), T(without_buffers),
        T(drain_and_close),
    };
#undef T
    return cmocka_run_group_tests_name("udp", tests, NULL, NULL);
}
