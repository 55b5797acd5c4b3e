/* sockets.c - see sockets.h. */
#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "activation.h"

enum {
    /* The kernel cuts it to net.core.somaxconn. */
    BACKLOG = 4096,
    /* Seconds that a connection may wait in the kernel for its first octets: clients speak
     * first in every protocol we have, so nobody is woken for a bare handshake. */
    DEFER_S = 1,
    FAST_OPEN_QUEUE = 256,
    /* UDP has to get the port that TCP was given; somebody may be on it. */
    PORT_TRIES = 16,
};

const char *listener_kind_name(enum listener_kind kind)
{
    static const char *const names[] = {"doh", "dot", "dns"};

    return names[kind];
}

static bool fail(const struct config_listener *l, int error_number, char *error,
                 size_t error_size)
{
    char text[ADDR_TEXT_SIZE];
    const char *hint = "";

    if (error_number == EACCES && l->address.port < 1024)
        hint = " (a port under 1024 needs root or CAP_NET_BIND_SERVICE)";
    snprintf(error, error_size, "listen.%s: %s: %s%s", listener_kind_name(l->kind),
             addr_format(&l->address, text), strerror(error_number), hint);
    return false;
}

static bool switch_on(int fd, int level, int option)
{
    static const int on = 1;

    return setsockopt(fd, level, option, &on, sizeof(on)) == 0;
}

/* A bound socket, or -1 with errno set. `shared`: others of ours are on the address as well. */
static int bind_socket(const struct addr *address, int type, bool shared)
{
    static const int off = 0;
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(address, &sa);
    int fd = socket(sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    /* Over TCP this passes by connections in TIME_WAIT only; over UDP it would share. */
    bool ok = type != SOCK_STREAM || switch_on(fd, SOL_SOCKET, SO_REUSEADDR);
    if (shared)
        ok = ok && switch_on(fd, SOL_SOCKET, SO_REUSEPORT);
    if (sa.ss_family == AF_INET6)
        ok = ok && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0;
    if (ok && bind(fd, (const struct sockaddr *)&sa, len) == 0)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

bool sockets_probe(const struct config_listener *l, char *error, size_t error_size)
{
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    size_t n = l->kind == LISTENER_DNS ? 2 : 1;

    for (size_t i = 0; i < n; i++) {
        if (activation_has(&l->address, types[i]))
            continue;
        int fd = bind_socket(&l->address, types[i], false);
        if (fd < 0)
            return fail(l, errno, error, error_size);
        close(fd);
    }
    return true;
}

/* What makes accepting cheaper but is not needed: failures are of no account. */
static void tune_tcp(int fd)
{
    static const int defer_s = DEFER_S, queue = FAST_OPEN_QUEUE;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof(defer_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue));
}

static bool bound_port(int fd, uint16_t *port)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    struct addr a;

    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0 ||
        !addr_from_sockaddr(&a, (const struct sockaddr *)&sa))
        return false;
    *port = a.port;
    return true;
}

static void close_all(int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* One that was passed to us, else one of our own among others on the address. */
static int open_socket(const struct addr *address, int type)
{
    return activation_has(address, type) ? activation_open(address, type)
                                         : bind_socket(address, type, true);
}

/* All sockets of the set on s->address; the first TCP one settles the port. errno on failure.
 */
static bool open_all(struct socket_set *s, bool udp)
{
    for (size_t i = 0; i < s->n; i++) {
        s->tcp[i] = open_socket(&s->address, SOCK_STREAM);
        if (s->tcp[i] < 0 || !bound_port(s->tcp[i], &s->address.port))
            return false;
        tune_tcp(s->tcp[i]);
        if (listen(s->tcp[i], BACKLOG) != 0)
            return false;
    }
    for (size_t i = 0; udp && i < s->n; i++) {
        s->udp[i] = open_socket(&s->address, SOCK_DGRAM);
        if (s->udp[i] < 0)
            return false;
    }
    return true;
}

bool sockets_open(struct socket_set *s, const struct config_listener *l, size_t n, char *error,
                  size_t error_size)
{
    *s = (struct socket_set){.address = l->address, .n = n};
    s->tcp = malloc(n * sizeof(*s->tcp));
    s->udp = malloc(n * sizeof(*s->udp));
    if (s->tcp == NULL || s->udp == NULL) {
        s->n = 0;
        sockets_close(s);
        return fail(l, ENOMEM, error, error_size);
    }
    memset(s->tcp, 0xff, n * sizeof(*s->tcp));
    memset(s->udp, 0xff, n * sizeof(*s->udp));

    unsigned tries = l->address.port == 0 ? PORT_TRIES : 1;
    for (unsigned i = 0; i < tries; i++) {
        if (open_all(s, l->kind == LISTENER_DNS))
            return true;
        int error_number = errno;
        close_all(s->tcp, n);
        close_all(s->udp, n);
        s->address = l->address;
        fail(l, error_number, error, error_size);
    }
    sockets_close(s);
    return false;
}

void sockets_close(struct socket_set *s)
{
    if (s->tcp != NULL)
        close_all(s->tcp, s->n);
    if (s->udp != NULL)
        close_all(s->udp, s->n);
    free(s->tcp);
    free(s->udp);
    *s = (struct socket_set){.n = 0};
}
