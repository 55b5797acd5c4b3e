/* conn_start.c - a connection before its rider: PROXY header, TLS handshake, ALPN, and
 * telling protocols apart on clear text. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "tls/conn.h"
#include "tls/limits.h"
#include "tls/proxyproto.h"

/* The row for what ALPN chose, or for no ALPN; NULL: there is none. */
static const struct listener_protocol *by_alpn(const struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    size_t len;
    const unsigned char *name = tls_io_alpn(&c->io, &len);
    for (size_t i = 0; i < o->n_protocols; i++) {
        const char *alpn = o->protocols[i].alpn;
        if (name ? alpn && strlen(alpn) == len && memcmp(alpn, name, len) == 0 : !alpn)
            return &o->protocols[i];
    }
    return NULL;
}

static void attach(struct conn *c, const struct listener_protocol *p)
{
    if (!p || !p->attach(&c->stream, p->arg)) {
        conn_set_state(c, CONN_DEAD);
        return;
    }
    conn_set_state(c, CONN_OPEN);
    c->more = true; /* input may be here already */
}

void conn_handshake_turn(struct conn *c)
{
    struct conn_env *env = c->env;
    bool first = c->granted || TAILQ_EMPTY(&env->handshakes);
    if (env->handshake_us_left == 0 || !first) {
        conn_enqueue(c, QUEUE_HANDSHAKE);
        return;
    }
    c->granted = false;

    uint64_t begin_us = clock_now_us();
    enum tls_io_result r = tls_io_handshake(&c->io);
    uint64_t us = clock_now_us() - begin_us;
    env->handshake_us_left -= us < env->handshake_us_left ? us : env->handshake_us_left;
    c->want_write = r == TLS_IO_WANT_WRITE;
    if (r == TLS_IO_OK) {
        metrics_count(M_TLS_HANDSHAKES);
        if (tls_io_resumed(&c->io))
            metrics_count(M_TLS_RESUMED);
        attach(c, by_alpn(c));
    } else if (r == TLS_IO_ERROR || r == TLS_IO_EOF) {
        metrics_count(M_TLS_FAILED);
        conn_set_state(c, CONN_DEAD);
    }
}

/* The rows are in order of preference: one that needs more octets is waited for. */
void conn_sniff_turn(struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    const uint8_t *data;
    size_t len = conn_gather(c, true, &data);
    const struct listener_protocol *match = NULL;
    bool wait = len == 0;

    for (size_t i = 0; i < o->n_protocols && !match && !wait; i++) {
        const struct listener_protocol *p = &o->protocols[i];
        if (p->alpn)
            continue;
        int fits = p->sniff ? p->sniff(data, len) : 1;
        if (fits > 0)
            match = p;
        wait = fits < 0;
    }
    conn_carry(c, data, len, 0);
    if (!wait)
        attach(c, match);
    else if (c->eof)
        conn_set_state(c, CONN_DEAD);
}

static bool has_to_sniff(const struct listener_options *o)
{
    for (size_t i = 0; i < o->n_protocols; i++) {
        if (!o->protocols[i].alpn)
            return o->protocols[i].sniff;
    }
    return false;
}

static bool count_client(struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    if (cidr_any(o->trusted_proxies, o->n_trusted_proxies, &c->stream.peer))
        return true;
    c->counted_client =
        conn_limits_take_client(o->limits, &c->stream.client, o->max_connections_per_client);
    return c->counted_client;
}

/* Who asks is known: the state that the listener begins with. */
static void begin(struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    uint64_t since = c->since_ms; /* all before OPEN share one time-out */

    if (!count_client(c)) {
        metrics_count(M_CONNS_REFUSED);
        conn_set_state(c, CONN_DEAD);
    } else if (o->tls) {
        c->stream.secure = true;
        conn_set_state(c, tls_io_start_tls(&c->io, o->tls) ? CONN_HANDSHAKE : CONN_DEAD);
        c->since_ms = since;
    } else if (has_to_sniff(o)) {
        conn_set_state(c, CONN_SNIFF);
        c->since_ms = since;
    } else {
        attach(c, by_alpn(c));
    }
}

/* Takes the PROXY header from the socket and not one octet more. */
void conn_proxy_turn(struct conn *c)
{
    uint8_t *buf = c->env->read_buf;
    size_t have = buf_len(&c->carry);
    struct proxyproto pp;

    if (have > 0)
        memcpy(buf, buf_data(&c->carry), have);
    ssize_t n = recv(c->io.fd, buf + have, PROXYPROTO_MAX - have, MSG_PEEK);
    if (n < 0 && tls_io_would_block())
        return;
    ssize_t used = n > 0 ? proxyproto_parse(&pp, buf, have + (size_t)n) : -1;
    if (used < 0) {
        metrics_count(M_STREAM_ERRORS);
        log_debug("conn: no PROXY header where one is due");
        conn_set_state(c, CONN_DEAD);
        return;
    }
    size_t take = used > 0 ? (size_t)used - have : (size_t)n;
    if (recv(c->io.fd, buf + have, take, 0) != (ssize_t)take ||
        (used == 0 && !buf_append(&c->carry, buf + have, take))) {
        conn_set_state(c, CONN_DEAD);
        return;
    }
    if (used == 0)
        return;
    buf_release(&c->carry);
    if (pp.known) {
        c->stream.client = pp.src;
        c->stream.local = pp.dst;
    }
    begin(c);
}

enum {
    STARTS_RESERVED = 32, /* of each listener and worker, however many others have */
};

/* Over all workers. Those that have not got to their protocol have a share of the cap; over
 * it the oldest of this listener makes room: who means it is through within milliseconds, and
 * a flood of half-made connections only drives itself out. It does not keep others from
 * beginning elsewhere. */
static bool count(struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    uint32_t max_starts = o->max_connections / 4 + 64;
    if (!conn_limits_take(o->limits, o->max_connections))
        return false;
    c->counted_start = conn_limits_take_start(o->limits, max_starts);
    if (!c->counted_start) {
        if (c->env->n_starting >= STARTS_RESERVED) {
            metrics_count(M_CONNS_REFUSED);
            conn_destroy(TAILQ_FIRST(&c->env->starting));
        }
        c->counted_start = conn_limits_take_start(o->limits, UINT32_MAX);
    }
    return true;
}

static void set_up(struct conn *c, int fd, const struct addr *peer)
{
    struct sockaddr_storage ss;
    socklen_t len = sizeof ss;

    tls_io_init(&c->io, fd, &c->env->alpn);
    c->stream.carrier = &conn_carrier;
    c->stream.peer = c->stream.client = *peer;
    if (getsockname(fd, (struct sockaddr *)&ss, &len) == 0)
        addr_from_sockaddr(&c->stream.local, (struct sockaddr *)&ss);
    c->since_ms = clock_now_ms();
    c->timer_at_ms = UINT64_MAX;
    c->state = CONN_PROXY;
    ev_io_init(&c->watcher, conn_on_io, fd, 0);
    c->watcher.data = c;
    ev_timer_init(&c->timer, conn_on_timer, 0., 0.);
    c->timer.data = c;
    TAILQ_INSERT_TAIL(&c->env->starting, c, link);
    c->env->n_starting++;
    c->env->n_conns++;
    if (c->env->n_conns > c->env->n_conns_peak)
        c->env->n_conns_peak = c->env->n_conns;
}

void conn_open(struct conn_env *env, int fd, const struct addr *peer)
{
    const struct listener_options *o = &env->options;
    struct conn *c = calloc(1, sizeof *c);
    if (c)
        c->env = env;
    if (!c || !count(c)) {
        metrics_count(M_CONNS_REFUSED);
        close(fd);
        free(c);
        return;
    }
    metrics_count(M_CONNS_ACCEPTED);
    set_up(c, fd, peer);
    c->running = true;
    if (!cidr_any(o->proxy_protocol, o->n_proxy_protocol, peer))
        begin(c);
    conn_tail(c);
}
