/* stalequeue.h - who waits for upstream, but gets a stale answer after a while (RFC 8767 5,
 * client response timer).
 *
 * Owner: the proxy. All wait for the same time, so the queue is in order as it is filled. */
#ifndef PITH_STALEQUEUE_H
#define PITH_STALEQUEUE_H

#include <ev.h>
#include <stdint.h>

#include "inflight.h"

struct stale_queue {
    struct ev_loop *loop;
    ev_timer timer;
    struct waiter *first, *last;
    void (*on_due)(void *arg, struct waiter *w);
    void *arg;
};

/* on_due() is called from the loop with a waiter whose time came; it is no longer in the queue.
 */
void stale_queue_init(struct stale_queue *s, struct ev_loop *loop,
                      void (*on_due)(void *arg, struct waiter *w), void *arg);
/* The queue must be empty. */
void stale_queue_deinit(struct stale_queue *s);
void stale_queue_add(struct stale_queue *s, struct waiter *w, uint32_t delay_ms);
/* Fine for waiters that are not in it. */
void stale_queue_remove(struct stale_queue *s, struct waiter *w);

#endif
