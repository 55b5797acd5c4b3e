/* stalequeue.c - a list with one timer for its head. */
#include "stalequeue.h"

#include <stddef.h>

#include "core/clock.h"

void stale_queue_remove(struct stale_queue *s, struct waiter *w)
{
    if (w->stale_at_ms == 0)
        return;
    w->stale_at_ms = 0;
    if (w->stale_prev)
        w->stale_prev->stale_next = w->stale_next;
    else
        s->first = w->stale_next;
    if (w->stale_next)
        w->stale_next->stale_prev = w->stale_prev;
    else
        s->last = w->stale_prev;
    /* The timer stays: firing for nobody is cheaper than setting it anew each time. */
}

static void set_timer(struct stale_queue *s)
{
    uint64_t now = clock_now_ms();
    uint64_t at = s->first ? s->first->stale_at_ms : 0;

    ev_timer_stop(s->loop, &s->timer);
    if (!s->first)
        return;
    ev_timer_set(&s->timer, at > now ? (double)(at - now) / 1000 : 0, 0);
    ev_timer_start(s->loop, &s->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
    struct stale_queue *s = timer->data;
    uint64_t now = clock_now_ms();

    (void)loop;
    (void)events;
    while (s->first && s->first->stale_at_ms <= now) {
        struct waiter *w = s->first;

        stale_queue_remove(s, w);
        s->on_due(s->arg, w);
    }
    set_timer(s);
}

/* After a reload the delay may differ from that of those before; they are at most late or early
 * by the difference, once. */
void stale_queue_add(struct stale_queue *s, struct waiter *w, uint32_t delay_ms)
{
    w->stale_at_ms = clock_now_ms() + delay_ms;
    w->stale_next = NULL;
    w->stale_prev = s->last;
    if (s->last)
        s->last->stale_next = w;
    else
        s->first = w;
    s->last = w;
    if (!ev_is_active(&s->timer))
        set_timer(s);
}

void stale_queue_init(struct stale_queue *s, struct ev_loop *loop,
                      void (*on_due)(void *arg, struct waiter *w), void *arg)
{
    *s = (struct stale_queue){.loop = loop, .on_due = on_due, .arg = arg};
    ev_timer_init(&s->timer, on_timer, 0, 0);
    s->timer.data = s;
}

void stale_queue_deinit(struct stale_queue *s)
{
    ev_timer_stop(s->loop, &s->timer);
}
