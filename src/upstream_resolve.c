/* upstream_resolve.c - upstreams given by host name: find their addresses, and find them again
 * when they fail.
 *
 * They are asked of the bootstrap addresses of that upstream, or of the other upstreams. A and
 * AAAA are asked at once; IPv4 is tried first. When the upstream goes down the next address is
 * taken, and after the last one all are asked for again. */
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/name.h"
#include "upstream_set.h"

static uint64_t bit(size_t i)
{
    return (uint64_t)1 << i;
}

/* Who may know the address of u. */
static uint64_t helpers(const struct upstream *u, const uint8_t *name, size_t name_len)
{
    const struct roster *r = u->set->roster;
    uint64_t mask = 0;
    for (size_t i = r->n; i < r->all; i++)
        for (size_t k = 0; k < u->is->n_bootstrap; k++)
            if (addr_ip_equal(&r->list[i]->addr, &u->is->bootstrap[k]) &&
                r->list[i]->addr.port == u->is->bootstrap[k].port)
                mask |= bit(i);
    if (u->is->n_bootstrap)
        return mask;
    mask = roster_candidates(r, name, name_len);
    for (size_t i = 0; i < r->n; i++)
        if (r->list[i] == u || !r->list[i]->main)
            mask &= ~bit(i);
    return mask;
}

static void collect(struct upstream *u, const struct dns_reply *reply)
{
    struct dns_walk w;
    struct dns_rr rr;
    walk_start(&w, reply);
    while (walk_next(&w, &rr)) {
        bool v4 = rr.type == RR_A;
        if (rr.section != DNS_ANSWER || (!v4 && rr.type != RR_AAAA) || u->n_found == FOUND_MAX)
            continue;
        struct addr a = {.port = u->is->addr.port, .family = v4 ? ADDR_V4 : ADDR_V6};
        memcpy(a.ip, reply->msg + rr.rdata, rr.rdlength); /* 4 or 16: reply_parse() saw to it */
        bool known = false;
        for (size_t i = 0; i < u->n_found; i++)
            known |= addr_ip_equal(&u->found[i], &a);
        if (known)
            continue;
        size_t at = u->n_found++;
        for (; v4 && at && u->found[at - 1].family == ADDR_V6; at--)
            u->found[at] = u->found[at - 1];
        u->found[at] = a;
    }
}

static void take_address(struct upstream *u)
{
    const struct addr *a = &u->found[u->found_next++];
    if (u->main && addr_ip_equal(a, &u->addr))
        return;
    u->addr = *a;
    u->move = true;
    upstream_set_sweep(u->set);
}

static void on_addresses(void *arg, const struct upstream_answer *answer)
{
    struct upstream *u = arg;
    if (answer->reply)
        collect(u, answer->reply);
    if (--u->resolving)
        return;
    u->resolved_once = true;
    u->found_next = 0;
    if (u->n_found)
        take_address(u);
    else if (!u->main)
        watch_log_down(u); /* its timer asks again */
}

void resolve_start(struct upstream *u)
{
    uint8_t name[DNS_NAME_MAX];
    struct upstream_question q = {.qname = name,
                                  .qname_len = name_from_text(name, u->is->host)};
    /* The asks keep the present roster, not the one that u may be left in. */
    if (u->resolving || !roster_contains(u->set->roster, u))
        return;
    uint64_t mask = q.qname_len ? helpers(u, q.qname, q.qname_len) : 0;
    u->n_found = 0;
    u->resolving = 1; /* until both are under way */
    for (int i = 0; i < 2 && mask; i++) {
        q.qtype = i ? RR_AAAA : RR_A;
        if (ask_start(u->set, ASK_RESOLVE, &q, mask, on_addresses, u))
            u->resolving++;
    }
    u->resolving--;
    if (!u->resolving) {
        u->resolved_once = true;
        if (!u->main)
            watch_log_down(u);
    }
}

void resolve_next(struct upstream *u)
{
    if (u->found_next < u->n_found && !u->resolving)
        take_address(u);
    else
        resolve_start(u);
}

void resolve_apply(struct roster *r)
{
    char text[ADDR_TEXT_SIZE];
    for (size_t i = 0; i < r->n; i++) {
        struct upstream *u = r->list[i];
        if (!u->move)
            continue;
        u->move = false;
        if (!upstream_connectable(u))
            continue;
        log_debug("upstream %s is %s", u->is->text, addr_format_ip(&u->addr, text));
        watch_arrived(u);
    }
}

bool resolve_pending(const struct roster *r, uint64_t candidates)
{
    for (size_t i = 0; i < r->n; i++)
        if (candidates & bit(i) && r->list[i]->is->host && !r->list[i]->resolved_once)
            return true;
    for (size_t i = 0; i < r->n; i++)
        if (candidates & bit(i) && r->list[i]->is->host && r->list[i]->move)
            return true;
    return false;
}
