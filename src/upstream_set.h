/* upstream_set.h - what the files behind upstream.h share: set, roster, upstream, ask, try.
 *
 *   set --> roster (one a configuration) --> upstream (health, contexts)
 *              ^                                ^
 *              +---- ask ----> try, try, ... ---+
 *
 * A roster lives until its last ask has ended; upstreams that a new configuration has as well
 * go on in the new roster, with their connections and all that was learned of them. Thread: all
 * of it belongs to the set's worker, but for the counters, which any thread may read. */
#ifndef PITH_UPSTREAM_SET_H
#define PITH_UPSTREAM_SET_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>

#include "upstream.h"
#include "upstream_context.h"
#include "upstream_health.h"

enum {
    ROSTER_MAX = 64, /* upstreams in use: candidates are a mask */
    FOUND_MAX = 8,   /* addresses kept of a host name */
};

enum counter {
    COUNT_ASKS,
    COUNT_REPLIES,
    COUNT_TIMEOUTS,
    COUNT_REFUSED,
    COUNT_CLOSED,
    COUNT_BAD,
    COUNT_TRUNCATED,
    COUNT_RESENT,
    COUNT_HEDGED,
    COUNT_PROBES,
    COUNTERS,
};

struct upstream {
    struct upstream_set *set;
    struct config *config; /* referenced: owns what `is` points to */
    const struct config_upstream *is;
    struct config_upstream *own;  /* of a bootstrap address: `is`, made up; else NULL */
    struct addr addr;             /* whom to ask: configured, or found for a host name */
    struct addr found[FOUND_MAX]; /* addresses of the host name */
    size_t n_found, found_next;
    unsigned resolving; /* asks open for them */
    bool resolved_once; /* or tried: before, questions wait a little */
    bool move;          /* `addr` is new: contexts are to be made for it */
    unsigned refs;      /* rosters it is in */
    /* main: NULL while a host name has no address. tcp: for TC; NULL until first needed. */
    struct upstream_context *main, *tcp;
    struct upstream_health health;
    size_t outstanding;   /* open tries */
    uint64_t reply_us;    /* the last good reply */
    uint64_t reset_us;    /* when the stream was last given up */
    uint64_t measured_us; /* when its response time was last looked for */
    /* A server that takes one query a connection: see upstream_line.c. */
    bool one_by_one;
    unsigned replies_since_end, lost_at_end;
    uint64_t end_us;
    struct upstream_try *waiting, *waiting_last;
    uint64_t plain_until_us; /* it does not know EDNS: asked without until then */
    bool mangles_case;       /* its replies do not keep the case of the question */
    bool logged_down;
    bool looping;     /* down because its questions came back to us */
    uint64_t loop_ms; /* when one did last, as far as known here */
    ev_timer timer;   /* of the probe */
    unsigned probes;  /* probes open */
    _Atomic uint64_t count[COUNTERS], rcode[UPSTREAM_RCODES], histogram[UPSTREAM_BUCKETS];
    _Atomic uint32_t srtt_us, state;
};

struct roster {
    struct config *config; /* referenced */
    size_t refs;           /* asks, and 1 for being the current one */
    size_t n;              /* as configured */
    size_t all;            /* and behind them those that only find host names (bootstrap) */
    bool any_domains;
    struct roster *next; /* of those to be freed */
    struct upstream *list[];
};

enum ask_kind {
    ASK_QUESTION,
    ASK_MEASURE, /* only for the response time */
    ASK_PROBE,   /* of one upstream, down or not */
    ASK_RESOLVE, /* a question of ours: the address of an upstream */
};

struct upstream_try {
    struct upstream_query query; /* first */
    struct upstream_ask *ask;
    struct upstream *upstream;
    struct upstream_try *next; /* the ask's, newest first; or the free list */
    uint64_t sent_us, late_us;
    bool over_tcp, late, timed_out, bad, waiting;
    struct upstream_try *next_waiting;
    uint64_t replies_before;
};

struct upstream_ask {
    struct upstream_set *set;
    struct roster *roster;
    enum ask_kind kind;
    uint8_t qname[DNS_NAME_MAX];
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled, has_subnet;
    struct ecs subnet;
    void (*on_answer)(void *arg, const struct upstream_answer *answer);
    void *arg;

    ev_timer timer;
    uint64_t candidates;        /* who may be asked: bits by index in the roster */
    uint64_t used;              /* who was asked in this round */
    struct upstream_try *tries; /* open ones */
    unsigned sends, rounds, free_retries, resends;
    uint64_t deadline_us, round_end_us;
    uint64_t hedge_us, resend_us; /* 0: not planned */
    bool hopeless, failed_over, finished;
    enum health_sign sign; /* the latest trouble, for the EDE text */
    bool any_sign, only_local;
    uint64_t troubled;             /* who gave signs: bits by index in the roster */
    const struct upstream *blamed; /* whose trouble it was */
    uint8_t *saved; /* a SERVFAIL or REFUSED, handed out when nobody knows better */
    size_t saved_len;
    bool saved_trust_ad;
    struct upstream_ask *prev, *next;
};

struct upstream_set {
    struct ev_loop *loop;
    struct upstream_engine *engine;
    struct roster *roster;
    struct roster *old;    /* rosters without asks, to be freed by sweep */
    ev_timer sweep;        /* never started, only fed */
    pthread_mutex_t mutex; /* the roster's place, against readers in other threads */
    struct upstream_ask *asks;
    size_t n_asks;
    struct upstream_ask *free_asks;
    struct upstream_try *free_tries;
    unsigned turn;          /* round-robin */
    unsigned hedge_credits; /* in hundredths of a hedge */
    uint8_t random[256];
    size_t random_used;
    bool destroying;
    void (*on_recovery)(void *arg);
    void *recovery_arg;
};

static inline void upstream_count(_Atomic uint64_t *v)
{
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

uint32_t upstream_set_random(struct upstream_set *s);
void upstream_set_leave(struct upstream_set *s, struct roster *r);
bool roster_contains(const struct roster *r, const struct upstream *u);
/* Which upstreams a name belongs to: longest suffix wins. */
uint64_t roster_candidates(const struct roster *r, const uint8_t *qname, size_t qname_len);

/* upstream_ask.c */
struct upstream_ask *
ask_start(struct upstream_set *s, enum ask_kind kind, const struct upstream_question *q,
          uint64_t candidates,
          void (*on_answer)(void *arg, const struct upstream_answer *answer), void *arg);
/* Asks that try one upstream after the other, as against those about a single one. */
bool ask_persists(const struct upstream_ask *a);
/* Ends the ask: with an answer, or without one but for what was saved. ask_fail() is always
 * false. */
void ask_deliver(struct upstream_ask *a, const struct upstream_answer *answer);
bool ask_fail(struct upstream_ask *a);
/* The question as it was asked: 0x20 was our own affair. */
void ask_restore_case(const struct upstream_ask *a, uint8_t *octets);
/* A sign against u, and the reason should the ask fail. */
void ask_blame(struct upstream_ask *a, struct upstream *u, uint64_t now_us,
               enum health_sign sign);
/* Asks the next candidate that was not asked in this round; false: there is none. */
bool ask_send_next(struct upstream_ask *a, uint64_t now_us);
/* Asks on when nobody is asked at the moment, at once or after a pause. False: the ask has
 * ended. */
bool ask_go_on(struct upstream_ask *a, uint64_t now_us);
/* Sets the timer to what comes next. */
void ask_arm(struct upstream_ask *a, uint64_t now_us);
/* The try had its time. */
void ask_time_out(struct upstream_ask *a, struct upstream_try *t, uint64_t now_us);

/* upstream_try.c: false when it cannot be made (memory, or too many). */
bool try_send(struct upstream_ask *a, struct upstream *u, bool over_tcp, uint64_t now_us);
/* Nothing of it is under way any more. */
void try_close(struct upstream_try *t);
/* No answer: gives up the connection when nothing at all came over it since. */
void try_doubt_connection(struct upstream_try *t, uint64_t now_us);

/* upstream_line.c: servers that take one query a connection. */
void line_wait(struct upstream_try *t);
void line_leave(struct upstream_try *t);
void line_send_next(struct upstream *u);
void line_carried(struct upstream *u, const struct upstream_query *q);
void line_lost(struct upstream *u, uint64_t now_us);

/* upstream_outcome.c: hooks of the engine. */
void ask_on_outcome(void *set, struct upstream_query *q);
void ask_on_bad_datagram(void *set, struct upstream_query *q);
void ask_on_late(void *set, void *upstream);

/* upstream_choice.c: which of the candidates is asked next; -1: none. Those in `avoid` are left
 * out. */
int choice_next(const struct upstream_set *s, const struct roster *r, uint64_t candidates,
                uint64_t avoid);
/* Candidates that are not down. */
uint64_t choice_alive(const struct roster *r, uint64_t candidates);
/* Candidates that are well. */
uint64_t choice_well(const struct roster *r, uint64_t candidates);
/* Somebody whose response time should be looked at again; -1: nobody. */
int choice_measure(struct upstream_set *s, const struct roster *r, uint64_t candidates);

/* upstream_watch.c: health and who is told of it. */
void watch_start(struct upstream *u);
void watch_stop(struct upstream *u);
void watch_good(struct upstream *u, uint64_t now_us, uint32_t rtt_us);
void watch_doubt(struct upstream *u, uint64_t now_us);
void watch_bad(struct upstream *u, uint64_t now_us, enum health_sign sign);
/* It has a new address. */
void watch_arrived(struct upstream *u);
/* Tells of its being down, once. */
void watch_log_down(struct upstream *u);
/* Asks it at once whether it is well; finds its address first when it has none. */
void watch_probe(struct upstream *u);
/* What is wrong with it, for logs and EDE: never NULL. */
const char *watch_reason(const struct upstream *u, enum health_sign sign);

/* upstream_resolve.c: upstreams given by host name. */
void resolve_start(struct upstream *u);
/* It fails: the next of its addresses, or all anew. */
void resolve_next(struct upstream *u);
/* Makes contexts for addresses that have changed; nothing of getdns is on the stack. */
void resolve_apply(struct roster *r);
/* True while one of the candidates waits for its first address. */
bool resolve_pending(const struct roster *r, uint64_t candidates);
/* Has that done soon. */
void upstream_set_sweep(struct upstream_set *s);
/* Makes the main context for the present address, in place of what was there. */
bool upstream_connectable(struct upstream *u);

#endif
