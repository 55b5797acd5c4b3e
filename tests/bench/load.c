/* load.c - questions that a cache answers: CONNECTIONS with INFLIGHT of them each, for SECONDS.
 *
 *      load udp|dot|dot-single PORT CONNECTIONS INFLIGHT SECONDS NAMES
 *
 * dot: questions of one turn share a record, as a busy client's do. dot-single: each has one of
 * its own, and a write(2). udp: a socket each, and batches; what is lost is asked again. NAMES:
 * a file of "name TYPE" lines as dnsperf reads them; A is asked. Prints "answered N failed N
 * qps N". Loopback only. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "dns/build.h"
#include "dns/name.h"

enum {
    QUESTIONS_MAX = 4096,
    IN_SIZE = 128 * 1024,
    RECORD = 14000,
    BATCH = 64,
    DATAGRAM = 2048,
};

enum mode { UDP, DOT, DOT_SINGLE };

static enum mode mode;

struct connection {
    int fd;
    SSL *ssl; /* NULL: UDP */
    size_t in_flight, held;
    uint8_t in[IN_SIZE];
};

static uint8_t questions[QUESTIONS_MAX][2 + 512];
static size_t lengths[QUESTIONS_MAX], n_questions, next_question;
static uint64_t answered, failed;

static void die(const char *what)
{
    fprintf(stderr, "load: %s\n", what);
    exit(1);
}

static void read_names(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[1100];

    if (!f)
        die("cannot read the names");
    while (n_questions < QUESTIONS_MAX && fgets(line, sizeof line, f)) {
        uint8_t name[DNS_NAME_MAX], *q = questions[n_questions];
        struct dns_builder b;
        size_t len;

        line[strcspn(line, " \t\n")] = '\0';
        len = name_from_text(name, line);
        if (len == 0)
            continue;
        build_start(&b, q + 2, 512, 0, DNS_RD, name, len, RR_A, DNS_CLASS_IN);
        len = build_finish(&b);
        dns_write16(q, (uint16_t)len);
        lengths[n_questions++] = 2 + len;
    }
    fclose(f);
    if (n_questions == 0)
        die("no names");
}

/* The next question with a length in front, as streams have it. */
static size_t put_question(uint8_t *out)
{
    size_t k = next_question++ % n_questions;
    memcpy(out, questions[k], lengths[k]);
    dns_write16(out + 2, (uint16_t)next_question);
    return lengths[k];
}

static void send_datagrams(struct connection *c, size_t n)
{
    static uint8_t out[BATCH][600];
    struct mmsghdr m[BATCH];
    struct iovec v[BATCH];

    memset(m, 0, sizeof m);
    for (size_t i = 0; i < n; i++) {
        size_t len = put_question(out[i]);
        v[i] = (struct iovec){out[i] + 2, len - 2};
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    int sent = sendmmsg(c->fd, m, (unsigned)n, 0);
    if (sent > 0)
        c->in_flight += (size_t)sent;
}

static void send_record(struct connection *c, size_t wanted)
{
    uint8_t out[RECORD + 600];
    size_t len = 0;

    do {
        len += put_question(out + len);
        c->in_flight++;
    } while (mode == DOT && c->in_flight < wanted && len < RECORD);
    if (SSL_write(c->ssl, out, (int)len) != (int)len)
        die("short write");
}

static void fill(struct connection *c, size_t wanted)
{
    while (c->in_flight < wanted) {
        size_t n = wanted - c->in_flight < BATCH ? wanted - c->in_flight : BATCH;
        if (mode == UDP)
            send_datagrams(c, n);
        else
            send_record(c, wanted);
        if (mode == UDP || mode == DOT)
            return;
    }
}

static void count(struct connection *c, const uint8_t *msg, size_t len)
{
    if (len < DNS_HEADER_SIZE || (msg[3] & 15) || dns_read16(msg + 6) == 0)
        failed++;
    answered++;
    if (c->in_flight > 0)
        c->in_flight--;
}

static void take_datagrams(struct connection *c)
{
    static uint8_t in[BATCH][DATAGRAM];
    struct mmsghdr m[BATCH];
    struct iovec v[BATCH];
    int n;

    memset(m, 0, sizeof m);
    for (size_t i = 0; i < BATCH; i++) {
        v[i] = (struct iovec){in[i], DATAGRAM};
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    do {
        n = recvmmsg(c->fd, m, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++)
            count(c, in[i], m[i].msg_len);
    } while (n == BATCH);
}

/* Counts the whole messages at hand. */
static void take(struct connection *c)
{
    size_t at = 0;

    while (c->held - at >= 2) {
        size_t len = dns_read16(c->in + at);
        const uint8_t *msg = c->in + at + 2;

        if (c->held - at - 2 < len)
            break;
        count(c, msg, len);
        at += 2 + len;
    }
    memmove(c->in, c->in + at, c->held - at);
    c->held -= at;
}

static struct connection *open_connection(SSL_CTX *ctx, uint16_t port)
{
    struct connection *c = calloc(1, sizeof *c);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, mode == UDP ? SOCK_DGRAM : SOCK_STREAM, 0);
    int one = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!c || fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0)
        die("cannot connect");
    c->fd = fd;
    if (mode == UDP)
        return c;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->ssl = SSL_new(ctx);
    SSL_set_fd(c->ssl, fd);
    if (SSL_connect(c->ssl) != 1)
        die("no handshake");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return c;
}

static void take_records(struct connection *c)
{
    int n;

    while ((n = SSL_read(c->ssl, c->in + c->held, (int)(sizeof c->in - c->held))) > 0) {
        c->held += (size_t)n;
        take(c);
    }
    if (SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ)
        die("the connection ended");
}

static void turn(struct connection *c, size_t in_flight)
{
    if (mode == UDP)
        take_datagrams(c);
    else
        take_records(c);
    if (c->in_flight <= in_flight / 2)
        fill(c, in_flight);
}

static bool read_mode(const char *text)
{
    static const char *const name[] = {
        [UDP] = "udp", [DOT] = "dot", [DOT_SINGLE] = "dot-single"};

    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        if (strcmp(text, name[i]) == 0) {
            mode = (enum mode)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int epoll = epoll_create1(0);
    size_t connections, in_flight;
    uint64_t start_us, span_us;

    if (argc != 7 || !read_mode(argv[1]))
        die("usage: load udp|dot|dot-single PORT CONNECTIONS INFLIGHT SECONDS NAMES");
    connections = strtoul(argv[3], NULL, 10);
    in_flight = strtoul(argv[4], NULL, 10);
    span_us = strtoul(argv[5], NULL, 10) * 1000000;
    read_names(argv[6]);
    SSL_CTX_set_read_ahead(ctx, 1);
    struct connection **all = calloc(connections, sizeof(struct connection *));
    if (!all)
        die("no memory");
    for (size_t i = 0; i < connections; i++) {
        all[i] = open_connection(ctx, (uint16_t)atoi(argv[2]));
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = all[i]};

        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i]->fd, &e);
        fill(all[i], in_flight);
    }
    start_us = clock_now_us();
    while (clock_now_us() - start_us < span_us) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, 200);

        for (int i = 0; i < n; i++)
            turn(events[i].data.ptr, in_flight);
        for (size_t i = 0; n == 0 && mode == UDP && i < connections; i++) {
            all[i]->in_flight = 0; /* lost */
            fill(all[i], in_flight);
        }
    }
    printf("answered %llu failed %llu qps %.0f\n", (unsigned long long)answered,
           (unsigned long long)failed,
           (double)answered * 1e6 / (double)(clock_now_us() - start_us));
    return failed > 0;
}
