/* listener.c - accepting connections.
 *
 * Owner and thread: the worker. */
#include "tls/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "core/metrics.h"
#include "tls/conn.h"

enum {
    ACCEPT_BATCH = 16, /* connections of one wake-up: those open already want their turn */
    FAST_OPEN_QUEUE = 256,
};

/* Out of descriptors: how long the kernel keeps the others waiting, unless one of ours ends
 * before. */
static const double accept_pause_s = 0.1;

struct listener {
    struct conn_env env;
    int fd;
    bool draining;
    bool paused;
    ev_io watcher;
    ev_timer pause;
};

static void resume_accept(struct listener *l)
{
    if (!l->paused || l->draining)
        return;
    l->paused = false;
    ev_timer_stop(l->env.loop, &l->pause);
    ev_io_start(l->env.loop, &l->watcher);
}

static void pause_accept(struct listener *l)
{
    metrics_count(M_CONNS_REFUSED);
    l->paused = true;
    ev_io_stop(l->env.loop, &l->watcher);
    ev_timer_set(&l->pause, accept_pause_s, 0.);
    ev_timer_start(l->env.loop, &l->pause);
}

static void on_pause_end(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)events;
    resume_accept(w->data);
}

static void on_closed(struct conn_env *env)
{
    resume_accept((struct listener *)((char *)env - offsetof(struct listener, env)));
}

static bool out_of_resources(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_accept(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop, (void)events;
    struct listener *l = w->data;
    for (int i = 0; i < ACCEPT_BATCH && !conn_env_busy(&l->env); i++) {
        struct sockaddr_storage ss;
        socklen_t len = sizeof ss;
        struct addr peer;
        int one = 1;
        int fd = accept4(l->fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (out_of_resources(errno)) {
                log_debug("listener: %s, accepting pauses", strerror(errno));
                pause_accept(l);
            }
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            return;
        }
        if (!addr_from_sockaddr(&peer, (struct sockaddr *)&ss)) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        conn_open(&l->env, fd, &peer);
    }
}

/* The names of the protocols as ALPN has them on the wire. */
static bool make_alpn(struct tls_alpn *alpn, const struct listener_options *o)
{
    size_t len = 0;
    for (size_t i = 0; i < o->n_protocols; i++) {
        if (o->protocols[i].alpn)
            len += 1 + strlen(o->protocols[i].alpn);
    }
    alpn->wire = malloc(len + 1);
    if (!alpn->wire)
        return false;
    for (size_t i = 0; i < o->n_protocols; i++) {
        if (!o->protocols[i].alpn)
            continue;
        size_t n = strlen(o->protocols[i].alpn);
        alpn->wire[alpn->len++] = (unsigned char)n;
        memcpy(alpn->wire + alpn->len, o->protocols[i].alpn, n);
        alpn->len += n;
    }
    return true;
}

struct listener *listener_open(struct ev_loop *loop, int fd,
                               const struct listener_options *options)
{
    struct listener *l = calloc(1, sizeof *l);
    int queue = FAST_OPEN_QUEUE;
    if (!l) {
        close(fd);
        return NULL;
    }
    l->fd = fd;
    l->env.loop = loop;
    l->env.options = *options;
    l->env.on_closed = on_closed;
    if (!make_alpn(&l->env.alpn, options) || !conn_env_init(&l->env)) {
        free(l->env.alpn.wire);
        free(l);
        close(fd);
        return NULL;
    }
    if (options->tls)
        tls_context_ref(options->tls);
    /* Android asks for it; harmless where the system has it off. */
    setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof queue);
    ev_timer_init(&l->pause, on_pause_end, 0., 0.);
    l->pause.data = l;
    ev_io_init(&l->watcher, on_accept, fd, EV_READ);
    l->watcher.data = l;
    ev_io_start(loop, &l->watcher);
    return l;
}

void listener_set_tls(struct listener *l, struct tls_context *tls)
{
    if (tls)
        tls_context_ref(tls);
    tls_context_unref(l->env.options.tls);
    l->env.options.tls = tls;
}

void listener_set_limits(struct listener *l, const struct listener_options *options)
{
    struct listener_options *o = &l->env.options;
    o->max_connections = options->max_connections;
    o->max_connections_per_client = options->max_connections_per_client;
    o->handshake_ms = options->handshake_ms;
    o->idle_ms = options->idle_ms;
    o->read_ms = options->read_ms;
    o->write_ms = options->write_ms;
}

static void stop_accepting(struct listener *l)
{
    l->draining = true;
    ev_io_stop(l->env.loop, &l->watcher);
    ev_timer_stop(l->env.loop, &l->pause);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

void listener_drain(struct listener *l)
{
    stop_accepting(l);
    conn_env_drain(&l->env);
}

size_t listener_connections(const struct listener *l)
{
    return l->env.n_conns;
}

void listener_close(struct listener *l)
{
    if (!l)
        return;
    stop_accepting(l);
    conn_env_deinit(&l->env);
    tls_context_unref(l->env.options.tls);
    free(l->env.alpn.wire);
    free(l);
}
