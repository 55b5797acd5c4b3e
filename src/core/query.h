/* query.h - the seam between front ends and the proxy: one question, exactly one
 * answer.
 *
 * A transport embeds a struct query in its own object of a stream, fills the first
 * part and calls query_submit(). It gets exactly one on_reply(), which may come
 * inside query_submit() (a hit, an error), unless it calls query_cancel() before.
 * After query_submit() returned, the handler touches neither `msg` nor anything of
 * the transport but the struct itself, until it replies.
 *
 * Owner: the transport. Thread: the worker that submitted. */
#ifndef PITH_CORE_QUERY_H
#define PITH_CORE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"

enum query_transport {
    QUERY_UDP,
    QUERY_TCP,
    QUERY_DOT,
    QUERY_DOH, /* any HTTP version, over TLS or clear behind a proxy */
};

enum query_verdict {
    QUERY_ANSWER,    /* msg is the answer */
    QUERY_MALFORMED, /* no DNS answer is due (short header, QR=1): HTTP 400, nothing on
                      * UDP, the end of a stream. msg is NULL. */
    QUERY_LIMITED,   /* over the client's rate: HTTP 429, else msg (REFUSED with EDE) */
};

struct query_reply {
    enum query_verdict verdict;
    const uint8_t *msg; /* whole DNS message with the ID asked; borrowed for the call */
    size_t len;         /* at most 65535, and over UDP at most what the client takes */
    uint32_t max_age_s; /* HTTP freshness (RFC 8484 5.1); 0: no-store */
    bool private_answer; /* made for the client's own address: cache-control: private */
};

struct query;

struct query_handler {
    void (*submit)(struct query_handler *h, struct query *q);
    void (*cancel)(struct query_handler *h, struct query *q);
    /* Of these, as many as there are, msg is going to be submitted next: a hint. May be NULL. */
    void (*expect)(struct query_handler *h, struct query *const *q, size_t n);
};

struct query {
    /* the transport fills these */
    const uint8_t *msg; /* the request as received; borrowed until submit returns */
    size_t msg_len;     /* any length, 0 too */
    struct query_handler *handler;
    void (*on_reply)(struct query *q, const struct query_reply *reply);
    struct addr client; /* effective address: after PROXY and trusted X-Forwarded-For */
    enum query_transport transport;
    /* the handler's between submit and reply; the transport leaves it alone */
    void *state;
};

static inline void query_submit(struct query *q)
{
    q->state = NULL;
    q->handler->submit(q->handler, q);
}

/* For transports that read several requests at once: told of them first, the handler can have
 * what it will need for all of them brought from memory at the same time. */
static inline void query_expect(struct query_handler *h, struct query *const *q, size_t n)
{
    if (h->expect != NULL && n > 1)
        h->expect(h, q, n);
}

/* The transport lost interest. No on_reply() follows. Only between a query_submit()
 * that returned without a reply and the reply. */
static inline void query_cancel(struct query *q)
{
    q->handler->cancel(q->handler, q);
}

#endif
