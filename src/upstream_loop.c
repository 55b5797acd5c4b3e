/* upstream_loop.c - getdns' event loop extension over libev. See upstream_loop.h. */
#include "upstream_loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

enum {
    DRAIN_MAX = 256,          /* reads of one event, before others get their turn */
    USER_TIMEOUT_MS = 5000,   /* unacknowledged data this old ends a connection (RFC 5482) */
    SEND_BUFFER = 208 * 1024, /* holds all that may be outstanding: getdns keeps pointing into a
                               * half written query after it has freed it */
};

/* getdns' "no time-out" is the largest number there is. */
#define FOREVER_MS ((uint64_t)1 << 40)

/* What getdns calls ev. One io watcher serves both directions. */
struct upstream_watcher {
    ev_io io;
    ev_timer timer;
    struct upstream_loop *loop;
    getdns_eventloop_event *event;
    void *query; /* UDP: whose socket it is; NULL for one that nobody waits for any more */
    struct upstream_watcher *next;
};

static void tail(struct upstream_loop *l)
{
    l->hooks->on_tail(l);
}

static void datagram_event(struct upstream_watcher *w, int revents)
{
    struct upstream_loop *l = w->loop;
    getdns_eventloop_event *e = w->event;
    void *query = w->query;
    bool readable = revents & EV_READ && e->read_cb;
    if (readable && query) {
        switch (l->hooks->on_datagram(l, query, w->io.fd)) {
        case DATAGRAM_PASS:
            break;
        case DATAGRAM_DROP:
        case DATAGRAM_GONE:
            tail(l);
            return;
        }
    }
    l->handled = e;
    l->handled_query = query;
    uint64_t before = l->completions;
    if (readable)
        e->read_cb(e->userarg);
    else if (revents & EV_WRITE && e->write_cb)
        e->write_cb(e->userarg);
    l->handled = NULL;
    if (readable && query && l->completions == before)
        l->hooks->on_foreign(l, query);
    tail(l);
}

/* True when calling again makes sense: the connection is still there, and the last call did
 * something: it completed a query, or at least did not find the socket dry. */
static bool goes_on(const struct upstream_loop *l, const getdns_eventloop_event *e,
                    uint64_t before)
{
    return l->stream_event == e && (l->completions != before || errno != EAGAIN);
}

/* A server that leaves Nagle's algorithm on holds its next answer back until the last one is
 * acknowledged, and we would take 40 ms for that. */
static void acknowledge(int fd)
{
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
}

static void stream_event(struct upstream_watcher *w, int revents)
{
    struct upstream_loop *l = w->loop;
    getdns_eventloop_event *e = w->event;
    int fd = w->io.fd;
    bool more = true;
    for (int n = 0; revents & EV_WRITE && more && e->write_cb && n < DRAIN_MAX; n++) {
        uint64_t before = l->completions;
        errno = 0;
        e->write_cb(e->userarg);
        more = goes_on(l, e, before);
    }
    more = l->stream_event == e;
    for (int n = 0; revents & EV_READ && more && e->read_cb; n++) {
        if (n == DRAIN_MAX) { /* what TLS holds back makes no event: come again */
            struct upstream_watcher *now = e->ev;
            ev_feed_event(l->ev, &now->io, EV_READ);
            break;
        }
        uint64_t before = l->completions;
        errno = 0;
        e->read_cb(e->userarg);
        more = goes_on(l, e, before);
    }
    if (!l->stream_event)
        l->hooks->on_connection(l, false);
    else if (revents & EV_READ && l->in_flight)
        acknowledge(fd);
    tail(l);
}

static void io_cb(struct ev_loop *ev, ev_io *io, int revents)
{
    (void)ev;
    struct upstream_watcher *w = io->data;
    if (w->loop->stream)
        stream_event(w, revents);
    else
        datagram_event(w, revents);
}

static void timer_cb(struct ev_loop *ev, ev_timer *t, int revents)
{
    (void)ev;
    (void)revents;
    struct upstream_watcher *w = t->data;
    struct upstream_loop *l = w->loop;
    bool connection = w->event == l->stream_event;
    w->event->timeout_cb(w->event->userarg);
    if (connection && !l->stream_event)
        l->hooks->on_connection(l, false);
    tail(l);
}

static void new_connection(int fd)
{
    int one = 1, patience = USER_TIMEOUT_MS, size = SEND_BUFFER;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
}

static void schedule_datagram(struct upstream_loop *l, struct upstream_watcher *w, int fd,
                              uint64_t timeout_ms)
{
    getdns_eventloop_event *e = w->event;
    if (l->handled == e)
        w->query = l->handled_query;
    else if (l->sending && !l->scheduled && e->write_cb)
        w->query = l->sending;
    if (!w->query) {
        /* A query that had waited for a descriptor, and nobody for it: let it time out unsent.
         */
        ev_timer_set(&w->timer, 0.0, 0.0);
        (void)timeout_ms;
        if (e->timeout_cb)
            ev_timer_start(l->ev, &w->timer);
        return;
    }
    ev_io_set(&w->io, fd, e->read_cb ? EV_READ : EV_WRITE);
    if (e->read_cb) {
        ev_io_start(l->ev, &w->io);
    } else if (e->write_cb) {
        /* When this fails, sending fails as well, and says why. */
        (void)connect(fd, (const struct sockaddr *)&l->peer, l->peer_len);
        ev_feed_event(l->ev, &w->io, EV_WRITE);
    }
}

static void schedule_stream(struct upstream_loop *l, struct upstream_watcher *w, int fd,
                            uint64_t timeout_ms)
{
    getdns_eventloop_event *e = w->event;
    if (fd >= 0) {
        if (e->write_cb && e->timeout_cb) {
            new_connection(fd);
            l->hooks->on_connection(l, true);
        } else if (!e->write_cb && e->timeout_cb) {
            /* Idle. 0: a server that said nothing of keeping alive (RFC 7828); it may close,
             * and we notice. Else end before the server does. */
            if (timeout_ms == 0 || timeout_ms > l->idle_ms)
                timeout_ms = l->idle_ms;
            else
                timeout_ms -= timeout_ms / 8;
        }
        l->stream_event = e;
        ev_io_set(&w->io, fd, (e->read_cb ? EV_READ : 0) | (e->write_cb ? EV_WRITE : 0));
        ev_io_start(l->ev, &w->io);
    }
    if (e->timeout_cb && timeout_ms < FOREVER_MS) {
        ev_timer_set(&w->timer, (double)timeout_ms / 1000.0, 0.0);
        ev_timer_start(l->ev, &w->timer);
    }
}

static getdns_return_t schedule(getdns_eventloop *base, int fd, uint64_t timeout_ms,
                                getdns_eventloop_event *e)
{
    struct upstream_loop *l = (struct upstream_loop *)base;
    struct upstream_watcher *w = l->free;
    if (w)
        l->free = w->next;
    else if (!(w = malloc(sizeof *w)))
        return GETDNS_RETURN_MEMORY_ERROR;
    ev_init(&w->io, io_cb);
    ev_init(&w->timer, timer_cb);
    w->io.data = w->timer.data = w;
    w->loop = l;
    w->event = e;
    w->query = NULL;
    e->ev = w;
    l->active++;
    if (l->stream)
        schedule_stream(l, w, fd, timeout_ms);
    else
        schedule_datagram(l, w, fd, timeout_ms);
    l->scheduled = true;
    return GETDNS_RETURN_GOOD;
}

static getdns_return_t clear(getdns_eventloop *base, getdns_eventloop_event *e)
{
    struct upstream_loop *l = (struct upstream_loop *)base;
    struct upstream_watcher *w = e->ev;
    if (!w)
        return GETDNS_RETURN_GOOD;
    ev_io_stop(l->ev, &w->io); /* takes back what was fed as well */
    ev_timer_stop(l->ev, &w->timer);
    if (l->stream_event == e)
        l->stream_event = NULL;
    e->ev = NULL;
    w->next = l->free;
    l->free = w;
    l->active--;
    return GETDNS_RETURN_GOOD;
}

/* getdns calls these three only for its synchronous functions, and the first at the end. */
static void cleanup(getdns_eventloop *base)
{
    (void)base;
}

static void run(getdns_eventloop *base)
{
    ev_run(((struct upstream_loop *)base)->ev, 0);
}

static void run_once(getdns_eventloop *base, int blocking)
{
    ev_run(((struct upstream_loop *)base)->ev, blocking ? EVRUN_ONCE : EVRUN_NOWAIT);
}

void upstream_loop_init(struct upstream_loop *l, struct ev_loop *ev, bool stream,
                        const struct upstream_loop_hooks *hooks)
{
    static getdns_eventloop_vmt vmt = {
        .cleanup = cleanup,
        .schedule = schedule,
        .clear = clear,
        .run = run,
        .run_once = run_once,
    };
    memset(l, 0, sizeof *l);
    l->base.vmt = &vmt;
    l->ev = ev;
    l->stream = stream;
    l->hooks = hooks;
}

void upstream_loop_deinit(struct upstream_loop *l)
{
    while (l->free) {
        struct upstream_watcher *w = l->free;
        l->free = w->next;
        free(w);
    }
}
