/* net_fixture.h - a listener on loopback with a handler that echoes, and clients that run
 * in the same thread: every wait runs the listener's loop. */
#ifndef PITH_TESTS_NET_FIXTURE_H
#define PITH_TESTS_NET_FIXTURE_H

#include <ev.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "echo_handler.h"
#include "tls/dot.h"
#include "tls/listener.h"

struct net {
    struct ev_loop *loop;
    struct echo_handler handler;
    struct dot_options dot;
    struct listener_protocol protocols[2]; /* "dot", and without ALPN */
    struct conn_limits *limits;
    struct listener_options options; /* of the next net_listen() */
    struct listener *listener;
    uint16_t port;
};

void net_init(struct net *n);
void net_deinit(struct net *n);
/* Opens (or opens anew) the listener on a port that the kernel chooses. */
void net_listen(struct net *n);

/* A clock that tests do not move. */
uint64_t net_real_ms(void);
/* Runs the loop for a moment; false when wait_ms passed since *since_ms (0: begin now). */
bool net_run(struct net *n, uint64_t *since_ms, unsigned wait_ms);
/* Runs the loop until the condition holds; the test fails after 10 s. */
#define net_until(n, condition)                                                                \
    do {                                                                                       \
        uint64_t since_ = 0;                                                                   \
        while (!(condition)) {                                                                 \
            if (!net_run(n, &since_, 10000))                                                   \
                fail_msg("waited in vain for %s", #condition);                                 \
        }                                                                                      \
    } while (0)

struct client {
    struct net *net;
    int fd;
    SSL *ssl; /* NULL: clear text */
};

/* Connects over TCP. */
void client_open(struct client *c, struct net *n);
/* What TLS is to be like. NULL and 0 are defaults. */
struct client_tls {
    const char *alpn; /* comma separated */
    const char *host; /* SNI */
    const char *sigalgs;
    int version;          /* this one only */
    SSL_SESSION *session; /* to resume */
    X509 *trust;          /* verify the chain up to this one, and host */
};
/* Handshake; false when it failed, then *alert (may be NULL) is the alert that came, or 0. */
bool client_tls(struct client *c, const struct client_tls *options, int *alert);
void client_send(struct client *c, const void *data, size_t len);
void client_query(struct client *c, uint16_t id);
/* Reads once: octets, 0 at the end in order (close_notify, FIN), -1 reset, -2 nothing came
 * within wait_ms. */
int client_read(struct client *c, void *out, size_t size, unsigned wait_ms);
/* ID of the next answer; what client_read() says when there is none, and then id is < 0:
 * -10 end, -11 reset, -12 nothing. */
int client_answer(struct client *c, unsigned wait_ms);
void client_close(struct client *c);

/* After the handshake of TLS 1.3 tickets come with the first read. The caller frees. */
SSL_SESSION *client_session(struct client *c);

#endif
