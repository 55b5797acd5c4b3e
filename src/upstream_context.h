/* upstream_context.h - one getdns context a transport of an upstream: send a question, get its
 * outcome.
 *
 * Hides the getdns API: set-up, extensions, escaping of names, response dicts, and the cures
 * that need more than an event loop:
 *  - a reply comes out only when it is whole, well formed and fits the question; over UDP all
 * that is checked before getdns' own parser sees the datagram;
 *  - after a connection ended (in good order or not), after an authentication failure and when
 * getdns refuses to send, the upstream list is set again, or the context made anew while asks
 * hang in the old one: getdns keeps half-read messages, back-off and old verdicts otherwise.
 * Never inside one of its callbacks;
 *  - a query that getdns parks because descriptors are out is found out at once.
 *
 * One engine a worker holds what the contexts share. Outcomes are delivered from the loop,
 * never inside upstream_context_send(), with nothing of getdns on the stack. Owner: the
 * upstream set. Thread: its worker. Contexts are created and destroyed under one process-wide
 * mutex (races in libunbound otherwise). */
#ifndef PITH_UPSTREAM_CONTEXT_H
#define PITH_UPSTREAM_CONTEXT_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "dns/ecs.h"
#include "dns/message.h"

enum upstream_outcome {
    OUTCOME_REPLY,     /* checked */
    OUTCOME_TRUNCATED, /* UDP: ask over TCP (TC, larger than we said, or the question's case is
                          off) */
    OUTCOME_NO_EDNS,   /* FORMERR without OPT: a server from before RFC 6891; ask plainly */
    OUTCOME_BAD,       /* a reply that is malformed or does not fit; only over streams */
    OUTCOME_TIMEOUT,   /* getdns gave up */
    OUTCOME_REFUSED,   /* could not be sent or connected */
    OUTCOME_CLOSED,    /* the connection ended with the query on it */
    OUTCOME_LOCAL,     /* our own lack of descriptors or memory */
};

/* One question on its way. The caller's storage from send to outcome. */
struct upstream_query {
    /* The caller's, before the send. */
    uint8_t qname[DNS_NAME_MAX]; /* in the case to be sent */
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled;
    bool exact_case;          /* UDP: a reply in another case is not believed */
    bool plain;               /* no OPT record: no DO, no subnet, 512 octets over UDP */
    const struct ecs *subnet; /* NULL: none; lives as long as the query */
    uint32_t timeout_ms;      /* streams: when getdns gives up */

    /* The outcome: valid in on_outcome(). */
    enum upstream_outcome outcome;
    struct dns_reply reply; /* OUTCOME_REPLY */
    uint8_t *octets;        /* the same message, which may be written to */
    bool other_case;        /* the reply's question differs in case */
    bool fresh;             /* nothing had come over the connection when it was handed over */

    /* The context's. */
    struct upstream_engine *engine;
    struct upstream_ticket *ticket; /* what getdns holds; NULL: nothing */
    bool done;                      /* waits for on_outcome() */
    struct getdns_dict *dict;
    struct upstream_query *next;
};

struct upstream_engine;
struct upstream_context;

struct upstream_engine_hooks {
    /* Exactly once for each send, unless abandoned. */
    void (*on_outcome)(void *arg, struct upstream_query *q);
    /* UDP: a datagram for q was dropped (malformed, wrong question, wrong ID); q still waits.
     */
    void (*on_bad_datagram)(void *arg, struct upstream_query *q);
    /* A reply that nobody waits for came over a stream of this context (its user pointer). */
    void (*on_late)(void *arg, void *user);
};

struct upstream_engine *upstream_engine_create(struct ev_loop *loop,
                                               const struct upstream_engine_hooks *hooks,
                                               void *arg);
/* After all its contexts. */
void upstream_engine_destroy(struct upstream_engine *e);

/* What a context needs to know of its upstream; copied but for the strings and pins, which stay
 * the caller's and outlive the context. */
struct upstream_target {
    struct addr addr;
    enum upstream_transport transport;
    const char *tls_name, *ca;
    const uint8_t (*pins)[32];
    size_t n_pins;
    void *user; /* for on_late() */
};

/* NULL when getdns does not make one (logged). */
struct upstream_context *upstream_context_create(struct upstream_engine *e,
                                                 const struct upstream_target *target);
/* Ends what is open: each such query gets its on_outcome() first. Not from a callback. */
void upstream_context_destroy(struct upstream_context *c);

/* Hands q to getdns. An outcome follows in any case. */
void upstream_context_send(struct upstream_context *c, struct upstream_query *q);

/* Nobody waits for q any more; it is the caller's again. Fine on one that is not under way. */
void upstream_query_abandon(struct upstream_query *q);

/* Forget connection and verdicts before the next send. */
void upstream_context_reset(struct upstream_context *c);
/* The same, and read the CA file again. */
void upstream_context_renew(struct upstream_context *c);

/* Queries that getdns holds, abandoned ones too. */
size_t upstream_context_in_flight(const struct upstream_context *c);
/* Replies that came over the present connection; 0 without one. */
uint64_t upstream_context_replies(const struct upstream_context *c);
/* True while a connection is open or being opened. */
bool upstream_context_connected(const struct upstream_context *c);
/* Why the server's certificate was not accepted last; NULL when that is not what happened. */
const char *upstream_context_certificate_failure(const struct upstream_context *c);

#endif
