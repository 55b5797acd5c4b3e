/* net_fixture.c - a listener and its clients in one thread. */
#include "net_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

/* ---- the server's side ---- */

void net_init(struct net *n)
{
    memset(n, 0, sizeof *n);
    n->loop = ev_loop_new(0);
    must(n->loop, "ev_loop_new");
    echo_init(&n->handler);
    n->dot = (struct dot_options){
        .handler = &n->handler.handler, .transport = QUERY_DOT, .max_in_flight = 100};
    n->protocols[0] = (struct listener_protocol){"dot", dot_attach, NULL, &n->dot};
    n->protocols[1] = (struct listener_protocol){NULL, dot_attach, NULL, &n->dot};
    n->limits = conn_limits_create();
    must(n->limits, "conn_limits_create");
    n->options = (struct listener_options){.protocols = n->protocols,
                                           .n_protocols = 2,
                                           .limits = n->limits,
                                           .max_connections = 1000,
                                           .max_connections_per_client = 1000,
                                           .handshake_ms = 5000,
                                           .idle_ms = 30000,
                                           .read_ms = 10000,
                                           .write_ms = 10000};
}

void net_deinit(struct net *n)
{
    listener_close(n->listener);
    conn_limits_destroy(n->limits);
    ev_loop_destroy(n->loop);
}

void net_listen(struct net *n)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t len = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener_close(n->listener);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    must(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 512) == 0 &&
             getsockname(fd, (struct sockaddr *)&a, &len) == 0,
         "listening socket");
    n->port = ntohs(a.sin_port);
    n->listener = listener_open(n->loop, fd, &n->options);
    must(n->listener, "listener_open");
}

uint64_t net_real_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void on_wake(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)w, (void)events;
}

bool net_run(struct net *n, uint64_t *since_ms, unsigned wait_ms)
{
    ev_timer wake;
    uint64_t now = net_real_ms();
    if (*since_ms == 0)
        *since_ms = now;
    if (now - *since_ms > wait_ms)
        return false;
    ev_timer_init(&wake, on_wake, 0.001, 0.);
    ev_timer_start(n->loop, &wake);
    ev_run(n->loop, EVRUN_ONCE);
    ev_timer_stop(n->loop, &wake);
    return true;
}

/* ---- clients ---- */

void client_open(struct client *c, struct net *n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(n->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *c = (struct client){.net = n, .fd = socket(AF_INET, SOCK_STREAM, 0)};
    must(c->fd >= 0 && connect(c->fd, (struct sockaddr *)&a, sizeof a) == 0, "connect");
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
}

void client_close(struct client *c)
{
    if (c->ssl) /* else OpenSSL thinks the session broken, and not to be resumed */
        SSL_set_shutdown(c->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(c->ssl);
    if (c->fd >= 0)
        close(c->fd);
    c->ssl = NULL;
    c->fd = -1;
}

static SSL_CTX *make_context(const struct client_tls *o)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    must(ctx, "SSL_CTX_new");
    if (o->version) {
        if (o->version < TLS1_2_VERSION) {
            SSL_CTX_set_security_level(ctx, 0);
            SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0");
        }
        SSL_CTX_set_min_proto_version(ctx, o->version);
        SSL_CTX_set_max_proto_version(ctx, o->version);
    }
    if (o->sigalgs)
        must(SSL_CTX_set1_sigalgs_list(ctx, o->sigalgs) == 1, "sigalgs");
    if (o->trust) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), o->trust);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    }
    return ctx;
}

static void set_alpn(SSL *ssl, const char *list)
{
    unsigned char wire[64];
    unsigned len = 0;
    while (*list) {
        size_t n = strcspn(list, ",");
        wire[len++] = (unsigned char)n;
        memcpy(wire + len, list, n);
        len += (unsigned)n;
        list += n + (list[n] == ',');
    }
    must(SSL_set_alpn_protos(ssl, wire, len) == 0, "SSL_set_alpn_protos");
}

static bool would_block(SSL *ssl, int n)
{
    int e = SSL_get_error(ssl, n);
    return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE;
}

/* The number of an alert is what OpenSSL's reason says above 1000. */
static int last_alert(void)
{
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    ERR_clear_error();
    return reason > SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : 0;
}

bool client_tls(struct client *c, const struct client_tls *options, int *alert)
{
    static const struct client_tls defaults;
    const struct client_tls *o = options ? options : &defaults;
    SSL_CTX *ctx = make_context(o);
    c->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    must(c->ssl && SSL_set_fd(c->ssl, c->fd) == 1, "SSL_new");
    if (o->alpn)
        set_alpn(c->ssl, o->alpn);
    if (o->host)
        SSL_set_tlsext_host_name(c->ssl, o->host);
    if (o->trust && o->host)
        SSL_set1_host(c->ssl, o->host);
    if (o->session)
        SSL_set_session(c->ssl, o->session);
    uint64_t since = 0;
    for (;;) {
        ERR_clear_error();
        int n = SSL_connect(c->ssl);
        if (n == 1)
            return true;
        if (!would_block(c->ssl, n) || !net_run(c->net, &since, 10000))
            break;
    }
    int a = last_alert();
    if (alert)
        *alert = a;
    return false;
}

static int read_once(struct client *c, void *out, size_t size)
{
    if (c->ssl) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, out, (int)size);
        if (n > 0)
            return n;
        if (would_block(c->ssl, n))
            return -2;
        return SSL_get_error(c->ssl, n) == SSL_ERROR_ZERO_RETURN ? 0 : -1;
    }
    ssize_t n = recv(c->fd, out, size, 0);
    return n >= 0 ? (int)n : errno == EAGAIN ? -2 : -1;
}

int client_read(struct client *c, void *out, size_t size, unsigned wait_ms)
{
    uint64_t since = 0;
    int n;
    while ((n = read_once(c, out, size)) == -2 && net_run(c->net, &since, wait_ms))
        ;
    return n;
}

/* False when the connection is gone. */
static bool write_once(struct client *c, const uint8_t **data, size_t *len)
{
    ssize_t n;
    if (c->ssl) {
        ERR_clear_error();
        n = SSL_write(c->ssl, *data, (int)*len);
        if (n <= 0 && !would_block(c->ssl, (int)n))
            return false;
    } else {
        n = send(c->fd, *data, *len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
    }
    if (n > 0) {
        *data += n;
        *len -= (size_t)n;
    }
    return true;
}

void client_send(struct client *c, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t since = 0;
    while (len > 0 && write_once(c, &p, &len)) {
        if (len > 0 && !net_run(c->net, &since, 10000))
            return;
    }
}

void client_query(struct client *c, uint16_t id)
{
    uint8_t q[ECHO_QUERY_SIZE];
    echo_query(q, id);
    client_send(c, q, sizeof q);
}

static int read_all(struct client *c, uint8_t *out, size_t len, unsigned wait_ms)
{
    for (size_t have = 0; have < len;) {
        int n = client_read(c, out + have, len - have, wait_ms);
        if (n <= 0)
            return n - 10;
        have += (size_t)n;
    }
    return 0;
}

int client_answer(struct client *c, unsigned wait_ms)
{
    static uint8_t m[65535];
    int fault = read_all(c, m, 2, wait_ms);
    if (fault)
        return fault;
    size_t len = (size_t)m[0] << 8 | m[1];
    fault = read_all(c, m, len, wait_ms);
    if (fault)
        return fault;
    must(len >= 12 && (m[2] & 0x80), "a framed answer");
    return m[0] << 8 | m[1];
}

SSL_SESSION *client_session(struct client *c)
{
    client_query(c, 0x7777);
    must(client_answer(c, 10000) == 0x7777, "an answer before the session is taken");
    return SSL_get1_session(c->ssl);
}
