/* upstream_choice.c - which upstream a question goes to: by name, by policy, by health. */
#include "core/clock.h"
#include "dns/name.h"
#include "upstream_set.h"

enum {
    MEASURE_US = 1000000, /* a response time this old is looked at again (policy fastest) */
};

/* How well upstream u fits the name: 0 not at all, 1 as one for every name, more for a suffix.
 */
static size_t match(const struct config_upstream *u, const uint8_t *qname, size_t qname_len)
{
    size_t best_len = 0;
    bool any_positive = false, negated = false;
    for (size_t i = 0; i < u->n_domains; i++) {
        const struct config_domain *d = &u->domains[i];
        any_positive |= !d->negated;
        if (d->name_len > best_len && name_below(qname, qname_len, d->name, d->name_len)) {
            best_len = d->name_len;
            negated = d->negated;
        }
    }
    if (best_len)
        return negated ? 0 : 1 + best_len;
    return any_positive ? 0 : 1;
}

uint64_t roster_candidates(const struct roster *r, const uint8_t *qname, size_t qname_len)
{
    uint64_t mask = 0;
    size_t best = 1;
    if (!r->any_domains)
        return r->n == ROSTER_MAX ? UINT64_MAX : ((uint64_t)1 << r->n) - 1;
    for (size_t i = 0; i < r->n; i++) {
        size_t fit = match(r->list[i]->is, qname, qname_len);
        if (fit > best) {
            best = fit;
            mask = 0;
        }
        if (fit == best)
            mask |= (uint64_t)1 << i;
    }
    return mask;
}

bool upstream_claims(const struct upstream_set *set, const uint8_t *qname, size_t qname_len)
{
    for (size_t i = 0; i < set->roster->n; i++)
        if (match(set->roster->list[i]->is, qname, qname_len) > 1)
            return true;
    return false;
}

uint64_t choice_alive(const struct roster *r, uint64_t candidates)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < r->all; i++)
        if (candidates >> i & 1 && r->list[i]->main && r->list[i]->health.state != HEALTH_DOWN)
            mask |= (uint64_t)1 << i;
    return mask;
}

uint64_t choice_well(const struct roster *r, uint64_t candidates)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < r->all; i++)
        if (candidates >> i & 1 && r->list[i]->main && r->list[i]->health.state == HEALTH_WELL)
            mask |= (uint64_t)1 << i;
    return mask;
}

/* By policy alone. */
static int best_of(const struct upstream_set *s, const struct roster *r, uint64_t mask)
{
    int best = -1;
    uint32_t best_us = UINT32_MAX;
    if (r->config->policy == POLICY_ROUND_ROBIN)
        for (int skip = (int)(s->turn % (unsigned)__builtin_popcountll(mask)); skip; skip--)
            mask &= mask - 1;
    if (r->config->policy != POLICY_FASTEST)
        return __builtin_ctzll(mask);
    for (int i = 0; i < (int)r->all; i++) {
        /* One whose time is not known yet comes last: it is being measured. */
        uint32_t us = r->list[i]->health.srtt_us;
        if (us == 0)
            us = UINT32_MAX - 1;
        if (mask >> i & 1 && us < best_us) {
            best_us = us;
            best = i;
        }
    }
    return best;
}

/* getdns holds on to what is given up on streams: that counts as well. */
static bool has_room(const struct roster *r, const struct upstream *u)
{
    return u->main && u->outstanding < r->config->upstream_outstanding &&
           upstream_context_in_flight(u->main) < r->config->upstream_outstanding;
}

int choice_next(const struct upstream_set *s, const struct roster *r, uint64_t candidates,
                uint64_t avoid)
{
    uint64_t open = 0;
    for (size_t i = 0; i < r->all; i++)
        if (has_room(r, r->list[i]))
            open |= (uint64_t)1 << i;
    uint64_t mask = candidates & open & ~avoid; /* not full; well ones before those in doubt */
    uint64_t well = choice_well(r, mask);
    if (well)
        return best_of(s, r, well);
    uint64_t alive = choice_alive(r, mask);
    return alive ? best_of(s, r, alive) : -1;
}

int choice_measure(struct upstream_set *s, const struct roster *r, uint64_t candidates)
{
    (void)s;
    if (r->config->policy != POLICY_FASTEST || r->n < 2)
        return -1;
    uint64_t now_us = clock_now_us();
    for (size_t i = 0; i < r->all; i++) {
        struct upstream *u = r->list[i];
        if (!(candidates >> i & 1) || u->health.state != HEALTH_WELL)
            continue;
        if (now_us - u->measured_us < MEASURE_US || now_us - u->health.sampled_us < MEASURE_US)
            continue;
        u->measured_us = now_us;
        return (int)i;
    }
    return -1;
}
