/* upstream.h - asking upstreams by getdns: one question in, one checked answer out.
 *
 * Hides getdns whole, with the cures for its faults; which upstream is asked, tries and
 * failover, health, UDP to TCP. A reply is handed out only when reply_parse() passed it and its
 * question is what was asked. Reply's OPT and hop-by-hop options are still in it: the caller
 * strips. Owner and thread: one set a worker, made, used and destroyed by the thread that runs
 * its loop. */
#ifndef PITH_UPSTREAM_H
#define PITH_UPSTREAM_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "dns/ecs.h"
#include "dns/message.h"

struct upstream_set;

/* NULL when resources are out (logged). Config without upstreams is fine: every ask fails at
 * once. */
struct upstream_set *upstream_create(struct ev_loop *loop, struct config *config);
/* Asks still open get no callback. */
void upstream_destroy(struct upstream_set *set);
/* Another configuration: asks open finish with the old contexts, which go when they are idle.
 */
bool upstream_reload(struct upstream_set *set, struct config *config);

struct upstream_question {
    const uint8_t *qname; /* wire name; copied */
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled;
    const struct ecs *subnet; /* the option to send; NULL: none. Copied */
};

struct upstream_answer {
    const struct dns_reply *reply; /* NULL: no answer. Borrowed for the call, as its message;
                                    * the question has the case that was asked (0x20 undone) */
    bool trust_ad;                 /* that upstream's AD counts */
    uint16_t ede; /* without reply: why (DNS_EDE_NO_REACHABLE_AUTHORITY, DNS_EDE_NETWORK_ERROR,
                     ...) */
    const char *ede_text; /* short, no name or address of a client in it; never NULL */
    bool network_failure; /* no upstream could be reached (as against a SERVFAIL answer) */
};

struct upstream_ask; /* one open ask */

/* Exactly one callback, later, from the loop and never inside upstream_ask(), within
 * upstream_deadline_ms + 200 ms, unless cancelled. NULL: too many outstanding (and nothing
 * follows). */
struct upstream_ask *
upstream_ask(struct upstream_set *set, const struct upstream_question *question,
             void (*on_answer)(void *arg, const struct upstream_answer *answer), void *arg);
void upstream_cancel(struct upstream_ask *ask);

enum {
    UPSTREAM_RCODES = 7, /* 0..5, and all others */
    UPSTREAM_BUCKETS =
        16, /* response times: the first is up to 1 ms, each next twice that, the last open */
};

/* What is known of one upstream; counters since it was first configured. */
struct upstream_stats {
    char text[128]; /* as configured */
    enum upstream_transport transport;
    bool well, down;  /* neither: in doubt */
    uint32_t srtt_us; /* smoothed response time; 0: none yet */
    uint64_t asks;    /* questions sent, each try */
    uint64_t replies, timeouts, refused, closed, bad, truncated, resent, hedged, probes;
    uint64_t rcode[UPSTREAM_RCODES];
    uint64_t histogram[UPSTREAM_BUCKETS];
};

/* Upstream number i (from 0) in the order of the configuration; false: there is none. Thread:
 * any. */
bool upstream_stats(struct upstream_set *set, size_t i, struct upstream_stats *out);

/* True while at least one upstream for any name is believed well. */
bool upstream_well(const struct upstream_set *set);
/* Called (from the loop) when an upstream came back: failures cached for network reasons are
 * void. */
void upstream_on_recovery(struct upstream_set *set, void (*on_recovery)(void *arg), void *arg);
/* True when the upstream list has one that claims names below this (domains:), as for private
 * reverse zones. */
bool upstream_claims(const struct upstream_set *set, const uint8_t *qname, size_t qname_len);

/* One process-wide lock, held while a loop of libev or a context of getdns is created or
 * destroyed: both libraries race otherwise. Whoever makes loops takes it around ev_loop_new()
 * and ev_loop_destroy(). */
void upstream_lock(void);
void upstream_unlock(void);

#endif
