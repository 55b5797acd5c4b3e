/* probe.c - see probe.h. */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"

enum { PADDING_BLOCK = 128, TYPE_A = 1 };

static bool fail(char *why, size_t why_size, const char *what)
{
    snprintf(why, why_size, "%s", what);
    return false;
}

/* --- connection ------------------------------------------------------------------------------
 */

static int wait_until(int fd, short events, uint64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    uint64_t now;
    int n;

    do {
        now = clock_now_ms();
        n = now >= deadline_ms ? 0 : poll(&p, 1, (int)(deadline_ms - now));
    } while (n < 0 && errno == EINTR);
    return n;
}

static bool tell_connect(int error, char *why, size_t why_size)
{
    switch (error) {
    case ECONNREFUSED:
        return fail(why, why_size,
                    "connection refused: nothing listens there, or a firewall rejects it");
    case ETIMEDOUT:
        return fail(why, why_size,
                    "nothing comes back: a firewall, or a port that is not forwarded");
    default:
        return fail(why, why_size, strerror(error));
    }
}

bool probe_connect(struct probe *p, const struct addr *address, unsigned timeout_ms,
                   uint64_t deadline_ms, char *why, size_t why_size)
{
    struct sockaddr_storage sa;
    socklen_t len = addr_to_sockaddr(address, &sa);
    uint64_t until = clock_now_ms() + timeout_ms;
    int error = 0;

    *p = (struct probe){.deadline_ms = deadline_ms};
    p->fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0)
        return tell_connect(errno, why, why_size);
    if (connect(p->fd, (const struct sockaddr *)&sa, len) != 0)
        error = errno;
    if (error == EINPROGRESS) {
        socklen_t size = sizeof(error);
        if (until > deadline_ms)
            until = deadline_ms;
        if (wait_until(p->fd, POLLOUT, until) <= 0)
            error = ETIMEDOUT;
        else if (getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error == 0)
        return true;
    probe_close(p);
    return tell_connect(error, why, why_size);
}

void probe_close(struct probe *p)
{
    h2_client_destroy(p->h2);
    tls_client_close(p->tls);
    if (p->fd >= 0)
        close(p->fd);
    *p = (struct probe){.fd = -1};
}

bool probe_tls(struct probe *p, const char *host, const char *alpn, const char *ca,
               struct tls_client_report *report)
{
    const struct tls_client_options options = {
        .host = host, .ca = ca, .alpn = alpn, .deadline_ms = p->deadline_ms};

    p->tls = tls_client_open(p->fd, &options, report);
    return p->tls != NULL;
}

bool probe_send(struct probe *p, const void *data, size_t len)
{
    const char *rest = data;

    if (p->tls != NULL)
        return tls_client_write(p->tls, data, len);
    while (len > 0) {
        ssize_t n = send(p->fd, rest, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (n < 0 && wait_until(p->fd, POLLOUT, p->deadline_ms) <= 0)
            return false;
        rest += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* As tls_client_read(). */
static ssize_t receive(struct probe *p, void *data, size_t size)
{
    if (p->tls != NULL)
        return tls_client_read(p->tls, data, size);
    for (;;) {
        ssize_t n = recv(p->fd, data, size, 0);
        if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            return n;
        if (wait_until(p->fd, POLLIN, p->deadline_ms) <= 0)
            return -1;
    }
}

static bool tell_receive(ssize_t n, char *why, size_t why_size)
{
    return fail(why, why_size,
                n == 0 ? "the connection is closed without an answer" : "no answer in time");
}

/* --- asking ----------------------------------------------------------------------------------
 */

size_t probe_query(uint8_t *out, uint16_t id, const char *name, bool padded)
{
    static const uint8_t zeros[PADDING_BLOCK];
    struct dns_builder b;
    uint8_t wire[DNS_NAME_MAX];
    size_t wire_len = name_from_text(wire, name);

    if (wire_len == 0 || wire_len > PROBE_QUERY_SIZE / 2 ||
        !build_start(&b, out, PROBE_QUERY_SIZE, id, DNS_RD, wire, wire_len, TYPE_A,
                     DNS_CLASS_IN))
        return 0;
    size_t len = build_finish(&b);
    uint8_t *opt = out + len;
    uint8_t *end = opt + edns_write(opt, DNS_UDP_SIZE, 0, 0);
    out[DNS_HEADER_SIZE - 1] = 1; /* ARCOUNT */
    if (padded) {
        size_t padding = edns_padding((size_t)(end - out), PADDING_BLOCK, PROBE_QUERY_SIZE);
        end = edns_add(opt, end, out + PROBE_QUERY_SIZE, DNS_OPTION_PADDING, zeros, padding);
    }
    return (size_t)(end - out);
}

static bool flush(struct probe *p, char *why, size_t why_size)
{
    const uint8_t *data;
    size_t len;
    int more;

    while ((more = h2_client_output(p->h2, &data, &len)) > 0) {
        if (!probe_send(p, data, len))
            return fail(why, why_size, "the connection breaks while it is asked");
    }
    return more == 0 || fail(why, why_size, "the server ends the HTTP/2 session");
}

bool probe_ask_doh(struct probe *p, bool post, const char *authority, const char *path,
                   const uint8_t *query, size_t len, struct probe_answer *answer, char *why,
                   size_t why_size)
{
    if (p->h2 == NULL)
        p->h2 = h2_client_create();
    if (p->h2 == NULL || !h2_client_request(p->h2, post, authority, path, query, len))
        return fail(why, why_size, "memory is out");
    const struct h2_response *r = h2_client_response(p->h2);
    while (!r->done && !r->reset && !r->too_long) {
        if (!flush(p, why, why_size))
            return false;
        ssize_t n = receive(p, answer->message, sizeof(answer->message));
        if (n <= 0)
            return tell_receive(n, why, why_size);
        if (!h2_client_input(p->h2, answer->message, (size_t)n))
            return fail(why, why_size, "what comes back is no HTTP/2");
    }
    if (!r->done)
        return fail(why, why_size,
                    r->reset ? "the server resets the request" : "the response is too long");
    answer->status = r->status;
    snprintf(answer->type, sizeof(answer->type), "%s", r->type);
    answer->len = r->body_len;
    if (r->body_len > 0)
        memcpy(answer->message, r->body, r->body_len);
    return true;
}

bool probe_ask_stream(struct probe *p, const uint8_t *query, size_t len,
                      struct probe_answer *answer, char *why, size_t why_size)
{
    uint8_t framed[2 + PROBE_QUERY_SIZE] = {(uint8_t)(len >> 8), (uint8_t)len};
    size_t got = 0, wanted = 2;

    /* In one piece, as clients do (RFC 7766 8). */
    memcpy(framed + 2, query, len);
    if (!probe_send(p, framed, 2 + len))
        return fail(why, why_size, "the connection breaks while it is asked");
    while (got < wanted) {
        ssize_t n = receive(p, answer->message + got, sizeof(answer->message) - got);
        if (n <= 0)
            return tell_receive(n, why, why_size);
        got += (size_t)n;
        if (got >= 2)
            wanted = 2 + ((size_t)answer->message[0] << 8 | answer->message[1]);
    }
    answer->status = 0;
    answer->type[0] = '\0';
    answer->len = wanted - 2;
    memmove(answer->message, answer->message + 2, answer->len);
    return true;
}
