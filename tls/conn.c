/* conn.c - one connection's life: states, turns, time-outs.
 *
 * Owner of a conn: its environment's list. Thread: the worker. */
#include "tls/conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/metrics.h"
#include "tls/limits.h"
#include "tls/proxyproto.h"

enum {
    LINGER_MS = 2000,
    LINGER_BYTES = 256 * 1024, /* read and thrown away at most */
    WRITE_STEP = 16 * 1024,    /* this much has to go within the write time-out */
    CARRY_SMALL = 2048,        /* carried input that is cheaper copied than kept growing */
    ROUNDS = 4,                /* deliver and write, within one turn */
};

struct conn {
    struct stream stream;
    struct tls_io io;
    struct conn_env *env;
    struct conn *prev, *next;
    struct conn *next_ready;
    ev_io watcher;
    ev_timer timer;
    struct buf carry;        /* input the rider has not taken yet */
    uint64_t timer_at_ms;    /* when the timer fires; the deadline may be later */
    uint64_t since_ms;       /* begin of the state; in OPEN: the last sign of life */
    uint64_t read_since_ms;  /* begin of the message that is half here */
    uint64_t write_since_ms; /* begin of the present WRITE_STEP */
    size_t buffered;         /* what conn_limits was told */
    size_t step;             /* octets of the present WRITE_STEP, or thrown away */
    uint32_t requests;       /* stream.requests when read_since_ms was set */
    uint8_t state;           /* enum conn_state, changed by set_state() only */
    bool running : 1;        /* inside a turn: nobody but its tail destroys */
    bool is_ready : 1;       /* on the ready list */
    bool kicked : 1;         /* the rider has something to flush */
    bool more : 1;           /* input is there that no event will tell of */
    bool eof : 1;            /* the client's end was read */
    bool eof_told : 1;       /* and the rider knows */
    bool blocked : 1;        /* the rider left whole messages: no reading */
    bool half : 1;           /* a message is half here since read_since_ms */
    bool want_write : 1;     /* the socket is full */
    bool in_order : 1;       /* ends without LINGER */
    bool counted : 1;        /* in conn_limits, for its client */
};

/* ---- states ---- */

static void set_state(struct conn *c, enum conn_state state)
{
    if (c->state == CONN_DEAD || c->state == (uint8_t)state)
        return;
    c->state = (uint8_t)state;
    c->since_ms = clock_now_ms();
    c->step = 0;
    if (state == CONN_FLUSH)
        c->write_since_ms = c->since_ms;
}

static void make_ready(struct conn *c)
{
    struct conn_env *env = c->env;
    if (c->is_ready)
        return;
    c->is_ready = true;
    c->next_ready = NULL;
    *env->ready_tail = c;
    env->ready_tail = &c->next_ready;
}

static void leave_ready(struct conn *c)
{
    struct conn_env *env = c->env;
    if (!c->is_ready)
        return;
    struct conn **at = &env->ready;
    while (*at != c)
        at = &(*at)->next_ready;
    *at = c->next_ready;
    if (!*at)
        env->ready_tail = at;
    c->is_ready = false;
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
        make_ready(c);
}

static void carrier_close(struct stream *s, enum stream_close how)
{
    struct conn *c = from_stream(s);
    if (how == STREAM_ABORT)
        set_state(c, CONN_DEAD);
    else if (c->state < CONN_FLUSH)
        set_state(c, CONN_FLUSH);
    if (!c->running)
        make_ready(c);
}

static const struct stream_carrier carrier = {
    .kick = carrier_kick,
    .close = carrier_close,
};

/* ---- memory ----
 *
 * A turn borrows the environment's buffer for `out`, so that idle connections have none
 * and busy ones do not allocate. */

static void borrow_out(struct conn *c)
{
    if (c->stream.out.mem)
        return;
    c->stream.out = c->env->spare_out;
    c->env->spare_out = (struct buf){0};
}

static void give_back_out(struct conn *c)
{
    struct buf *out = &c->stream.out;
    size_t left = buf_len(out);
    if (left > 0 && (c->env->spare_out.mem || left > WRITE_STEP))
        return; /* keeps it */
    struct buf keep = {0};
    if (left > 0 && !buf_append(&keep, buf_data(out), left)) {
        set_state(c, CONN_DEAD);
        left = 0;
    }
    if (c->env->spare_out.mem || out->size > 4 * STREAM_OUT_HIGH) {
        buf_release(out);
    } else {
        out->start = out->end = 0;
        c->env->spare_out = *out;
    }
    *out = keep;
}

/* Over the cap of all connections together, the one that grows it ends. */
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
    set_state(c, CONN_DEAD);
}

/* ---- writing ---- */

/* Writes what is in `out` as far as it goes. */
static void write_out(struct conn *c)
{
    struct buf *out = &c->stream.out;
    c->want_write = false;
    while (buf_len(out) > 0) {
        size_t put;
        enum tls_io_result r = tls_io_write(&c->io, buf_data(out), buf_len(out), &put);
        if (r == TLS_IO_ERROR || r == TLS_IO_EOF) {
            set_state(c, CONN_DEAD);
            return;
        }
        if (r != TLS_IO_OK) {
            if (c->write_since_ms == 0)
                c->write_since_ms = clock_now_ms();
            c->want_write = true;
            return;
        }
        buf_consume(out, put);
        c->step += put;
        if (c->step >= WRITE_STEP) {
            c->step = 0;
            c->write_since_ms = 0;
        }
    }
    c->step = 0;
    c->write_since_ms = 0;
}

/* ---- reading ---- */

/* Reads behind the `have` octets in buf until nothing is there or buf is full. Returns
 * the octets in buf. */
static size_t read_in(struct conn *c, uint8_t *buf, size_t have, size_t size)
{
    c->more = false;
    while (have < size) {
        size_t got;
        enum tls_io_result r = tls_io_read(&c->io, buf + have, size - have, &got);
        if (r == TLS_IO_OK) {
            have += got;
            if (tls_io_pending(&c->io))
                continue;
            return have; /* the loop tells when there is more */
        }
        if (r == TLS_IO_EOF)
            c->eof = true;
        else if (r == TLS_IO_ERROR)
            set_state(c, CONN_DEAD);
        return have;
    }
    c->more = true;
    return have;
}

/* Reads behind what is carried. Small leftovers move to the shared buffer; with large ones
 * the new octets go to them. *data is valid until the next call. */
static size_t gather(struct conn *c, bool readable, const uint8_t **data)
{
    size_t have = buf_len(&c->carry);
    *data = buf_data(&c->carry);
    if (!readable || c->eof || have >= CONN_CARRY_MAX)
        return have;
    if (have > CARRY_SMALL) {
        enum { CHUNK = 16 * 1024 };
        uint8_t *p = buf_reserve(&c->carry, CHUNK);
        if (!p) {
            set_state(c, CONN_DEAD);
            return 0;
        }
        buf_commit(&c->carry, read_in(c, p, 0, CHUNK));
        *data = buf_data(&c->carry);
        return buf_len(&c->carry);
    }
    if (have > 0)
        memcpy(c->env->read_buf, *data, have);
    buf_release(&c->carry);
    *data = c->env->read_buf;
    return read_in(c, c->env->read_buf, have, CONN_READ_SIZE);
}

/* Keeps the octets from `used` on. */
static void carry(struct conn *c, const uint8_t *data, size_t len, size_t used)
{
    if (data == c->env->read_buf) {
        if (used < len && !buf_append(&c->carry, data + used, len - used))
            set_state(c, CONN_DEAD);
        return;
    }
    buf_consume(&c->carry, used);
    if (buf_len(&c->carry) == 0)
        buf_release(&c->carry);
}

/* The read time-out runs from the beginning of a message, whatever trickles in. */
static void watch_message(struct conn *c)
{
    struct stream *s = &c->stream;
    bool half = s->rider->mid_message && s->rider->mid_message(s);
    if (half && (!c->half || c->requests != s->requests)) {
        c->requests = s->requests;
        c->read_since_ms = c->since_ms;
    }
    c->half = half;
}

/* One round: input to the rider, its output to the socket. */
static void round_trip(struct conn *c, bool readable)
{
    struct stream *s = &c->stream;
    const uint8_t *data;
    bool room = buf_len(&s->out) < STREAM_OUT_HIGH;
    size_t len = gather(c, readable && room, &data);

    if (c->state == CONN_OPEN && len > 0 && room) {
        size_t used = 0;
        bool go_on = s->rider->on_data(s, data, len, &used);
        carry(c, data, len, used);
        if (!go_on)
            set_state(c, CONN_FLUSH);
    } else {
        carry(c, data, len, 0);
    }
    if (c->state != CONN_OPEN)
        return;
    watch_message(c);
    c->blocked = buf_len(&c->carry) > 0 && !c->half;
    if (c->eof && !c->eof_told && !c->blocked) {
        c->eof_told = true;
        s->rider->on_eof(s);
    }
    c->kicked = false;
    if (c->state == CONN_OPEN && s->rider->on_flush && !s->rider->on_flush(s))
        set_state(c, CONN_FLUSH);
}

static void open_turn(struct conn *c, bool readable)
{
    c->since_ms = clock_now_ms();
    for (int i = 0; i < ROUNDS && c->state == CONN_OPEN; i++) {
        round_trip(c, (readable || c->more) && !c->blocked);
        readable = false;
        bool was_full = buf_len(&c->stream.out) >= STREAM_OUT_HIGH;
        if (c->state == CONN_DEAD)
            return;
        write_out(c);
        if (c->want_write || !was_full) {
            if (c->more && !c->blocked && !c->want_write && c->state == CONN_OPEN)
                make_ready(c); /* the others first */
            return;
        }
    }
    if (c->state == CONN_OPEN)
        make_ready(c);
}

/* ---- before the rider ---- */

/* What ALPN (or, without, the row for that) says; NULL: nothing fits. */
static const struct listener_protocol *by_alpn(const struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    size_t len;
    const unsigned char *name = tls_io_alpn(&c->io, &len);
    for (size_t i = 0; i < o->n_protocols; i++) {
        const char *alpn = o->protocols[i].alpn;
        if (name ? alpn && strlen(alpn) == len && memcmp(alpn, name, len) == 0 : !alpn)
            return &o->protocols[i];
    }
    return NULL;
}

static void attach(struct conn *c, const struct listener_protocol *p)
{
    if (!p || !p->attach(&c->stream, p->arg)) {
        set_state(c, CONN_DEAD);
        return;
    }
    set_state(c, CONN_OPEN);
    c->more = true; /* input may be here already, with no event to come */
}

static void handshake_turn(struct conn *c)
{
    enum tls_io_result r = tls_io_handshake(&c->io);
    c->want_write = r == TLS_IO_WANT_WRITE;
    if (r == TLS_IO_OK) {
        metrics_count(M_TLS_HANDSHAKES);
        if (tls_io_resumed(&c->io))
            metrics_count(M_TLS_RESUMED);
        attach(c, by_alpn(c));
    } else if (r == TLS_IO_ERROR || r == TLS_IO_EOF) {
        metrics_count(M_TLS_FAILED);
        set_state(c, CONN_DEAD);
    }
}

static void sniff_turn(struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    const uint8_t *data;
    size_t len = gather(c, true, &data);
    bool wait = false;

    for (size_t i = 0; i < o->n_protocols; i++) {
        const struct listener_protocol *p = &o->protocols[i];
        if (p->alpn)
            continue;
        int fits = !p->sniff ? 1 : len == 0 ? -1 : p->sniff(data, len);
        if (fits == 1) {
            carry(c, data, len, 0);
            attach(c, p);
            return;
        }
        wait = wait || fits < 0;
        if (wait)
            break; /* rows are in order of preference */
    }
    carry(c, data, len, 0);
    if (!wait || c->eof)
        set_state(c, CONN_DEAD);
}

static bool sniffs(const struct conn_env *env)
{
    for (size_t i = 0; i < env->options.n_protocols; i++) {
        if (!env->options.protocols[i].alpn)
            return env->options.protocols[i].sniff;
    }
    return false;
}

/* Who asks is known: counts it and goes to the first state of the protocol. */
static void begin(struct conn *c)
{
    struct conn_env *env = c->env;
    const struct listener_options *o = &env->options;

    if (!cidr_any(o->trusted_proxies, o->n_trusted_proxies, &c->stream.peer)) {
        c->counted = conn_limits_take_client(o->limits, &c->stream.client,
                                             o->max_connections_per_client);
        if (!c->counted) {
            metrics_count(M_CONNS_REFUSED);
            set_state(c, CONN_DEAD);
            return;
        }
    }
    uint64_t since = c->since_ms; /* PROXY and handshake share one time-out */
    if (o->tls) {
        c->stream.secure = true;
        set_state(c, tls_io_start_tls(&c->io, o->tls) ? CONN_HANDSHAKE : CONN_DEAD);
        c->since_ms = since;
    } else if (sniffs(env)) {
        set_state(c, CONN_SNIFF);
        c->since_ms = since;
    } else {
        attach(c, by_alpn(c));
    }
}

/* Takes the PROXY header from the socket and not one octet more. */
static void proxy_turn(struct conn *c)
{
    uint8_t *buf = c->env->read_buf;
    size_t have = buf_len(&c->carry);
    struct proxyproto pp;
    if (have > 0)
        memcpy(buf, buf_data(&c->carry), have);
    ssize_t n = recv(c->io.fd, buf + have, PROXYPROTO_MAX - have, MSG_PEEK);
    if (n < 0 && tls_io_would_block())
        return;
    ssize_t used = n > 0 ? proxyproto_parse(&pp, buf, have + (size_t)n) : -1;
    if (used < 0) {
        metrics_count(M_STREAM_ERRORS);
        log_debug("conn: no PROXY header where one is due");
        set_state(c, CONN_DEAD);
        return;
    }
    size_t take = used > 0 ? (size_t)used - have : (size_t)n;
    if (recv(c->io.fd, buf + have, take, 0) != (ssize_t)take ||
        (used == 0 && !buf_append(&c->carry, buf + have, take))) {
        set_state(c, CONN_DEAD);
        return;
    }
    if (used == 0)
        return;
    buf_release(&c->carry);
    if (pp.known) {
        c->stream.client = pp.src;
        c->stream.local = pp.dst;
    }
    begin(c);
}

/* ---- the end ---- */

static void flush_turn(struct conn *c)
{
    write_out(c);
    if (c->state != CONN_FLUSH || c->want_write)
        return;
    tls_io_shutdown(&c->io);
    set_state(c, c->eof || c->in_order ? CONN_DEAD : CONN_LINGER);
}

/* Reads below TLS and throws away: only the client's FIN matters. */
static void linger_turn(struct conn *c)
{
    uint8_t *buf = c->env->read_buf;
    ssize_t n;
    while ((n = recv(c->io.fd, buf, CONN_READ_SIZE, 0)) > 0) {
        c->step += (size_t)n;
        if (c->step > LINGER_BYTES)
            break;
    }
    if (n >= 0 || !tls_io_would_block())
        set_state(c, CONN_DEAD);
}

static void destroy(struct conn *c)
{
    struct conn_env *env = c->env;
    leave_ready(c);
    ev_io_stop(env->loop, &c->watcher);
    ev_timer_stop(env->loop, &c->timer);
    if (c->stream.rider)
        c->stream.rider->destroy(&c->stream);
    buf_release(&c->carry);
    buf_release(&c->stream.out);
    conn_limits_buffered(env->options.limits, c->buffered, 0);
    if (c->counted)
        conn_limits_drop_client(env->options.limits, &c->stream.client);
    conn_limits_drop(env->options.limits);
    tls_io_deinit(&c->io);
    if (c->prev)
        c->prev->next = c->next;
    else
        env->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    env->n_conns--;
    free(c);
    metrics_count(M_CONNS_CLOSED);
    env->on_closed(env);
}

/* ---- time-outs ----
 *
 * The deadline follows from the state; the timer only has to fire no later. It is set anew
 * when it fires or when a deadline comes nearer, not at each sign of life. */

static uint64_t deadline(const struct conn *c)
{
    const struct listener_options *o = &c->env->options;
    const struct stream *s = &c->stream;
    switch ((enum conn_state)c->state) {
    case CONN_PROXY:
    case CONN_HANDSHAKE:
    case CONN_SNIFF:
        return c->since_ms + o->handshake_ms;
    case CONN_FLUSH:
        return c->write_since_ms + o->write_ms;
    case CONN_LINGER:
        return c->since_ms + LINGER_MS;
    case CONN_DEAD:
        return UINT64_MAX;
    case CONN_OPEN:
        break;
    }
    if (c->want_write)
        return c->write_since_ms + o->write_ms;
    if (c->half)
        return c->read_since_ms + o->read_ms;
    if (s->rider->in_flight(s) > 0)
        return UINT64_MAX;
    return c->since_ms + o->idle_ms;
}

static void set_timer(struct conn *c, uint64_t now, uint64_t at)
{
    uint64_t look = now + c->env->options.idle_ms; /* nothing due: look again */
    if (at > look)
        at = look;
    c->timer_at_ms = at;
    ev_timer_stop(c->env->loop, &c->timer);
    ev_timer_set(&c->timer, (double)(at > now ? at - now : 0) / 1000.0, 0.);
    ev_timer_start(c->env->loop, &c->timer);
}

static void watch(struct conn *c)
{
    int events = 0;
    bool reads = c->state != CONN_FLUSH && !c->eof && !(c->state == CONN_OPEN && c->blocked) &&
                 buf_len(&c->stream.out) < STREAM_OUT_HIGH &&
                 buf_len(&c->carry) < CONN_CARRY_MAX;
    if (reads && !(c->state == CONN_HANDSHAKE && c->want_write))
        events |= EV_READ;
    if (c->want_write)
        events |= EV_WRITE;
    if (events != (c->watcher.events & (EV_READ | EV_WRITE)) || !ev_is_active(&c->watcher)) {
        ev_io_stop(c->env->loop, &c->watcher);
        ev_io_set(&c->watcher, c->io.fd, events);
        if (events)
            ev_io_start(c->env->loop, &c->watcher);
    }
}

static void tail(struct conn *c)
{
    c->running = false;
    give_back_out(c);
    account(c);
    if (c->state == CONN_DEAD) {
        destroy(c);
        return;
    }
    watch(c);
    uint64_t at = deadline(c);
    if (at < c->timer_at_ms)
        set_timer(c, clock_now_ms(), at);
    if (c->kicked)
        make_ready(c);
}

static void turn(struct conn *c, int events)
{
    bool readable = events & EV_READ;
    c->running = true;
    borrow_out(c);
    tls_io_begin(&c->io);
    if (c->state == CONN_PROXY)
        proxy_turn(c);
    if (c->state == CONN_HANDSHAKE)
        handshake_turn(c);
    if (c->state == CONN_SNIFF)
        sniff_turn(c);
    if (c->state == CONN_OPEN)
        open_turn(c, readable);
    if (c->state == CONN_FLUSH)
        flush_turn(c);
    if (c->state == CONN_LINGER)
        linger_turn(c);
    tail(c);
}

static void on_io(struct ev_loop *loop, ev_io *w, int events)
{
    (void)loop;
    turn(w->data, events);
}

static void on_timer(struct ev_loop *loop, ev_timer *w, int events)
{
    (void)loop, (void)events;
    struct conn *c = w->data;
    uint64_t now = clock_now_ms(), at = deadline(c);
    if (at > now) {
        set_timer(c, now, at);
        return;
    }
    metrics_count(M_CONNS_TIMEOUT);
    bool idle = c->state == CONN_OPEN && !c->want_write && !c->half;
    c->in_order = idle;
    c->running = true;
    set_state(c, idle ? CONN_FLUSH : CONN_DEAD);
    tls_io_begin(&c->io);
    if (idle)
        flush_turn(c);
    c->timer_at_ms = UINT64_MAX;
    tail(c);
}

/* ---- the environment ---- */

static void on_idle(struct ev_loop *loop, ev_idle *w, int events)
{
    (void)loop, (void)w, (void)events; /* its being active is what counts */
}

/* Each one that is ready gets one turn; who is ready again waits for the next pass. */
static void on_prepare(struct ev_loop *loop, ev_prepare *w, int events)
{
    (void)events;
    struct conn_env *env = w->data;
    struct conn **last = env->ready_tail;
    bool any = env->ready != NULL;
    while (any) {
        struct conn *c = env->ready;
        any = &c->next_ready != last;
        env->ready = c->next_ready;
        if (!env->ready)
            env->ready_tail = &env->ready;
        c->is_ready = false;
        turn(c, 0);
    }
    if (env->ready && !ev_is_active(&env->idle))
        ev_idle_start(loop, &env->idle);
    else if (!env->ready && ev_is_active(&env->idle))
        ev_idle_stop(loop, &env->idle);
}

bool conn_env_init(struct conn_env *env)
{
    env->read_buf = malloc(CONN_READ_SIZE);
    if (!env->read_buf)
        return false;
    env->ready_tail = &env->ready;
    ev_prepare_init(&env->prepare, on_prepare);
    ev_set_priority(&env->prepare, EV_MINPRI); /* after all others have kicked */
    env->prepare.data = env;
    ev_prepare_start(env->loop, &env->prepare);
    ev_idle_init(&env->idle, on_idle);
    return true;
}

void conn_env_deinit(struct conn_env *env)
{
    while (env->conns) {
        set_state(env->conns, CONN_DEAD);
        destroy(env->conns);
    }
    ev_prepare_stop(env->loop, &env->prepare);
    ev_idle_stop(env->loop, &env->idle);
    buf_release(&env->spare_out);
    free(env->read_buf);
    env->read_buf = NULL;
}

void conn_open(struct conn_env *env, int fd, const struct addr *peer)
{
    const struct listener_options *o = &env->options;
    struct conn *c = calloc(1, sizeof *c);
    struct sockaddr_storage ss;
    socklen_t ss_len = sizeof ss;
    if (!c) {
        close(fd);
        return;
    }
    if (!conn_limits_take(o->limits, o->max_connections)) {
        metrics_count(M_CONNS_REFUSED);
        close(fd);
        free(c);
        return;
    }
    metrics_count(M_CONNS_ACCEPTED);
    tls_io_init(&c->io, fd, &env->alpn);
    c->env = env;
    c->stream.carrier = &carrier;
    c->stream.peer = c->stream.client = *peer;
    if (getsockname(fd, (struct sockaddr *)&ss, &ss_len) == 0)
        addr_from_sockaddr(&c->stream.local, (struct sockaddr *)&ss);
    c->since_ms = clock_now_ms();
    c->timer_at_ms = UINT64_MAX;
    c->next = env->conns;
    if (env->conns)
        env->conns->prev = c;
    env->conns = c;
    env->n_conns++;
    ev_io_init(&c->watcher, on_io, fd, 0);
    c->watcher.data = c;
    ev_timer_init(&c->timer, on_timer, 0., 0.);
    c->timer.data = c;

    c->running = true;
    c->state = CONN_PROXY;
    if (!cidr_any(o->proxy_protocol, o->n_proxy_protocol, peer))
        begin(c);
    tail(c);
}

void conn_drain_all(struct conn_env *env)
{
    for (struct conn *c = env->conns; c; c = c->next) {
        if (c->state == CONN_OPEN)
            c->stream.rider->on_shutdown(&c->stream);
        else if (c->state < CONN_OPEN)
            set_state(c, CONN_DEAD);
        make_ready(c);
    }
}
