/* conn_env.c - what the connections of a listener share, and the queues of those that
 * need a turn without a new event. */
#include <malloc.h>
#include <stdlib.h>

#include "tls/conn.h"

enum {
    /* What a pass of the loop spends on handshakes at most, and one more: in between, those
     * connected get their turn. */
    HANDSHAKE_US = 1000,
    HANDSHAKES_MAX = 64, /* waiting, before accepting stops */
    TRIM_AFTER = 64,     /* connections that ended, a few MB in handshakes */
};

bool conn_env_busy(const struct conn_env *env)
{
    return env->n_handshakes >= HANDSHAKES_MAX;
}

void conn_enqueue(struct conn *c, enum conn_queue queue)
{
    if (c->queue != QUEUE_NONE)
        return;
    c->queue = (uint8_t)queue;
    if (queue == QUEUE_READY) {
        TAILQ_INSERT_TAIL(&c->env->ready, c, place);
    } else {
        TAILQ_INSERT_TAIL(&c->env->handshakes, c, place);
        c->env->n_handshakes++;
    }
}

void conn_dequeue(struct conn *c)
{
    if (c->queue == QUEUE_READY) {
        TAILQ_REMOVE(&c->env->ready, c, place);
    } else if (c->queue == QUEUE_HANDSHAKE) {
        TAILQ_REMOVE(&c->env->handshakes, c, place);
        c->env->n_handshakes--;
    }
    c->queue = QUEUE_NONE;
}

static void run_ready(struct conn_env *env)
{
    /* Who is ready again waits for the next pass, behind this one's last. */
    struct conn *last = TAILQ_LAST(&env->ready, conn_tailq);
    for (bool more = last; more;) {
        struct conn *c = TAILQ_FIRST(&env->ready);
        more = c != last;
        conn_dequeue(c);
        conn_turn(c, 0);
    }
}

static void run_handshakes(struct conn_env *env)
{
    env->handshake_us_left = HANDSHAKE_US;
    while (env->handshake_us_left > 0 && !TAILQ_EMPTY(&env->handshakes)) {
        struct conn *c = TAILQ_FIRST(&env->handshakes);
        conn_dequeue(c);
        c->granted = true;
        conn_turn(c, 0);
    }
}

/* What a crowd of connections leaves behind is free, but in pieces between what others hold,
 * and stays with us unless we say so. Rare: half of all must have gone. */
static void trim(struct conn_env *env)
{
    if (env->n_conns > env->n_conns_peak / 2 || env->n_conns_peak - env->n_conns < TRIM_AFTER)
        return;
    env->n_conns_peak = env->n_conns;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void on_idle(struct ev_loop *loop, ev_idle *w, int events)
{
    (void)loop, (void)w, (void)events; /* that it is active is all */
}

static void on_prepare(struct ev_loop *loop, ev_prepare *w, int events)
{
    (void)events;
    struct conn_env *env = w->data;
    run_ready(env);
    run_handshakes(env);
    trim(env);
    bool wait = TAILQ_EMPTY(&env->ready) && TAILQ_EMPTY(&env->handshakes);
    if (!wait && !ev_is_active(&env->idle))
        ev_idle_start(loop, &env->idle);
    else if (wait && ev_is_active(&env->idle))
        ev_idle_stop(loop, &env->idle);
}

bool conn_env_init(struct conn_env *env)
{
    env->read_buf = malloc(CONN_READ_SIZE);
    if (!env->read_buf)
        return false;
    TAILQ_INIT(&env->starting);
    TAILQ_INIT(&env->conns);
    TAILQ_INIT(&env->ready);
    TAILQ_INIT(&env->handshakes);
    env->handshake_us_left = HANDSHAKE_US;
    ev_prepare_init(&env->prepare, on_prepare);
    ev_set_priority(&env->prepare, EV_MINPRI); /* after all who may kick */
    env->prepare.data = env;
    ev_prepare_start(env->loop, &env->prepare);
    ev_idle_init(&env->idle, on_idle);
    return true;
}

void conn_env_deinit(struct conn_env *env)
{
    struct conn *c;
    while ((c = TAILQ_FIRST(&env->starting)) || (c = TAILQ_FIRST(&env->conns)))
        conn_destroy(c);
    ev_prepare_stop(env->loop, &env->prepare);
    ev_idle_stop(env->loop, &env->idle);
    buf_release(&env->spare_out);
    free(env->read_buf);
    env->read_buf = NULL;
}

static void finish(struct conn *c)
{
    if (c->state == CONN_OPEN)
        c->stream.rider->on_shutdown(&c->stream);
    else if (c->state < CONN_OPEN)
        conn_set_state(c, CONN_DEAD);
    conn_dequeue(c);
    conn_enqueue(c, QUEUE_READY);
}

void conn_env_drain(struct conn_env *env)
{
    struct conn *c;
    env->draining = true;
    TAILQ_FOREACH(c, &env->starting, link)
    finish(c);
    TAILQ_FOREACH(c, &env->conns, link)
    finish(c);
}
