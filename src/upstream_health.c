/* upstream_health.c - response times and circuit breaker of one upstream. See
 * upstream_health.h. */
#include "upstream_health.h"

#include <string.h>

enum {
    SIGNS_TO_SUSPECT = 3,
    BACKOFF_FIRST_MS = 250,
    BACKOFF_MAX_MS = 30000,
    BACKOFF_NONE_WELL_MS = 1000, /* recovery is seen within 2 s, one probe lost or not */
    OLD_US = 900000, /* a response time from before is worth no more than the new one */
    FORGET_FAILURES_US = 10000000, /* well for so long: the next trouble is a new one */
    RTO_UNKNOWN_US = 400000,
    RTO_MIN_US = 50000,
    HEDGE_MIN_US = 10000,
    HEDGE_UNKNOWN_US = 150000,
};

void upstream_health_init(struct upstream_health *h, uint64_t now_us)
{
    memset(h, 0, sizeof *h);
    h->changed_us = h->well_us = now_us;
}

static void change(struct upstream_health *h, enum health_state state, uint64_t now_us)
{
    h->state = state;
    h->changed_us = now_us;
}

static void sample(struct upstream_health *h, uint32_t rtt_us, bool old)
{
    if (h->srtt_us == 0) {
        h->srtt_us = rtt_us;
        h->rttvar_us = rtt_us / 2;
        h->p95_us = rtt_us * 2;
        return;
    }
    int64_t error = (int64_t)rtt_us - h->srtt_us;
    int64_t deviation = (error < 0 ? -error : error) - h->rttvar_us;
    h->srtt_us = (uint32_t)(h->srtt_us + error / (old ? 2 : 8));
    h->rttvar_us = (uint32_t)(h->rttvar_us + deviation / (old ? 2 : 4));
    /* Up 19 steps for each of the slowest 5 %, down one for the others: it rests at the
     * percentile. */
    uint32_t step = h->p95_us / 256 + 1;
    if (rtt_us > h->p95_us)
        h->p95_us += 19 * step;
    else
        h->p95_us -= step;
    if (h->srtt_us == 0)
        h->srtt_us = 1;
}

bool upstream_health_good(struct upstream_health *h, uint64_t now_us, uint32_t rtt_us)
{
    enum health_state before = h->state;
    h->signs = 0;
    if (rtt_us) {
        sample(h, rtt_us, now_us - h->sampled_us > OLD_US);
        h->sampled_us = now_us;
    }
    if (before == HEALTH_WELL) {
        if (h->failures && now_us - h->well_us > FORGET_FAILURES_US)
            h->failures = 0;
        return false;
    }
    change(h, HEALTH_WELL, now_us);
    h->well_us = now_us;
    return before == HEALTH_DOWN;
}

void upstream_health_at_least(struct upstream_health *h, uint32_t rtt_us)
{
    if (rtt_us > h->srtt_us)
        sample(h, rtt_us, false);
}

bool upstream_health_bad(struct upstream_health *h, uint64_t now_us, enum health_sign sign)
{
    h->sign = sign;
    if (h->signs < UINT32_MAX)
        h->signs++;
    if (h->state != HEALTH_WELL || h->signs < SIGNS_TO_SUSPECT)
        return false;
    change(h, HEALTH_SUSPECT, now_us);
    return true;
}

bool upstream_health_doubt(struct upstream_health *h, uint64_t now_us)
{
    if (h->state != HEALTH_WELL)
        return false;
    change(h, HEALTH_SUSPECT, now_us);
    return true;
}

bool upstream_health_loop(struct upstream_health *h, uint64_t now_us)
{
    h->sign = SIGN_LOOP;
    if (h->failures < 30)
        h->failures++;
    if (h->state == HEALTH_DOWN)
        return false;
    change(h, HEALTH_DOWN, now_us);
    return true;
}

bool upstream_health_probe_failed(struct upstream_health *h, uint64_t now_us)
{
    if (h->state == HEALTH_WELL)
        return false;
    if (h->failures < 30)
        h->failures++;
    if (h->state == HEALTH_DOWN)
        return false;
    change(h, HEALTH_DOWN, now_us);
    return true;
}

uint32_t upstream_health_backoff_ms(const struct upstream_health *h, bool none_well,
                                    uint32_t random)
{
    unsigned doublings = h->failures ? h->failures - 1 : 0;
    uint32_t ms = doublings < 7 ? (uint32_t)BACKOFF_FIRST_MS << doublings : BACKOFF_MAX_MS;
    if (none_well && ms > BACKOFF_NONE_WELL_MS)
        ms = BACKOFF_NONE_WELL_MS;
    return ms -
           (uint32_t)((uint64_t)ms * (random & 0xffff) / 4 >> 16); /* less up to a quarter */
}

static uint32_t clamp(uint64_t us, uint32_t min_us, uint32_t max_us)
{
    uint64_t least = us < min_us ? min_us : us;
    return least > max_us ? max_us : (uint32_t)least;
}

uint32_t upstream_health_rto_us(const struct upstream_health *h, uint32_t max_us)
{
    uint64_t us = h->srtt_us ? h->srtt_us + 4ULL * h->rttvar_us : RTO_UNKNOWN_US;
    return clamp(us, RTO_MIN_US, max_us);
}

uint32_t upstream_health_hedge_us(const struct upstream_health *h, uint32_t max_us)
{
    return clamp(h->srtt_us ? h->p95_us : HEDGE_UNKNOWN_US, HEDGE_MIN_US, max_us);
}

const char *upstream_health_sign_text(enum health_sign sign)
{
    switch (sign) {
    case SIGN_SLOW:
    case SIGN_TIMEOUT:
        return "no reply in time";
    case SIGN_REFUSED:
        return "cannot connect";
    case SIGN_CLOSED:
        return "connections end with queries on them";
    case SIGN_LOOP:
        return "a loop, what it is asked comes back here";
    case SIGN_BAD:
        return "replies that are malformed or do not fit";
    }
    return "";
}
