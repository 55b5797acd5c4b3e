/* floor.c - the least a server can do: answer each question with one canned A record. What it
 * costs is the system's and OpenSSL's share, the floor for ours.
 *
 *      floor udp PORT                       recvmmsg() and sendmmsg() of 64
 *      floor dot PORT CERTIFICATE KEY       all messages of a read in one record
 *
 * Runs until it is ended. Loopback only. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dns/wire.h"

enum { BATCH = 64, SLOT = 2048, IN_SIZE = 64 * 1024 };

static const uint8_t record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, 192, 0, 2, 1};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int open_socket(int type, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type, 0);
    int one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0)
        die("bind");
    return fd;
}

/* Turns the question of len octets at msg into its answer; returns the length. */
static size_t answer(uint8_t *msg, size_t len)
{
    msg[2] |= 0x80;
    msg[7] = 1;
    memcpy(msg + len, record, sizeof record);
    return len + sizeof record;
}

static void serve_udp(uint16_t port)
{
    static uint8_t slots[BATCH][SLOT];
    static struct mmsghdr m[BATCH];
    static struct iovec vec[BATCH];
    static struct sockaddr_in peers[BATCH];
    struct pollfd p = {.fd = open_socket(SOCK_DGRAM, port), .events = POLLIN};

    for (;;) {
        int n;

        poll(&p, 1, -1);
        for (size_t i = 0; i < BATCH; i++) {
            vec[i] = (struct iovec){slots[i], SLOT - sizeof record};
            m[i].msg_hdr = (struct msghdr){.msg_name = &peers[i],
                                           .msg_namelen = sizeof peers[i],
                                           .msg_iov = &vec[i],
                                           .msg_iovlen = 1};
        }
        n = recvmmsg(p.fd, m, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < n; i++)
            vec[i].iov_len = answer(slots[i], m[i].msg_len);
        if (n > 0)
            sendmmsg(p.fd, m, (unsigned)n, 0);
    }
}

struct connection {
    SSL *ssl;
    size_t held;
    uint8_t in[IN_SIZE];
};

static uint8_t out[2 * IN_SIZE];

/* Answers the whole messages at hand into out; returns its length. */
static size_t take(struct connection *c)
{
    size_t at = 0, len = 0;

    while (c->held - at >= 2) {
        size_t size = dns_read16(c->in + at);

        if (c->held - at - 2 < size)
            break;
        memcpy(out + len + 2, c->in + at + 2, size);
        dns_write16(out + len, (uint16_t)(size + sizeof record));
        len += 2 + answer(out + len + 2, size);
        at += 2 + size;
    }
    memmove(c->in, c->in + at, c->held - at);
    c->held -= at;
    return len;
}

/* False when the connection has ended. */
static int turn(struct connection *c)
{
    int n;

    while ((n = SSL_read(c->ssl, c->in + c->held, (int)(sizeof c->in - c->held))) > 0) {
        size_t len;

        c->held += (size_t)n;
        len = take(c);
        if (len > 0 && SSL_write(c->ssl, out, (int)len) <= 0)
            return 0;
    }
    return SSL_get_error(c->ssl, n) == SSL_ERROR_WANT_READ;
}

static void accept_one(int listener, int epoll, SSL_CTX *ctx)
{
    struct connection *c = calloc(1, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    int fd = accept(listener, NULL, NULL);
    int one = 1;

    if (!c || fd < 0)
        die("accept");
    fcntl(fd, F_SETFL, O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->ssl = SSL_new(ctx);
    SSL_set_fd(c->ssl, fd);
    SSL_set_accept_state(c->ssl);
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void serve_dot(uint16_t port, const char *certificate, const char *key)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    int listener = open_socket(SOCK_STREAM, port);
    int epoll = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};

    if (SSL_CTX_use_certificate_chain_file(ctx, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        listen(listener, 128) != 0)
        die("certificate, key, listen");
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        struct epoll_event events[BATCH];
        int n = epoll_wait(epoll, events, BATCH, -1);

        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;

            if (!c) {
                accept_one(listener, epoll, ctx);
            } else if (!turn(c)) {
                int fd = SSL_get_fd(c->ssl);

                SSL_free(c->ssl);
                close(fd);
                free(c);
            }
        }
    }
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "udp") == 0)
        serve_udp((uint16_t)atoi(argv[2]));
    if (argc == 5 && strcmp(argv[1], "dot") == 0)
        serve_dot((uint16_t)atoi(argv[2]), argv[3], argv[4]);
    fprintf(stderr, "usage: floor udp PORT | floor dot PORT CERTIFICATE KEY\n");
    return 2;
}
