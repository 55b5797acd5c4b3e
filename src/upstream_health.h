/* upstream_health.h - what is believed of one upstream: response times, and whether it is well.
 *
 *            3 signs in a row                  the probe failed
 *      WELL ------------------> SUSPECT -----------------------> DOWN
 *        ^                         |                               |
 *        +-------------------------+-------------------------------+
 *                   any good reply (to a probe or a question)
 *
 * SUSPECT: still asked, but only when nobody better is there; a probe is on its way. So a name
 * that never gets an answer cannot take an upstream down. DOWN: not asked; probed after 250 ms,
 * 500 ms, ... 30 s with jitter, or at least every 1.5 s while no upstream is well.
 *
 * Response times are smoothed as in RFC 6298; the 95th percentile follows by stochastic steps.
 * Pure: time and randomness are arguments. Owner: whoever embeds it. */
#ifndef PITH_UPSTREAM_HEALTH_H
#define PITH_UPSTREAM_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum health_state { HEALTH_WELL, HEALTH_SUSPECT, HEALTH_DOWN };

/* Signs that something is wrong, and what the log calls them. */
enum health_sign {
    SIGN_SLOW,    /* no reply within the time that is usual */
    SIGN_TIMEOUT, /* none within the try */
    SIGN_REFUSED, /* cannot connect, port unreachable */
    SIGN_CLOSED,  /* connections end with queries on them */
    SIGN_BAD,     /* replies that do not fit */
    SIGN_LOOP,    /* what it is asked comes back to us (loopcheck.h) */
};

struct upstream_health {
    enum health_state state;
    enum health_sign sign; /* the latest */
    unsigned signs;        /* in a row */
    unsigned failures;     /* probes in a row, for the back-off */
    uint64_t changed_us;   /* when the state changed last */
    uint64_t well_us;      /* since when it answers */
    uint64_t sampled_us;   /* when a response time was measured last; 0 never */
    uint32_t srtt_us, rttvar_us, p95_us;
};

void upstream_health_init(struct upstream_health *h, uint64_t now_us);

/* A good reply. rtt_us 0: no response time to learn from it. True when it came back from DOWN.
 */
bool upstream_health_good(struct upstream_health *h, uint64_t now_us, uint32_t rtt_us);

/* A lower bound of a response time: somebody else was faster, and this one was not waited for.
 */
void upstream_health_at_least(struct upstream_health *h, uint32_t rtt_us);

/* A sign of trouble. True when it just became SUSPECT and wants a probe now. */
bool upstream_health_bad(struct upstream_health *h, uint64_t now_us, enum health_sign sign);

/* A question got no answer at all: a reason to look, though not three in a row. True when it
 * just became SUSPECT. */
bool upstream_health_doubt(struct upstream_health *h, uint64_t now_us);

/* It is part of a loop: DOWN without more ado. True when it just went there. */
bool upstream_health_loop(struct upstream_health *h, uint64_t now_us);

/* A probe failed. True when it just went DOWN. */
bool upstream_health_probe_failed(struct upstream_health *h, uint64_t now_us);

/* DOWN: time until the next probe. random: any 32 random bits. */
uint32_t upstream_health_backoff_ms(const struct upstream_health *h, bool none_well,
                                    uint32_t random);

/* When a reply is late: for retransmission and as a sign. At most max_us. */
uint32_t upstream_health_rto_us(const struct upstream_health *h, uint32_t max_us);
/* When asking somebody else as well pays. At most max_us. */
uint32_t upstream_health_hedge_us(const struct upstream_health *h, uint32_t max_us);

/* "time-outs", "connection refused", ... */
const char *upstream_health_sign_text(enum health_sign sign);

#endif
