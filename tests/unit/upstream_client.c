/* upstream_client.c - see upstream_client.h. */
#include "upstream_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "dns/name.h"
#include "dns/rrtype.h"

struct config *client_config(const char *yaml)
{
    char path[] = "/tmp/pith-test-config.XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f || fputs(yaml, f) < 0 || fclose(f))
        abort();
    struct config *c = config_load(path, stderr);
    unlink(path);
    if (!c)
        abort();
    return c;
}

const char *client_line(char *out, size_t size, enum fake_transport t, uint16_t port,
                        const char *more)
{
    static const char *const transport[] = {"udp", "tcp", "tls"};
    char tls[160] = "";
    if (t == FAKE_TLS && !strstr(more, "ca:") && !strstr(more, "pin:"))
        snprintf(tls, sizeof tls, ", tls-name: dot.test, ca: %s", fake_certificate(0));
    snprintf(out, size, "  - { address: \"127.0.0.1:%u\", transport: %s%s%s }\n", port,
             transport[t], tls, more);
    return out;
}

void client_open(struct client *c, const char *yaml)
{
    memset(c, 0, sizeof *c);
    upstream_lock();
    c->loop = ev_loop_new(EVFLAG_AUTO);
    upstream_unlock();
    c->config = client_config(yaml);
    if (!c->loop || !(c->set = upstream_create(c->loop, c->config)))
        abort();
}

void client_close(struct client *c)
{
    upstream_destroy(c->set);
    config_unref(c->config);
    upstream_lock();
    ev_loop_destroy(c->loop);
    upstream_unlock();
}

static void on_answer(void *arg, const struct upstream_answer *answer)
{
    struct outcome *o = arg;
    if (o->done)
        abort(); /* exactly one */
    o->done = true;
    o->ms = (clock_now_us() - o->started_us) / 1000;
    o->answered = answer->reply != NULL;
    o->ede = answer->ede;
    o->trust_ad = answer->trust_ad;
    o->network_failure = answer->network_failure;
    snprintf(o->text, sizeof o->text, "%s", answer->ede_text);
    if (answer->reply) {
        o->rcode = answer->reply->rcode;
        o->len = answer->reply->len < sizeof o->msg ? answer->reply->len : sizeof o->msg;
        memcpy(o->msg, answer->reply->msg, o->len);
    }
    if (o->open && --*o->open == 0)
        ev_break(o->client->loop, EVBREAK_ALL);
}

struct upstream_ask *client_ask(struct client *c, struct outcome *o, const char *name)
{
    uint8_t wire[DNS_NAME_MAX];
    struct upstream_question q = {
        .qname = wire, .qname_len = name_from_text(wire, name), .qtype = RR_A};
    unsigned *open = o->open;
    memset(o, 0, sizeof *o);
    o->client = c;
    o->open = open;
    o->started_us = clock_now_us();
    struct upstream_ask *a = upstream_ask(c->set, &q, on_answer, o);
    if (a && o->done)
        abort(); /* never inside */
    return a;
}

static void stop_cb(struct ev_loop *loop, ev_timer *t, int revents)
{
    (void)revents;
    *(bool *)t->data = true;
    ev_break(loop, EVBREAK_ALL);
}

void client_run(struct client *c, const unsigned *open, unsigned ms)
{
    ev_timer t;
    bool expired = false;
    if (open && !*open)
        return;
    ev_now_update(c->loop);
    ev_timer_init(&t, stop_cb, ms / 1000.0, 0.0);
    t.data = &expired;
    ev_timer_start(c->loop, &t);
    while (!expired && !(open && !*open))
        ev_run(c->loop, 0); /* others may break it */
    ev_timer_stop(c->loop, &t);
}

void client_resolve(struct client *c, struct outcome *o, const char *name)
{
    unsigned open = 1;
    o->open = &open;
    if (client_ask(c, o, name))
        client_run(c, &open, 10000);
    o->open = NULL;
}

static _Atomic uint64_t stall_ms;

static void *metronome(void *arg)
{
    const struct timespec beat = {0, 5000000};
    (void)arg;
    for (uint64_t before = clock_now_ms(), now;; before = now) {
        nanosleep(&beat, NULL);
        now = clock_now_ms();
        if (now - before > 5 + stall_ms)
            stall_ms = now - before - 5;
    }
    return NULL;
}

uint64_t client_stall_ms(void)
{
    static bool started;
    pthread_t thread;
    if (!started && pthread_create(&thread, NULL, metronome, NULL))
        abort();
    started = true;
    return atomic_exchange(&stall_ms, 0);
}
