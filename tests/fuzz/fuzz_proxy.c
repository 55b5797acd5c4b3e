/* fuzz_proxy.c - queries and upstream replies through the proxy, the cache and local data.
 *
 * The input is a list of steps, each an octet that says which, and what it needs:
 *      0..3  a query over UDP, TCP, DoT, DoH: length octet, message
 *      4     upstream answers the oldest open ask: length octet, what follows the question
 * (records), flags 5     upstream fails the oldest open ask 6     time passes: seconds in an
 * octet, squared 7     the newest query that waits is cancelled Properties: every query gets
 * exactly one reply or verdict unless cancelled, with its ID, question, opcode and RD; what is
 * sent is well formed and no larger than asked for; OPT is there when and only when it was
 * asked. */
#include <ev.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_upstream.h"
#include "core/clock.h"
#include "dns/build.h"
#include "fuzz.h"
#include "proxy.h"

enum { CLIENTS = 16 };

struct client {
    struct query query; /* first */
    bool waiting;
    uint8_t msg[512];
    size_t len;
};

static struct client clients[CLIENTS];
static size_t n_clients;

static void check_reply(const struct client *c, const struct query_reply *r)
{
    struct dns_query q;
    enum query_problem problem = query_parse(&q, c->msg, c->len);
    struct dns_reply got;
    size_t limit = DNS_MESSAGE_MAX;

    if (r->verdict == QUERY_MALFORMED) {
        CHECK(problem == QUERY_SHORT || problem == QUERY_RESPONSE);
        return;
    }
    CHECK(r->len >= DNS_HEADER_SIZE);
    CHECK(dns_read16(r->msg) == q.id);
    CHECK(r->msg[2] & 0x80);
    CHECK(((dns_read16(r->msg + 2) ^ q.flags) & (DNS_OPCODE | DNS_RD)) == 0);
    if (c->query.transport == QUERY_UDP) {
        limit = q.udp_size > DNS_UDP_SIZE ? DNS_UDP_SIZE : q.udp_size;
        limit = limit < DNS_UDP_CLASSIC ? DNS_UDP_CLASSIC : limit;
    }
    CHECK(r->len <= limit);
    if (problem != QUERY_OK || q.qclass != DNS_CLASS_IN)
        return;
    CHECK(reply_parse(&got, r->msg, r->len));
    CHECK(got.len == r->len);
    CHECK(got.qname_len == q.qname_len && memcmp(got.qname, q.qname, q.qname_len) == 0);
    CHECK(got.qtype == q.qtype);
    CHECK(got.has_opt == q.has_opt);
    CHECK(r->max_age_s <= reply_answer_ttl(&got));
}

static void on_reply(struct query *q, const struct query_reply *r)
{
    struct client *c = (struct client *)q;

    CHECK(c->waiting);
    c->waiting = false;
    check_reply(c, r);
}

static void step_query(struct proxy *p, enum query_transport t, const uint8_t *msg, size_t len)
{
    struct client *c;

    if (n_clients == CLIENTS)
        return;
    c = &clients[n_clients++];
    *c = (struct client){.waiting = true, .len = len};
    memcpy(c->msg, msg, len);
    c->query = (struct query){.msg = msg,
                              .msg_len = len,
                              .handler = proxy_handler(p),
                              .on_reply = on_reply,
                              .transport = t,
                              .client = {.family = ADDR_V4, .ip = {127, 0, 0, 1}}};
    query_submit(&c->query);
}

static size_t oldest_ask(void)
{
    size_t i = 0;

    while (i < fake_n_asks && !fake_asks[i].open)
        i++;
    return i;
}

/* A reply with the ask's question and whatever the input has behind it. */
static void step_reply(const uint8_t *rest, size_t len)
{
    static uint8_t msg[1024];
    struct dns_builder b;
    size_t i = oldest_ask();
    size_t n;

    if (i == fake_n_asks)
        return;
    build_start(&b, msg, sizeof msg, 1, 0x8180, fake_asks[i].qname, fake_asks[i].qname_len,
                fake_asks[i].qtype, DNS_CLASS_IN);
    n = build_finish(&b);
    if (len >= 4) {
        msg[3] = (uint8_t)(rest[0] & 0x2f);
        msg[7] = rest[1];
        msg[9] = rest[2];
        msg[11] = rest[3];
        memcpy(msg + n, rest + 4, len - 4);
        n += len - 4;
    }
    if (!fake_reply(i, msg, n, true))
        fake_fail(i, DNS_EDE_NETWORK_ERROR);
}

static void run_steps(struct proxy *p, const uint8_t *data, size_t size)
{
    while (size >= 2) {
        size_t len = data[1] < size - 2 ? data[1] : size - 2;

        switch (data[0] & 7) {
        case 4:
            step_reply(data + 2, len);
            break;
        case 5:
            if (oldest_ask() < fake_n_asks)
                fake_fail(oldest_ask(), DNS_EDE_NO_REACHABLE_AUTHORITY);
            break;
        case 6:
            clock_advance((uint64_t)data[1] * data[1] * 1000);
            len = 0;
            break;
        case 7:
            if (n_clients > 0 && clients[n_clients - 1].waiting) {
                query_cancel(&clients[n_clients - 1].query);
                clients[n_clients - 1].waiting = false;
            }
            len = 0;
            break;
        default:
            step_query(p, (enum query_transport)(data[0] & 3), data + 2, len);
        }
        data += 2 + len;
        size -= 2 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ev_loop *loop;
    static struct cache *cache;
    static struct cidr access = {.family = ADDR_V4, .ip = {127}, .prefix = 8};
    struct config config = {
        .refs = 1000,
        .access = {&access, 1},
        .max_ttl_s = 86400,
        .negative_max_ttl_s = 3600,
        .failure_ttl_s = 5,
        .prefetch = true,
        .stale_max_age_s = 86400,
        .stale_ttl_s = 30,
        .stale_client_timeout_ms = 1800,
        .ecs_ipv4_prefix = 24,
        .ecs_ipv6_prefix = 56,
        .limit_idle_ms = 30000,
    };
    struct proxy *p;

    if (size < 1)
        return 0;
    if (!loop) {
        loop = ev_loop_new(EVFLAG_AUTO);
        cache = cache_create(CACHE_MIN_BYTES);
    }
    config.ecs_mode = (enum ecs_mode)(data[0] & 3);
    n_clients = 0;
    fake_reset();
    cache_flush_all(cache);
    p = proxy_create(loop, &config, cache, NULL);
    CHECK(p);
    run_steps(p, data + 1, size - 1);
    while (oldest_ask() < fake_n_asks)
        fake_fail(oldest_ask(), DNS_EDE_NETWORK_ERROR);
    for (size_t i = 0; i < n_clients; i++)
        CHECK(!clients[i].waiting);
    proxy_destroy(p);
    return 0;
}
