/* echo_handler.h - a query handler for tests of DNS front ends: the answer is the query
 * with QR set, at once, or later and in the order that the test chooses. */
#ifndef PITH_TESTS_ECHO_HANDLER_H
#define PITH_TESTS_ECHO_HANDLER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/query.h"

enum { ECHO_HELD_MAX = 256, ECHO_ID_HELD = 0x8000 };

struct echo_held {
    struct query *query;
    uint8_t *msg;
    size_t len;
};

/* Queries whose ID has the top bit set are held when hold is set. */
struct echo_handler {
    struct query_handler handler; /* first */
    bool hold;
    size_t grow; /* octets of 0xaa added to each answer */
    struct echo_held held[ECHO_HELD_MAX];
    size_t n_held, n_seen, n_cancelled;
    struct addr client; /* of the last query */
    enum query_transport transport;
    uint16_t last_id;
};

static inline void echo_reply(struct echo_handler *h, struct query *q, const uint8_t *msg,
                              size_t len)
{
    static _Thread_local uint8_t out[65535];
    struct query_reply reply = {.verdict = QUERY_MALFORMED};
    if (len >= 12 && !(msg[2] & 0x80)) {
        size_t grow = h->grow < sizeof out - len ? h->grow : sizeof out - len;
        memcpy(out, msg, len);
        out[2] |= 0x80;
        memset(out + len, 0xaa, grow);
        reply = (struct query_reply){
            .verdict = QUERY_ANSWER, .msg = out, .len = len + grow, .max_age_s = 300};
    }
    q->on_reply(q, &reply);
}

static inline void echo_submit(struct query_handler *qh, struct query *q)
{
    struct echo_handler *h = (struct echo_handler *)qh;
    h->n_seen++;
    h->client = q->client;
    h->transport = q->transport;
    h->last_id = 0;
    if (q->msg_len >= 2)
        h->last_id = (uint16_t)(q->msg[0] << 8 | q->msg[1]);
    if (!h->hold || !(h->last_id & ECHO_ID_HELD) || h->n_held == ECHO_HELD_MAX) {
        echo_reply(h, q, q->msg, q->msg_len);
        return;
    }
    struct echo_held *held = &h->held[h->n_held++];
    *held = (struct echo_held){.query = q, .msg = malloc(q->msg_len), .len = q->msg_len};
    if (!held->msg)
        abort();
    memcpy(held->msg, q->msg, q->msg_len);
}

static inline struct echo_held echo_take(struct echo_handler *h, size_t i)
{
    struct echo_held held = h->held[i];
    h->n_held--;
    memmove(h->held + i, h->held + i + 1, (h->n_held - i) * sizeof h->held[0]);
    return held;
}

static inline void echo_cancel(struct query_handler *qh, struct query *q)
{
    struct echo_handler *h = (struct echo_handler *)qh;
    for (size_t i = 0; i < h->n_held; i++) {
        if (h->held[i].query == q) {
            free(echo_take(h, i).msg);
            h->n_cancelled++;
            return;
        }
    }
    abort(); /* what is not in flight cannot be cancelled */
}

/* Answers the i-th query that is held. */
static inline void echo_release(struct echo_handler *h, size_t i)
{
    struct echo_held held = echo_take(h, i);
    echo_reply(h, held.query, held.msg, held.len);
    free(held.msg);
}

static inline void echo_init(struct echo_handler *h)
{
    memset(h, 0, sizeof *h);
    h->handler.submit = echo_submit;
    h->handler.cancel = echo_cancel;
}

/* The query "example.com A" with this ID behind the length of DNS over streams; out has
 * ECHO_QUERY_SIZE octets. */
enum { ECHO_QUERY_SIZE = 2 + 29 };
static inline void echo_query(uint8_t *out, uint16_t id)
{
    static const uint8_t query[ECHO_QUERY_SIZE] =
        "\0\35\0\0\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1";
    memcpy(out, query, sizeof query);
    out[2] = (uint8_t)(id >> 8);
    out[3] = (uint8_t)id;
}

#endif
