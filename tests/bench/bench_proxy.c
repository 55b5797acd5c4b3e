/* bench_proxy.c - the query path without transports: nanoseconds a hit.
 *
 *      bench_proxy [QUERIES]         one JSON line for each kind of query
 *
 * valgrind --tool=callgrind --toggle-collect='query_loop' gives exact instructions. */
#include <ev.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_upstream.h"
#include "core/clock.h"
#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "proxy.h"

enum { NAMES = 1000 };

static uint64_t replies, octets;

static void on_reply(struct query *q, const struct query_reply *r)
{
    (void)q;
    replies++;
    octets += r->len;
}

struct question {
    uint8_t msg[128];
    size_t len;
};

static struct question questions[NAMES];

static void make_question(struct question *q, unsigned i, bool with_opt)
{
    struct dns_builder b;
    uint8_t name[DNS_NAME_MAX];
    char text[64];
    size_t n;

    snprintf(text, sizeof text, "host%u.bench.example", i);
    n = name_from_text(name, text);
    build_start(&b, q->msg, sizeof q->msg, (uint16_t)i, DNS_RD, name, n, RR_A, DNS_CLASS_IN);
    q->len = build_finish(&b);
    if (with_opt) {
        q->len += edns_write(q->msg + q->len, DNS_UDP_SIZE, 0, 0);
        q->msg[11] = 1;
    }
}

static void submit(struct proxy *p, const struct question *question, enum query_transport t)
{
    struct query q = {.msg = question->msg,
                      .msg_len = question->len,
                      .handler = proxy_handler(p),
                      .on_reply = on_reply,
                      .transport = t,
                      .client = {.family = ADDR_V4, .ip = {127, 0, 0, 1}}};

    query_submit(&q);
}

/* A query that misses waits, so it needs an object that stays. */
static void fill(struct proxy *p, const struct question *question)
{
    static struct query q;
    uint8_t msg[512];
    struct dns_builder b;
    const struct fake_ask *a = &fake_asks[0];

    fake_reset();
    q = (struct query){.msg = question->msg,
                       .msg_len = question->len,
                       .handler = proxy_handler(p),
                       .on_reply = on_reply,
                       .client = {.family = ADDR_V4, .ip = {127, 0, 0, 1}}};
    query_submit(&q);
    build_start(&b, msg, sizeof msg, 0, DNS_QR, a->qname, a->qname_len, a->qtype, DNS_CLASS_IN);
    build_rr(&b, DNS_ANSWER, NULL, 0, RR_A, DNS_CLASS_IN, 86400, (const uint8_t *)"\xc0\0\2\1",
             4);
    fake_reply(0, msg, build_finish(&b), true);
}

void query_loop(struct proxy *p, enum query_transport t, uint64_t n);

void query_loop(struct proxy *p, enum query_transport t, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        submit(p, &questions[i % NAMES], t);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool with_opt;
    } kinds[] = {{"plain", false}, {"opt", true}};
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    struct cidr access = {.family = ADDR_V4, .ip = {127}, .prefix = 8};
    struct config config = {.refs = 1000,
                            .access = {&access, 1},
                            .max_ttl_s = 86400,
                            .prefetch = true,
                            .stale_max_age_s = 86400,
                            .limit_idle_ms = 30000};
    struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
    struct cache *cache = cache_create(8 * 1024 * 1024);
    struct proxy *p = proxy_create(loop, &config, cache, NULL);

    for (size_t k = 0; k < 2; k++) {
        uint64_t start_us;

        for (unsigned i = 0; i < NAMES; i++) {
            make_question(&questions[i], i, kinds[k].with_opt);
            if (k == 0)
                fill(p, &questions[i]);
        }
        fake_reset();
        replies = octets = 0;
        start_us = clock_now_us();
        query_loop(p, QUERY_UDP, n);
        printf("{\"bench\": \"proxy\", \"query\": \"%s\", \"ns_a_hit\": %.1f, "
               "\"octets_an_answer\": %.1f, "
               "\"misses\": %zu}\n",
               kinds[k].name, (double)(clock_now_us() - start_us) * 1000 / (double)n,
               (double)octets / (double)replies, fake_n_asks);
    }
    proxy_destroy(p);
    cache_destroy(cache);
    ev_loop_destroy(loop);
    return 0;
}
