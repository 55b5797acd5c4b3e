/* udp.c - DNS over UDP in batches.
 *
 * One wake-up reads up to BATCH datagrams with one call, submits them, and sends all
 * answers that came at once with one call. Answers that come later are gathered and sent
 * before the loop sleeps. A query that waits for its answer keeps an object from a free
 * list; memory is bounded by IN_FLIGHT_MAX of them. What is answered at once is not: many who
 * wait for one upstream keep nobody from the cache.
 * Owner and thread: the worker. */
#include "udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/log.h"
#include "core/metrics.h"

enum {
    BATCH = 64,
    IN_SIZE = 4096,           /* a query cut off here is malformed all the same */
    IN_STRIDE = IN_SIZE + 64, /* no power of two: slots fall in different cache sets */
    OUT_SIZE = 4096,          /* above every size that an answer over UDP has */
    OUT_ROOM = BATCH * 1232,  /* octets of a batch of answers, one behind the other */
    IN_FLIGHT_MAX = 65536,    /* the proxy lets no more wait, and says so to all others */
    DRAIN_BATCHES = 32,       /* as much as a socket's queue holds of short queries */
    FREE_MAX = 256,           /* objects kept for the next queries */
};

/* Room for one IP_PKTINFO or IPV6_PKTINFO. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

/* Whom to answer, and from which address. */
struct route {
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } peer;
    socklen_t peer_len;
    socklen_t control_len; /* 0: the socket has one address only */
    union control control;
};

struct udp_query {
    struct query query;
    struct udp_listener *listener;
    struct udp_query *prev, *next; /* among the open ones; next: on the free list */
    bool open;                     /* submitted, not yet replied */
    bool replied;                  /* inside submit */
    struct route route;
};

struct udp_listener {
    struct ev_loop *loop;
    struct query_handler *handler;
    int fd;
    bool wildcard; /* bound to no address: the one asked has to be noted */
    ev_io reader, writer;
    ev_timer again; /* for buffers of the system, which no event tells of */
    ev_prepare prepare;
    struct udp_query *open, *free;
    size_t in_flight, n_free;

    /* what recvmmsg() fills */
    struct mmsghdr in[BATCH];
    struct iovec in_vec[BATCH];
    struct udp_query *in_query[BATCH]; /* its route takes the addresses */
    size_t in_used;                    /* slots that the last read may have changed */
    uint8_t in_buf[BATCH][IN_STRIDE];

    /* answers that wait for sendmmsg(): those from out_first on */
    size_t out_first, n_out, out_len;
    struct mmsghdr out[BATCH];
    struct iovec out_vec[BATCH];
    struct route out_route[BATCH];
    uint8_t out_buf[OUT_ROOM];
};

/* ---- sending ---- */

static const double again_s = 0.001;

static void send_out(struct udp_listener *u)
{
    while (u->out_first < u->n_out) {
        int n = sendmmsg(u->fd, u->out + u->out_first, (unsigned)(u->n_out - u->out_first),
                         MSG_DONTWAIT);
        if (n > 0) {
            u->out_first += (size_t)n;
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            ev_io_start(u->loop, &u->writer);
            return;
        }
        if (errno == ENOBUFS) { /* while the socket is said to be writable */
            ev_timer_stop(u->loop, &u->again);
            ev_timer_set(&u->again, again_s, 0.);
            ev_timer_start(u->loop, &u->again);
            return;
        }
        /* The first one cannot be sent (no route, a filter): the others may. */
        metrics_count(M_UDP_SEND_ERRORS);
        log_debug("udp: an answer was not sent: %s", strerror(errno));
        u->out_first++;
    }
    u->out_first = u->n_out = u->out_len = 0;
    ev_io_stop(u->loop, &u->writer);
    ev_timer_stop(u->loop, &u->again);
}

static bool waits_to_send(const struct udp_listener *u)
{
    return ev_is_active(&u->writer) || ev_is_active(&u->again);
}

static void on_writable(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop, (void)events;
    send_out(w->data);
}

static void on_again(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)events;
    send_out(w->data);
}

static bool has_room(const struct udp_listener *u, size_t len)
{
    return u->n_out < BATCH && len <= OUT_ROOM - u->out_len;
}

static void put_answer(struct udp_listener *u, const struct route *to, const uint8_t *msg,
                       size_t len)
{
    if (!has_room(u, len))
        send_out(u);
    if (!has_room(u, len) || len > OUT_SIZE) {
        metrics_count(M_UDP_SEND_ERRORS);
        return;
    }
    size_t i = u->n_out++;
    struct msghdr *h = &u->out[i].msg_hdr;
    struct route *r = &u->out_route[i];
    u->out_vec[i].iov_base = memcpy(u->out_buf + u->out_len, msg, len);
    u->out_vec[i].iov_len = len;
    u->out_len += len;
    memcpy(&r->peer, &to->peer, sizeof r->peer);
    h->msg_namelen = to->peer_len;
    h->msg_controllen = to->control_len;
    h->msg_control = NULL;
    if (to->control_len > 0) {
        memcpy(&r->control, &to->control, sizeof r->control);
        h->msg_control = &r->control;
    }
}

/* ---- queries ---- */

static struct udp_query *from_query(struct query *q)
{
    return (struct udp_query *)((char *)q - offsetof(struct udp_query, query));
}

static void release(struct udp_listener *u, struct udp_query *q)
{
    if (u->n_free >= FREE_MAX) {
        free(q);
        return;
    }
    q->next = u->free;
    u->free = q;
    u->n_free++;
}

static struct udp_query *obtain(struct udp_listener *u)
{
    struct udp_query *q = u->free;
    if (q) {
        u->free = q->next;
        u->n_free--;
        return q;
    }
    return malloc(sizeof *q);
}

static void unlink_open(struct udp_listener *u, struct udp_query *q)
{
    if (q->prev)
        q->prev->next = q->next;
    else
        u->open = q->next;
    if (q->next)
        q->next->prev = q->prev;
    u->in_flight--;
}

static void link_open(struct udp_listener *u, struct udp_query *q)
{
    q->open = true;
    q->prev = NULL;
    q->next = u->open;
    if (u->open)
        u->open->prev = q;
    u->open = q;
    u->in_flight++;
}

static void on_reply(struct query *query, const struct query_reply *reply)
{
    struct udp_query *q = from_query(query);
    struct udp_listener *u = q->listener;
    if (reply->verdict == QUERY_MALFORMED)
        metrics_count(M_UDP_DROPPED);
    else
        put_answer(u, &q->route, reply->msg, reply->len);
    q->replied = true;
    if (!q->open)
        return; /* inside submit */
    unlink_open(u, q);
    release(u, q);
}

/* ---- receiving ---- */

/* The answer leaves from the address the query came to. The interface counts only where
 * the address alone does not say enough. */
static void turn_control(struct route *r, struct msghdr *h)
{
    r->control_len = 0;
    struct cmsghdr *c = CMSG_FIRSTHDR(h);
    if (!c)
        return;
    if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        info.ipi_ifindex = 0;
        memcpy(CMSG_DATA(c), &info, sizeof info);
        r->control_len = (socklen_t)CMSG_SPACE(sizeof info);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
        struct in6_pktinfo info;
        memcpy(&info, CMSG_DATA(c), sizeof info);
        if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr))
            return;
        if (!IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            info.ipi6_ifindex = 0;
        memcpy(CMSG_DATA(c), &info, sizeof info);
        r->control_len = (socklen_t)CMSG_SPACE(sizeof info);
    }
}

/* Submits the datagram in slot i. True when its query object is still the slot's. */
static bool take(struct udp_listener *u, size_t i)
{
    struct udp_query *q = u->in_query[i];
    struct msghdr *h = &u->in[i].msg_hdr;
    q->route.peer_len = h->msg_namelen;
    if (!addr_from_sockaddr(&q->query.client, &q->route.peer.sa) || q->query.client.port == 0) {
        metrics_count(M_UDP_DROPPED);
        return true;
    }
    turn_control(&q->route, h);
    q->listener = u;
    q->open = q->replied = false;
    q->query.handler = u->handler;
    q->query.on_reply = on_reply;
    q->query.transport = QUERY_UDP;
    query_submit(&q->query);
    if (q->replied)
        return true;
    if (u->in_flight >= IN_FLIGHT_MAX) {
        query_cancel(&q->query);
        metrics_count(M_UDP_DROPPED);
        return true;
    }
    link_open(u, q);
    return false;
}

/* Tells the handler of n datagrams that are going to be submitted. */
static void expect(struct udp_listener *u, size_t n)
{
    struct query *queries[BATCH];
    for (size_t i = 0; i < n; i++) {
        queries[i] = &u->in_query[i]->query;
        queries[i]->msg = u->in_buf[i];
        queries[i]->msg_len = u->in[i].msg_len;
    }
    query_expect(u->handler, queries, n);
}

/* Readies the slots that were used or have no query object. Returns how many are ready,
 * from the first on. */
static size_t ready_slots(struct udp_listener *u)
{
    for (size_t i = 0; i < u->in_used; i++) {
        if (!u->in_query[i])
            u->in_query[i] = obtain(u);
        struct udp_query *q = u->in_query[i];
        if (!q)
            return i;
        struct msghdr *h = &u->in[i].msg_hdr;
        h->msg_name = &q->route.peer;
        h->msg_namelen = sizeof q->route.peer;
        h->msg_control = u->wildcard ? &q->route.control : NULL;
        h->msg_controllen = u->wildcard ? sizeof q->route.control : 0;
    }
    return BATCH;
}

/* True when there may be more. */
static bool read_batch(struct udp_listener *u)
{
    size_t slots = ready_slots(u);
    int n = recvmmsg(u->fd, u->in, (unsigned)slots, MSG_DONTWAIT, NULL);
    if (slots == BATCH)
        u->in_used = n > 0 ? (size_t)n : 0;
    expect(u, n > 0 ? (size_t)n : 0);
    for (int i = 0; i < n; i++) {
        if (!take(u, (size_t)i))
            u->in_query[i] = NULL;
    }
    send_out(u);
    return n > 0 && (size_t)n == slots;
}

static void on_readable(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop, (void)events;
    read_batch(w->data);
}

/* Answers that came by other events than ours. */
static void on_prepare(struct ev_loop *loop, ev_prepare *w, int events)
{
    (void)loop, (void)events;
    struct udp_listener *u = w->data;
    if (u->n_out > 0 && !waits_to_send(u))
        send_out(u);
}

/* ---- the socket ---- */

static bool is_wildcard(int fd)
{
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } u;
    socklen_t len = sizeof u;
    if (getsockname(fd, &u.sa, &len) != 0)
        return true;
    if (u.sa.sa_family == AF_INET)
        return u.in.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&u.in6.sin6_addr);
}

static int family_of(int fd)
{
    int domain = AF_INET;
    socklen_t len = sizeof domain;
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len);
    return domain;
}

/* No DF and no path MTU state that others could poison: answers are small enough
 * (RFC 9715 3.1). What fails here fails on old systems only. */
static void set_options(struct udp_listener *u)
{
    int one = 1;
    int omit = IP_PMTUDISC_OMIT;
    setsockopt(u->fd, IPPROTO_IP, IP_MTU_DISCOVER, &omit, sizeof omit);
    if (family_of(u->fd) == AF_INET6) {
        int omit6 = IPV6_PMTUDISC_OMIT;
        setsockopt(u->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &omit6, sizeof omit6);
    }
    u->wildcard = is_wildcard(u->fd);
    if (!u->wildcard)
        return;
    if (family_of(u->fd) == AF_INET6)
        setsockopt(u->fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
    else
        setsockopt(u->fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
}

struct udp_listener *udp_open(struct ev_loop *loop, int fd, struct query_handler *handler)
{
    struct udp_listener *u = calloc(1, sizeof *u);
    if (!u) {
        close(fd);
        return NULL;
    }
    u->loop = loop;
    u->handler = handler;
    u->fd = fd;
    set_options(u);
    u->in_used = BATCH;
    for (size_t i = 0; i < BATCH; i++) {
        u->in_vec[i] = (struct iovec){u->in_buf[i], IN_SIZE};
        u->in[i].msg_hdr.msg_iov = &u->in_vec[i];
        u->in[i].msg_hdr.msg_iovlen = 1;
        u->out[i].msg_hdr.msg_iov = &u->out_vec[i];
        u->out[i].msg_hdr.msg_iovlen = 1;
        u->out[i].msg_hdr.msg_name = &u->out_route[i].peer;
    }
    ev_io_init(&u->reader, on_readable, fd, EV_READ);
    ev_io_init(&u->writer, on_writable, fd, EV_WRITE);
    ev_prepare_init(&u->prepare, on_prepare);
    ev_set_priority(&u->prepare, EV_MINPRI); /* after all who may answer */
    ev_timer_init(&u->again, on_again, 0., 0.);
    u->reader.data = u->writer.data = u->again.data = u->prepare.data = u;
    ev_io_start(loop, &u->reader);
    ev_prepare_start(loop, &u->prepare);
    return u;
}

void udp_drain(struct udp_listener *u)
{
    /* What the kernel took before counts as accepted. */
    for (size_t i = 0; i < DRAIN_BATCHES && read_batch(u); i++)
        ;
    ev_io_stop(u->loop, &u->reader);
}

size_t udp_in_flight(const struct udp_listener *u)
{
    return u->in_flight + u->n_out - u->out_first;
}

void udp_close(struct udp_listener *u)
{
    if (!u)
        return;
    while (u->open) {
        struct udp_query *q = u->open;
        unlink_open(u, q);
        query_cancel(&q->query);
        free(q);
    }
    send_out(u);
    while (u->free) {
        struct udp_query *q = u->free;
        u->free = q->next;
        free(q);
    }
    for (size_t i = 0; i < BATCH; i++)
        free(u->in_query[i]);
    ev_io_stop(u->loop, &u->reader);
    ev_io_stop(u->loop, &u->writer);
    ev_timer_stop(u->loop, &u->again);
    ev_prepare_stop(u->loop, &u->prepare);
    close(u->fd);
    free(u);
}
