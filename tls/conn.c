/* conn.c - one connection: turns, reading, writing, time-outs, the end. */
#include "tls/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "tls/limits.h"

enum {
    LINGER_MS = 2000,          /* for the FIN of a client that may be sending */
    LINGER_DRAIN_MS = 250,     /* of one that is told to go elsewhere */
    LINGER_BYTES = 256 * 1024, /* read and thrown away at most */
    WRITE_STEP = 16 * 1024,    /* this much has to go within the write time-out */
    READ_CHUNK = 16 * 1024,
    ROUNDS = 4, /* of riding and writing within one turn */
};

/* ---- states ---- */

static void end_start(struct conn *c)
{
    c->counted_start = false;
    conn_limits_drop_start(c->env->options.limits);
    TAILQ_REMOVE(&c->env->starting, c, link);
    c->env->n_starting--;
    TAILQ_INSERT_TAIL(&c->env->conns, c, link);
}

void conn_set_state(struct conn *c, enum conn_state state)
{
    if (c->state == CONN_DEAD || c->state == (uint8_t)state)
        return;
    c->state = (uint8_t)state;
    c->since_ms = clock_now_ms();
    if (c->counted_start && state >= CONN_OPEN && state != CONN_DEAD)
        end_start(c);
    if (state == CONN_LINGER)
        c->step = 0;
}

static struct conn *from_stream(struct stream *s)
{
    return (struct conn *)((char *)s - offsetof(struct conn, stream));
}

static void carrier_kick(struct stream *s)
{
    struct conn *c = from_stream(s);
    c->kicked = true;
    if (!c->running)
        conn_enqueue(c, QUEUE_READY);
}

static void carrier_close(struct stream *s, enum stream_close how)
{
    struct conn *c = from_stream(s);
    if (how == STREAM_ABORT)
        conn_set_state(c, CONN_DEAD);
    else if (c->state < CONN_FLUSH)
        conn_set_state(c, CONN_FLUSH);
    if (!c->running)
        conn_enqueue(c, QUEUE_READY);
}

const struct stream_carrier conn_carrier = {
    .kick = carrier_kick,
    .close = carrier_close,
};

/* ---- the output buffer ---- */

static void borrow_out(struct conn *c)
{
    if (c->stream.out.mem)
        return;
    c->stream.out = c->env->spare_out;
    c->env->spare_out = (struct buf){0};
}

/* What did not go stays with the connection, in memory of its size. */
static void give_back_out(struct conn *c)
{
    struct buf *out = &c->stream.out;
    struct buf keep = {0};
    size_t left = buf_len(out);
    if (!out->mem || (left > 0 && (c->env->spare_out.mem || left > WRITE_STEP)))
        return;
    if (left > 0 && !buf_append(&keep, buf_data(out), left))
        conn_set_state(c, CONN_DEAD);
    if (c->env->spare_out.mem || out->size > 4 * STREAM_OUT_HIGH) {
        buf_release(out);
    } else {
        out->start = out->end = 0;
        c->env->spare_out = *out;
    }
    *out = keep;
}

/* Over the cap of all connections together, the one that just grew ends. */
static void account(struct conn *c)
{
    size_t now = c->carry.size + c->stream.out.size;
    if (now == c->buffered)
        return;
    bool fits = conn_limits_buffered(c->env->options.limits, c->buffered, now);
    c->buffered = now;
    if (fits)
        return;
    metrics_count(M_CONNS_REFUSED);
    log_debug("conn: ended, too much is buffered in all");
    conn_set_state(c, CONN_DEAD);
}

/* ---- writing ---- */

/* Writes what is in `out` as far as it goes. A step is what has to go within one write
 * time-out, so that nobody holds memory by reading an octet now and then. */
static void write_out(struct conn *c)
{
    struct buf *out = &c->stream.out;
    c->want_write = false;
    while (buf_len(out) > 0) {
        size_t put;
        enum tls_io_result r = tls_io_write(&c->io, buf_data(out), buf_len(out), &put);
        if (r == TLS_IO_OK) {
            buf_consume(out, put);
            c->step += put;
            if (c->step >= WRITE_STEP)
                c->step = c->write_since_ms = 0;
            continue;
        }
        if (r != TLS_IO_WANT_READ && r != TLS_IO_WANT_WRITE) {
            conn_set_state(c, CONN_DEAD);
            return;
        }
        if (c->write_since_ms == 0)
            c->write_since_ms = clock_now_ms();
        c->want_write = true;
        return;
    }
    c->step = c->write_since_ms = 0;
}

/* ---- reading ---- */

/* TLS wants more octets: those of a record that it has a part of already? The rider does not
 * see them, but they hold memory. */
static void watch_record(struct conn *c, bool was_cut)
{
    c->cut = tls_io_pending(&c->io);
    if (c->cut && !was_cut)
        c->cut_since_ms = c->since_ms;
}

/* Reads behind the `have` octets in buf until nothing is there or buf is full. Returns
 * the octets in buf. */
static size_t read_in(struct conn *c, uint8_t *buf, size_t have, size_t size)
{
    bool was_cut = c->cut;
    c->more = c->read_stuck = c->cut = false;
    while (have < size) {
        size_t got;
        enum tls_io_result r = tls_io_read(&c->io, buf + have, size - have, &got);
        if (r == TLS_IO_OK) {
            have += got;
            was_cut = false;
            if (!tls_io_pending(&c->io))
                return have; /* the loop tells when there is more */
            continue;
        }
        if (r == TLS_IO_EOF)
            c->eof = true;
        else if (r == TLS_IO_ERROR)
            conn_set_state(c, CONN_DEAD);
        else if (r == TLS_IO_WANT_WRITE)
            c->read_stuck = true;
        else
            watch_record(c, was_cut);
        return have;
    }
    c->more = true;
    return have;
}

/* Small leftovers move to the shared buffer, new octets behind them; to large ones the new
 * octets are appended where they are. */
size_t conn_gather(struct conn *c, bool readable, const uint8_t **data)
{
    size_t have = buf_len(&c->carry);
    *data = buf_data(&c->carry);
    if (!readable || c->eof || have >= CONN_CARRY_MAX)
        return have;
    if (have > CONN_CARRY_SMALL) {
        uint8_t *p = buf_reserve(&c->carry, READ_CHUNK);
        if (!p) {
            conn_set_state(c, CONN_DEAD);
            return 0;
        }
        buf_commit(&c->carry, read_in(c, p, 0, READ_CHUNK));
        *data = buf_data(&c->carry);
        return buf_len(&c->carry);
    }
    if (have > 0)
        memcpy(c->env->read_buf, *data, have);
    buf_release(&c->carry);
    *data = c->env->read_buf;
    return read_in(c, c->env->read_buf, have, CONN_READ_SIZE);
}

void conn_carry(struct conn *c, const uint8_t *data, size_t len, size_t used)
{
    if (data == c->env->read_buf) {
        if (used < len && !buf_append(&c->carry, data + used, len - used))
            conn_set_state(c, CONN_DEAD);
        return;
    }
    buf_consume(&c->carry, used);
    if (buf_len(&c->carry) == 0)
        buf_release(&c->carry);
}

/* ---- riding ---- */

/* The read time-out runs from the beginning of a message, whatever trickles in. */
static void watch_message(struct conn *c)
{
    struct stream *s = &c->stream;
    bool half = s->rider->mid_message(s);
    if (half && (!c->half || c->requests != s->requests)) {
        c->requests = s->requests;
        c->read_since_ms = c->since_ms;
    }
    c->half = half;
}

/* Input to the rider, whose output gathers in `out`. */
static void ride(struct conn *c, bool readable)
{
    struct stream *s = &c->stream;
    const uint8_t *data;
    bool room = buf_len(&s->out) < STREAM_OUT_HIGH;
    size_t len = conn_gather(c, readable && room, &data);
    size_t used = 0;
    bool go_on = true;

    if (c->state == CONN_OPEN && room && len > 0)
        go_on = s->rider->on_data(s, data, len, &used);
    conn_carry(c, data, len, used);
    if (!go_on)
        conn_set_state(c, CONN_FLUSH);
    if (c->state != CONN_OPEN)
        return;
    watch_message(c);
    c->blocked = buf_len(&c->carry) > 0 && !c->half;
    if (c->eof && !c->eof_told && !c->blocked) {
        c->eof_told = true;
        s->rider->on_eof(s);
    }
    c->kicked = false;
    if (c->state == CONN_OPEN && !s->rider->on_flush(s))
        conn_set_state(c, CONN_FLUSH);
}

static void open_turn(struct conn *c, bool readable)
{
    c->since_ms = clock_now_ms();
    readable = readable || c->more;
    for (int i = 0; i < ROUNDS; i++) {
        ride(c, readable && !c->blocked);
        readable = false;
        bool was_full = buf_len(&c->stream.out) >= STREAM_OUT_HIGH;
        if (c->state != CONN_DEAD)
            write_out(c);
        if (c->state != CONN_OPEN || c->want_write)
            return;
        if (!was_full) {
            if (c->more && !c->blocked && buf_len(&c->carry) < CONN_CARRY_MAX)
                conn_enqueue(c, QUEUE_READY); /* the others first */
            return;
        }
    }
    conn_enqueue(c, QUEUE_READY);
}

/* ---- the end ---- */

static void flush_turn(struct conn *c)
{
    write_out(c);
    if (c->state != CONN_FLUSH || c->want_write)
        return;
    tls_io_shutdown(&c->io);
    conn_set_state(c, c->eof || c->in_order ? CONN_DEAD : CONN_LINGER);
}

/* Reads below TLS and throws away: only the client's FIN matters. */
static void linger_turn(struct conn *c)
{
    ssize_t n;
    while ((n = recv(c->io.fd, c->env->read_buf, CONN_READ_SIZE, 0)) > 0) {
        c->step += (size_t)n;
        if (c->step > LINGER_BYTES)
            break;
    }
    if (n >= 0 || !tls_io_would_block())
        conn_set_state(c, CONN_DEAD);
}

void conn_destroy(struct conn *c)
{
    struct conn_env *env = c->env;
    struct conn_limits *limits = env->options.limits;
    conn_dequeue(c);
    ev_io_stop(env->loop, &c->watcher);
    ev_timer_stop(env->loop, &c->timer);
    if (c->stream.rider)
        c->stream.rider->destroy(&c->stream);
    buf_release(&c->carry);
    buf_release(&c->stream.out);
    conn_limits_buffered(limits, c->buffered, 0);
    if (c->counted_start)
        end_start(c);
    TAILQ_REMOVE(&env->conns, c, link);
    env->n_conns--;
    if (c->counted_client)
        conn_limits_drop_client(limits, &c->stream.client);
    conn_limits_drop(limits);
    tls_io_deinit(&c->io);
    free(c);
    metrics_count(M_CONNS_CLOSED);
    env->on_closed(env);
}

/* ---- time-outs ----
 *
 * The deadline follows from the state; the timer only has to fire no later. It is set anew
 * when it fires or when a deadline comes nearer, not at each sign of life. */

/* Until when what is half here has to be whole; UINT64_MAX: nothing is. A record that we do
 * not read at present is not waited for. */
static uint64_t read_deadline(const struct conn *c)
{
    uint64_t since = UINT64_MAX;
    if (c->half)
        since = c->read_since_ms;
    if (c->cut && !c->blocked && c->cut_since_ms < since)
        since = c->cut_since_ms;
    return since == UINT64_MAX ? since : since + c->env->options.read_ms;
}

static uint64_t deadline(const struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    switch ((enum conn_state)c->state) {
    case CONN_PROXY:
    case CONN_HANDSHAKE:
    case CONN_SNIFF:
        return c->since_ms + o->handshake_ms;
    case CONN_FLUSH:
        return (c->write_since_ms ? c->write_since_ms : c->since_ms) + o->write_ms;
    case CONN_LINGER:
        return c->since_ms + (c->env->draining ? LINGER_DRAIN_MS : LINGER_MS);
    case CONN_DEAD:
        return UINT64_MAX;
    case CONN_OPEN:
        break;
    }
    if (c->want_write)
        return c->write_since_ms + o->write_ms;
    if (c->read_stuck)
        return c->since_ms + o->write_ms;
    uint64_t at = read_deadline(c);
    if (at != UINT64_MAX || c->stream.rider->in_flight(&c->stream) > 0)
        return at;
    return c->since_ms + o->idle_ms;
}

static void set_timer(struct conn *c, uint64_t now, uint64_t at)
{
    uint64_t look = now + c->env->options.idle_ms; /* nothing is due: look again */
    if (at > look)
        at = look;
    c->timer_at_ms = at;
    ev_timer_stop(c->env->loop, &c->timer);
    ev_timer_set(&c->timer, (double)(at > now ? at - now : 0) / 1000.0, 0.);
    ev_timer_start(c->env->loop, &c->timer);
}

void conn_on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)events;
    struct conn *c = w->data;
    uint64_t now = clock_now_ms(), at = deadline(c);
    if (at > now) {
        set_timer(c, now, at);
        return;
    }
    metrics_count(M_CONNS_TIMEOUT);
    c->timer_at_ms = UINT64_MAX;
    c->running = true;
    if (c->state == CONN_OPEN && !c->want_write && !c->read_stuck &&
        read_deadline(c) == UINT64_MAX) {
        c->in_order = true; /* idle */
        conn_set_state(c, CONN_FLUSH);
        tls_io_begin(&c->io);
        flush_turn(c);
    } else {
        conn_set_state(c, CONN_DEAD);
    }
    conn_tail(c);
}

/* ---- one event ---- */

static bool wants_read(const struct conn *c)
{
    switch ((enum conn_state)c->state) {
    case CONN_HANDSHAKE:
        return !c->want_write && c->queue != QUEUE_HANDSHAKE;
    case CONN_OPEN:
        return !c->eof && !c->blocked && !c->read_stuck &&
               buf_len(&c->stream.out) < STREAM_OUT_HIGH && buf_len(&c->carry) < CONN_CARRY_MAX;
    case CONN_FLUSH:
    case CONN_DEAD:
        return false;
    default:
        return true;
    }
}

static void set_watcher(struct conn *c)
{
    bool writes = c->want_write || (c->read_stuck && c->state == CONN_OPEN);
    int events = (wants_read(c) ? EV_READ : 0) | (writes ? EV_WRITE : 0);
    if (events == (c->watcher.events & (EV_READ | EV_WRITE)) &&
        (events == 0 || ev_is_active(&c->watcher)))
        return;
    ev_io_stop(c->env->loop, &c->watcher);
    ev_io_set(&c->watcher, c->io.fd, events);
    if (events)
        ev_io_start(c->env->loop, &c->watcher);
}

void conn_tail(struct conn *c)
{
    c->running = false;
    give_back_out(c);
    account(c);
    if (c->state == CONN_DEAD) {
        conn_destroy(c);
        return;
    }
    set_watcher(c);
    uint64_t at = deadline(c);
    if (at < c->timer_at_ms)
        set_timer(c, clock_now_ms(), at);
    if (c->kicked && c->state == CONN_OPEN)
        conn_enqueue(c, QUEUE_READY);
}

void conn_turn(struct conn *c, int events)
{
    bool readable = (events & EV_READ) || ((events & EV_WRITE) && c->read_stuck);
    c->running = true;
    c->kicked = false;
    borrow_out(c);
    tls_io_begin(&c->io);
    if (c->state == CONN_PROXY)
        conn_proxy_turn(c);
    if (c->state == CONN_HANDSHAKE)
        conn_handshake_turn(c);
    if (c->state == CONN_SNIFF)
        conn_sniff_turn(c);
    if (c->state == CONN_OPEN)
        open_turn(c, readable);
    if (c->state == CONN_FLUSH)
        flush_turn(c);
    if (c->state == CONN_LINGER)
        linger_turn(c);
    conn_tail(c);
}

void conn_on_io(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop;
    conn_turn(w->data, events);
}
