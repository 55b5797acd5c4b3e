/* upstream_line.c - servers that take one query a connection.
 *
 * Some end the connection after each answer, and what was pipelined behind is lost, at times
 * with the answer itself. Once a connection has ended so, the next query waits until the one
 * before is over, until a connection is seen to carry two. */
#include "core/clock.h"
#include "upstream_set.h"

void line_wait(struct upstream_try *t)
{
    struct upstream *u = t->upstream;
    t->waiting = true;
    t->next_waiting = NULL;
    if (u->waiting)
        u->waiting_last->next_waiting = t;
    else
        u->waiting = t;
    u->waiting_last = t;
}

void line_leave(struct upstream_try *t)
{
    struct upstream *u = t->upstream;
    struct upstream_try **p = &u->waiting, *before = NULL;
    while (*p != t) {
        before = *p;
        p = &before->next_waiting;
    }
    *p = t->next_waiting;
    if (u->waiting_last == t)
        u->waiting_last = before;
    t->waiting = false;
}

void line_send_next(struct upstream *u)
{
    struct upstream_try *t = u->waiting;
    if (!t || !u->main || upstream_context_in_flight(u->main))
        return;
    line_leave(t);
    t->sent_us = clock_now_us();
    t->late_us =
        t->sent_us +
        upstream_health_rto_us(&u->health, t->ask->roster->config->upstream_timeout_ms * 1000);
    upstream_context_send(u->main, &t->query);
}

void line_carried(struct upstream *u, const struct upstream_query *q)
{
    u->replies_since_end++;
    if (!q->fresh)
        u->one_by_one = false;
}

void line_lost(struct upstream *u, uint64_t now_us)
{
    if (now_us - u->end_us > 1000) { /* else: one more query of the same connection */
        u->lost_at_end = 0;
        u->end_us = now_us;
    }
    if (++u->lost_at_end > 1 && u->replies_since_end <= 1)
        u->one_by_one = true;
    if (u->lost_at_end > 1)
        u->replies_since_end = 0;
}
