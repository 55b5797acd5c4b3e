/* test_proxy.c - the query path from message to message, with the real cache and a fake
 * upstream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "fake_upstream.h"
#include "loopcheck.h"
#include "proxy.h"

struct client {
    struct query query; /* first */
    int replies;
    enum query_verdict verdict;
    uint8_t msg[DNS_MESSAGE_MAX];
    size_t len;
    uint32_t max_age_s;
    bool private_answer;
    struct dns_reply reply; /* of msg when it has a question */
    bool parsed;
};

struct fixture {
    struct ev_loop *loop;
    struct config config;
    struct cidr access[2];
    struct cache *cache;
    struct proxy *proxy;
    struct client *c;
};

static void on_reply(struct query *q, const struct query_reply *r)
{
    struct client *c = (struct client *)q;

    c->replies++;
    c->verdict = r->verdict;
    c->len = r->len;
    if (r->msg)
        memcpy(c->msg, r->msg, r->len);
    c->max_age_s = r->max_age_s;
    c->private_answer = r->private_answer;
    c->parsed = r->msg && reply_parse(&c->reply, c->msg, c->len);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct config *k = &f->config;

    fake_reset();
    k->refs = 1000; /* never freed: it is part of the fixture */
    cidr_parse(&f->access[0], "127.0.0.0/8");
    cidr_parse(&f->access[1], "2001:db8::/32");
    k->access = (struct cidr_list){f->access, 2};
    k->max_ttl_s = 86400;
    k->negative_max_ttl_s = 3600;
    k->failure_ttl_s = 5;
    k->prefetch = true;
    k->stale_max_age_s = 86400;
    k->stale_ttl_s = 30;
    k->stale_client_timeout_ms = 20;
    k->ecs_ipv4_prefix = 24;
    k->ecs_ipv6_prefix = 56;
    k->limit_idle_ms = 30000;
    f->loop = ev_loop_new(EVFLAG_AUTO);
    f->cache = cache_create(4 * 1024 * 1024);
    f->proxy = proxy_create(f->loop, k, f->cache, NULL);
    f->c = calloc(1, sizeof *f->c);
    assert_non_null(f->proxy);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    proxy_destroy(f->proxy);
    cache_destroy(f->cache);
    ev_loop_destroy(f->loop);
    free(f->c);
    free(f);
    return 0;
}

/* Another configuration takes effect. */
static void reload(struct fixture *f)
{
    assert_true(proxy_reload(f->proxy, &f->config));
}

struct ask {
    const char *name;
    uint16_t type;
    uint16_t flags; /* RD is added unless no_rd */
    bool no_rd, opt, dnssec_ok;
    uint16_t id;
    enum query_transport transport;
    const char *from;   /* 127.0.0.1 */
    const char *subnet; /* an ECS option: "192.0.2.0/24" */
    bool padding;
};

static size_t write_query(uint8_t *out, const struct ask *a)
{
    struct dns_builder b;
    uint8_t name[DNS_NAME_MAX];
    size_t name_len = name_from_text(name, a->name);
    size_t len;

    assert_true(name_len > 0);
    assert_true(build_start(&b, out, 1024, a->id,
                            (uint16_t)(a->flags | (a->no_rd ? 0 : DNS_RD)), name, name_len,
                            a->type, DNS_CLASS_IN));
    len = build_finish(&b);
    if (a->opt || a->dnssec_ok || a->subnet || a->padding) {
        uint8_t *opt = out + len;
        uint8_t *end = opt + edns_write(opt, 4096, 0, a->dnssec_ok ? 0x8000 : 0);

        if (a->subnet) {
            struct cidr c;
            struct ecs e = {0};
            uint8_t data[ECS_OPTION_MAX];

            assert_true(cidr_parse(&c, a->subnet));
            memcpy(e.ip, c.ip, sizeof e.ip);
            e.family = c.family;
            e.source = c.prefix;
            end = edns_add(opt, end, out + 1024, DNS_OPTION_ECS, data, ecs_write(&e, data));
        }
        if (a->padding)
            end = edns_add(opt, end, out + 1024, DNS_OPTION_PADDING, NULL, 0);
        out[11] = 1;
        len = (size_t)(end - out);
    }
    return len;
}

static void send_octets(struct fixture *f, struct client *c, const uint8_t *msg, size_t len,
                        const struct ask *a)
{
    struct addr from;

    assert_true(addr_parse(&from, a->from ? a->from : "127.0.0.1", 4000));
    *c = (struct client){.query = {.msg = msg,
                                   .msg_len = len,
                                   .handler = proxy_handler(f->proxy),
                                   .on_reply = on_reply,
                                   .client = from,
                                   .transport = a->transport}};
    query_submit(&c->query);
}

static void send_to(struct fixture *f, struct client *c, const struct ask *a)
{
    uint8_t msg[1024];
    size_t len = write_query(msg, a);

    send_octets(f, c, msg, len, a);
    memset(msg, 0xee, sizeof msg); /* nothing of it may be used later */
}

#define QUESTION(n, t, ...)                                                                    \
    {                                                                                          \
        .name = (n), .type = (t), ##__VA_ARGS__                                                \
    }
#define ASK(f, ...) send_to(f, (f)->c, &(struct ask)QUESTION(__VA_ARGS__))

struct record {
    enum dns_section section;
    uint16_t type;
    uint32_t ttl;
    const char *rdata;
    size_t rdata_len;
    const char *owner; /* NULL: the qname */
};

/* Answers ask i with these records. */
static bool answer(size_t i, uint16_t flags_rcode, const struct record *r, size_t n, int scope)
{
    uint8_t msg[4096];
    struct dns_builder b;
    struct fake_ask *a = &fake_asks[i];
    size_t len;

    build_start(&b, msg, sizeof msg, 77, (uint16_t)(DNS_QR | DNS_RA | flags_rcode), a->qname,
                a->qname_len, a->qtype, DNS_CLASS_IN);
    for (size_t k = 0; k < n; k++) {
        uint8_t owner[DNS_NAME_MAX];
        size_t owner_len = r[k].owner ? name_from_text(owner, r[k].owner) : 0;

        build_rr(&b, r[k].section, r[k].owner ? owner : NULL, owner_len, r[k].type,
                 DNS_CLASS_IN, r[k].ttl, (const uint8_t *)r[k].rdata, r[k].rdata_len);
    }
    len = build_finish(&b);
    if (scope >= 0) {
        uint8_t *opt = msg + len;
        uint8_t *end = opt + edns_write(opt, 1232, 0, 0);
        uint8_t data[ECS_OPTION_MAX];
        struct ecs e = a->subnet;

        e.scope = (uint8_t)scope;
        end = edns_add(opt, end, msg + sizeof msg, DNS_OPTION_ECS, data, ecs_write(&e, data));
        msg[11]++;
        len = (size_t)(end - msg);
    }
    return fake_reply(i, msg, len, true);
}

#define A1 "\xc0\0\2\1", 4
#define A2 "\xc0\0\2\2", 4
static bool answer_a(size_t i, uint32_t ttl)
{
    return answer(i, 0, &(struct record){DNS_ANSWER, RR_A, ttl, A1, NULL}, 1, -1);
}

static const char soa[] = "\x02ns\x07"
                          "example\0\x02hm\x07"
                          "example\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\x3c";
static bool answer_negative(size_t i, uint16_t rcode, uint32_t soa_ttl)
{
    return answer(
        i, rcode,
        &(struct record){DNS_AUTHORITY, RR_SOA, soa_ttl, soa, sizeof soa - 1, "example."}, 1,
        -1);
}

static uint32_t first_ttl(const struct client *c)
{
    struct dns_walk w;
    struct dns_rr rr;

    walk_start(&w, &c->reply);
    assert_true(walk_next(&w, &rr));
    return rr.ttl;
}

/* The nth extended error, -1 without. */
static int error_code(const struct client *c, size_t nth)
{
    for (size_t pos = 0; pos < c->reply.options_len;) {
        const uint8_t *p = c->reply.options + pos;

        if (dns_read16(p) == DNS_OPTION_EDE && nth-- == 0)
            return dns_read16(p + 4);
        pos += 4u + dns_read16(p + 2);
    }
    return -1;
}

/* ---- tests */

static void test_miss_then_hit(void **state)
{
    struct fixture *f = *state;

    ASK(f, "ExAmple.test", RR_A, .id = 0x1234);
    assert_int_equal(f->c->replies, 0);
    assert_int_equal(fake_n_asks, 1);
    assert_int_equal(proxy_in_flight(f->proxy), 1);
    assert_true(answer_a(0, 300));
    assert_int_equal(f->c->replies, 1);
    assert_int_equal(f->c->reply.id, 0x1234);
    assert_memory_equal(f->c->reply.qname,
                        "\x07"
                        "ExAmple\x04test",
                        14);
    assert_int_equal(f->c->max_age_s, 300);
    assert_int_equal(f->c->reply.flags, DNS_QR | DNS_RD | DNS_RA);
    assert_false(f->c->reply.has_opt);
    assert_int_equal(proxy_in_flight(f->proxy), 0);
    clock_advance(100 * 1000);
    ASK(f, "exAMPLE.test", RR_A, .id = 0);
    assert_int_equal(fake_n_asks, 1);
    assert_int_equal(f->c->replies, 1);
    assert_int_equal(f->c->reply.id, 0);
    assert_memory_equal(f->c->reply.qname,
                        "\x07"
                        "exAMPLE\x04test",
                        14);
    assert_in_range(first_ttl(f->c), 198, 200);
    assert_int_equal(f->c->max_age_s, first_ttl(f->c));
    ASK(f, "example.test", RR_A, .opt = true);
    assert_true(f->c->reply.has_opt);
    assert_int_equal(fake_n_asks, 1);
}

static void test_coalesce(void **state)
{
    enum { N = 100 };
    struct fixture *f = *state;
    struct client *c = calloc(N, sizeof *c);

    for (uint16_t i = 0; i < N; i++)
        send_to(f, &c[i],
                &(struct ask)QUESTION(i % 2 ? "one.test" : "ONE.test", RR_A, .id = i));
    assert_int_equal(fake_n_asks, 1);
    for (int i = 0; i < N; i += 3)
        query_cancel(&c[i].query);
    assert_true(answer_a(0, 300));
    for (uint16_t i = 0; i < N; i++) {
        assert_int_equal(c[i].replies, i % 3 == 0 ? 0 : 1);
        if (c[i].replies) {
            assert_int_equal(c[i].reply.id, i);
            assert_memory_equal(c[i].reply.qname, i % 2 ? "\x03one" : "\x03ONE", 4);
        }
    }
    assert_int_equal(proxy_in_flight(f->proxy), 0);
    /* DO, CD and types are other questions. */
    ASK(f, "one.test", RR_AAAA);
    send_to(f, &c[0], &(struct ask)QUESTION("one.test", RR_A, .dnssec_ok = true));
    send_to(f, &c[1], &(struct ask)QUESTION("one.test", RR_A, .flags = DNS_CD));
    assert_int_equal(fake_n_asks, 4);
    assert_true(fake_asks[2].dnssec_ok && !fake_asks[2].checking_disabled);
    assert_true(fake_asks[3].checking_disabled);
    proxy_destroy(f->proxy); /* with queries in flight */
    assert_int_equal(fake_open, 0);
    f->proxy = proxy_create(f->loop, &f->config, f->cache, NULL);
    free(c);
}

static void test_policy(void **state)
{
    static const struct {
        struct ask ask;
        uint16_t rcode;
        int ede;
    } rows[] = {
        {QUESTION("x.test", RR_A, .from = "192.0.2.1", .opt = true), DNS_RCODE_REFUSED,
         DNS_EDE_PROHIBITED},
        {QUESTION("x.test", RR_A, .from = "2001:db9::1"), DNS_RCODE_REFUSED, -1},
        {QUESTION("x.test", RR_AXFR), DNS_RCODE_NOTIMP, -1},
        {QUESTION("x.test", RR_IXFR), DNS_RCODE_NOTIMP, -1},
        {QUESTION("x.test", RR_TKEY), DNS_RCODE_NOTIMP, -1},
        {QUESTION("x.test", RR_TSIG), DNS_RCODE_NOTIMP, -1},
        {QUESTION("x.test", RR_ANY), DNS_RCODE_NOERROR, -1},
        {QUESTION("x.test", RR_A, .no_rd = true), DNS_RCODE_REFUSED, -1},
        {QUESTION("x.test", RR_A, .flags = 0x1000), DNS_RCODE_NOTIMP, -1},
        {QUESTION("x.test", RR_A, .flags = 0x1000, .opt = true), DNS_RCODE_NOTIMP, -1},
        {QUESTION("LOCALHOST", RR_A), DNS_RCODE_NOERROR, -1},
        {QUESTION("a.invalid", RR_A), DNS_RCODE_NXDOMAIN, -1},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        send_to(f, f->c, &rows[i].ask);
        assert_int_equal(f->c->replies, 1);
        assert_int_equal(f->c->msg[3] & 15, rows[i].rcode);
        assert_int_equal(f->c->msg[2] & 0x79, (rows[i].ask.flags >> 8) | !rows[i].ask.no_rd);
        assert_int_equal(f->c->msg[11], rows[i].ask.opt);
        if (f->c->parsed) /* not with another opcode */
            assert_int_equal(error_code(f->c, 0), rows[i].ede);
    }
    assert_int_equal(fake_n_asks, 0);
}

static void test_malformed(void **state)
{
    static const uint8_t response[] = "\0\1\x81\x80\0\1\0\0\0\0\0\0\1a\0\0\1\0";
    static const uint8_t chaos[] = "\0\1\1\0\0\1\0\0\0\0\0\0\7version\4bind\0\0\x10\0\3";
    static const uint8_t none[] = "\0\1\1\0\0\0\0\0\0\0\0\0";
    struct fixture *f = *state;
    struct ask a = {0};

    for (size_t len = 0; len < 12; len++) {
        send_octets(f, f->c, response, len, &a);
        assert_int_equal(f->c->replies, 1);
        assert_int_equal(f->c->verdict, QUERY_MALFORMED);
    }
    send_octets(f, f->c, response, sizeof response - 1, &a);
    assert_int_equal(f->c->verdict, QUERY_MALFORMED);
    send_octets(f, f->c, chaos, sizeof chaos - 1, &a);
    assert_int_equal(f->c->msg[3] & 15, DNS_RCODE_REFUSED);
    assert_int_equal(f->c->len, sizeof chaos - 1);
    send_octets(f, f->c, none, sizeof none - 1, &a);
    assert_int_equal(f->c->msg[3] & 15, DNS_RCODE_FORMERR);
    assert_int_equal(f->c->len, 12);
}

static void test_negative(void **state)
{
    struct fixture *f = *state;

    ASK(f, "no.example", RR_A);
    assert_true(answer_negative(0, DNS_RCODE_NXDOMAIN, 3600));
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_NXDOMAIN);
    assert_int_equal(f->c->max_age_s, 60);
    assert_int_equal(first_ttl(f->c), 60);
    clock_advance(20 * 1000);
    ASK(f, "no.example", RR_A);
    assert_int_equal(fake_n_asks, 1);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_NXDOMAIN);
    assert_int_equal(f->c->reply.count[DNS_AUTHORITY], 1);
    assert_in_range(first_ttl(f->c), 39, 40);
    assert_in_range(f->c->max_age_s, 39, 40);
    clock_advance(41 * 1000);
    ASK(f, "no.example", RR_A);
    assert_int_equal(fake_n_asks, 2);
    assert_true(
        answer_negative(1, DNS_RCODE_NXDOMAIN, 10)); /* the SOA's TTL is the smaller one */
    assert_int_equal(first_ttl(f->c), 10);
    /* Without SOA: answered, not kept. */
    ASK(f, "nosoa.example", RR_A);
    assert_true(answer(2, DNS_RCODE_NXDOMAIN, NULL, 0, -1));
    assert_int_equal(f->c->max_age_s, 0);
    ASK(f, "nosoa.example", RR_A);
    assert_int_equal(fake_n_asks, 4);
}

static void test_ttls(void **state)
{
    struct fixture *f = *state;

    ASK(f, "top.test", RR_A);
    assert_true(answer_a(0, 0x80000001));
    assert_int_equal(first_ttl(f->c), 86400);
    ASK(f, "zero.test", RR_A);
    assert_true(answer_a(1, 0));
    assert_int_equal(first_ttl(f->c), 0);
    assert_int_equal(f->c->max_age_s, 0);
    ASK(f, "zero.test", RR_A);
    assert_int_equal(fake_n_asks, 3);
    f->config.min_ttl_s = 60;
    f->config.max_ttl_s = 120;
    reload(f);
    ASK(f, "low.test", RR_A);
    assert_true(answer_a(3, 5));
    assert_int_equal(first_ttl(f->c), 60);
    ASK(f, "high.test", RR_A);
    assert_true(answer_a(4, 5000));
    assert_int_equal(first_ttl(f->c), 120);
}

static void test_authentic(void **state)
{
    struct fixture *f = *state;
    struct record r = {DNS_ANSWER, RR_A, 300, A1, NULL};

    ASK(f, "ad.test", RR_A);
    assert_true(answer(0, DNS_AD, &r, 1, -1));
    assert_false(f->c->reply.flags & DNS_AD);
    ASK(f, "ad.test", RR_A, .flags = DNS_AD);
    assert_true(f->c->reply.flags & DNS_AD);
    ASK(f, "ad.test", RR_A);
    assert_false(f->c->reply.flags & DNS_AD);
    assert_int_equal(fake_n_asks, 1);
}

static void test_rrsig_only_for_do(void **state)
{
    static const char sig[] = "\0\1\x0d\2\0\0\1\x2c\0\0\0\1\0\0\0\1\0\1\4test\0xxxx";
    struct fixture *f = *state;
    struct record r[] = {{DNS_ANSWER, RR_A, 300, A1, NULL},
                         {DNS_ANSWER, RR_RRSIG, 300, sig, sizeof sig - 1, NULL}};

    ASK(f, "sig.test", RR_A);
    assert_true(answer(0, 0, r, 2, -1));
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 1);
    ASK(f, "sig.test", RR_A, .dnssec_ok = true);
    assert_true(answer(1, 0, r, 2, -1));
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 2);
    assert_int_equal(f->c->reply.ext_flags, 0x8000);
    ASK(f, "sig.test", RR_A);
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 1);
    ASK(f, "sig.test", RR_RRSIG); /* asked for by type */
    assert_true(answer(2, 0, r + 1, 1, -1));
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 1);
}

static void test_failure_is_kept(void **state)
{
    struct fixture *f = *state;

    ASK(f, "down.test", RR_A, .opt = true);
    fake_fail(0, DNS_EDE_NO_REACHABLE_AUTHORITY);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_NO_REACHABLE_AUTHORITY);
    assert_int_equal(f->c->max_age_s, 0);
    ASK(f, "down.test", RR_A, .opt = true);
    assert_int_equal(fake_n_asks, 1);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_CACHED_ERROR);
    assert_int_equal(error_code(f->c, 1), DNS_EDE_NO_REACHABLE_AUTHORITY);
    clock_advance(6 * 1000);
    ASK(f, "down.test", RR_A);
    assert_int_equal(fake_n_asks, 2);
    fake_fail(1, DNS_EDE_NETWORK_ERROR);
    fake_recover();
    ASK(f, "down.test", RR_A);
    assert_int_equal(fake_n_asks, 3);
    assert_true(answer_a(2, 60));
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_NOERROR);
}

/* Every way to a stale answer and out of it (RFC 8767). */
static void test_stale(void **state)
{
    struct fixture *f = *state;

    ASK(f, "old.test", RR_A);
    assert_true(answer_a(0, 5));
    clock_advance(10 * 1000);
    /* upstream answers in time: fresh */
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(f->c->replies, 0);
    assert_true(answer_a(1, 5));
    assert_int_equal(first_ttl(f->c), 5);
    assert_int_equal(error_code(f->c, 0), -1);
    clock_advance(10 * 1000);
    /* upstream is slow: stale after client-timeout, and the late answer still refreshes */
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(f->c->replies, 0);
    while (f->c->replies == 0)
        ev_run(f->loop, EVRUN_ONCE);
    assert_int_equal(first_ttl(f->c), 30);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    assert_int_equal(f->c->max_age_s, 30);
    assert_true(answer_a(2, 5));
    assert_int_equal(f->c->replies, 1);
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(fake_n_asks, 3);
    assert_int_equal(error_code(f->c, 0), -1);
    clock_advance(10 * 1000);
    /* upstream fails: stale at once, and for a while nobody asks again */
    ASK(f, "old.test", RR_A, .opt = true);
    fake_fail(3, DNS_EDE_NETWORK_ERROR);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_NOERROR);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(fake_n_asks, 4);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    /* it comes back: asked at once */
    fake_recover();
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(fake_n_asks, 5);
    assert_true(answer_a(4, 5));
    assert_int_equal(error_code(f->c, 0), -1);
    /* no upstream is well: stale at once, one ask in the background */
    clock_advance(10 * 1000);
    fake_well = false;
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(f->c->replies, 1);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    assert_int_equal(fake_n_asks, 6);
    fake_fail(5, DNS_EDE_NETWORK_ERROR);
    /* too old is no answer */
    clock_advance(86500ull * 1000);
    ASK(f, "old.test", RR_A, .opt = true);
    assert_int_equal(f->c->replies, 0);
    fake_fail(6, DNS_EDE_NETWORK_ERROR);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
}

static void test_stale_then_zero_ttl(void **state)
{
    struct fixture *f = *state;

    ASK(f, "nx.example", RR_A);
    assert_true(answer_negative(0, DNS_RCODE_NXDOMAIN, 5));
    clock_advance(10 * 1000);
    ASK(f, "nx.example", RR_A, .opt = true);
    fake_fail(1, DNS_EDE_NETWORK_ERROR);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE_NXDOMAIN);
    fake_recover();
    ASK(f, "nx.example", RR_A, .opt = true);
    assert_true(answer_a(2, 0));
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_NOERROR);
    /* The NXDOMAIN is gone for good, though the new answer was not kept. */
    ASK(f, "nx.example", RR_A, .opt = true);
    fake_fail(3, DNS_EDE_NETWORK_ERROR);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
}

static void test_prefetch(void **state)
{
    struct fixture *f = *state;

    ASK(f, "hot.test", RR_A);
    assert_true(answer_a(0, 100));
    ASK(f, "hot.test", RR_A);
    clock_advance(80 * 1000);
    ASK(f, "hot.test", RR_A);
    assert_int_equal(fake_n_asks, 1);
    clock_advance(15 * 1000);
    ASK(f, "hot.test", RR_A);
    assert_int_equal(f->c->replies, 1);
    assert_int_equal(fake_n_asks, 2);
    ASK(f, "hot.test", RR_A);
    assert_int_equal(fake_n_asks, 2);
    assert_true(answer_a(1, 100));
    ASK(f, "hot.test", RR_A);
    assert_in_range(first_ttl(f->c), 99, 100);
}

/* Who does not want recursion makes none, and is in nobody's way who does. */
static void test_no_recursion(void **state)
{
    struct fixture *f = *state;

    ASK(f, "some.test", RR_A);
    assert_true(answer_a(0, 100));
    ASK(f, "some.test", RR_A);
    clock_advance(95 * 1000);
    ASK(f, "some.test", RR_A, .no_rd = true);
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 1);
    assert_int_equal(fake_n_asks, 1);
    ASK(f, "some.test", RR_A);
    assert_int_equal(fake_n_asks, 2);
    assert_true(answer_a(1, 100));
    clock_advance(110 * 1000);
    fake_well = false;
    ASK(f, "some.test", RR_A, .no_rd = true);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_REFUSED);
    ASK(f, "some.test", RR_A, .opt = true);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    assert_int_equal(fake_n_asks, 3);
    /* Nobody waited for this failure; it puts off the next ask all the same. */
    fake_fail(2, DNS_EDE_NETWORK_ERROR);
    ASK(f, "some.test", RR_A, .opt = true);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_STALE);
    assert_int_equal(fake_n_asks, 3);
    clock_advance(CACHE_REFRESH_S * 1000);
    ASK(f, "some.test", RR_A, .opt = true);
    assert_int_equal(fake_n_asks, 4);
}

static void test_subnet_modes(void **state)
{
    static const struct {
        enum ecs_mode mode;
        const char *from, *option;
        const char *sent; /* NULL: none */
        bool private_answer;
    } rows[] = {
        {ECS_OFF, "127.0.0.1", "192.0.2.0/24", NULL, false},
        {ECS_OFF, "127.0.0.1", NULL, NULL, false},
        {ECS_PRIVATE, "127.0.0.1", NULL, "0.0.0.0/0", false},
        {ECS_PRIVATE, "127.0.0.1", "192.0.2.0/24", "0.0.0.0/0", false},
        {ECS_FORWARD, "127.0.0.1", NULL, NULL, false},
        {ECS_FORWARD, "127.0.0.1", "192.0.2.77/32", "192.0.2.0/24", false},
        {ECS_FORWARD, "127.0.0.1", "192.0.0.0/16", "192.0.0.0/16", false},
        {ECS_FORWARD, "127.0.0.1", "0.0.0.0/0", "0.0.0.0/0", false},
        {ECS_FORWARD, "127.0.0.1", "2001:db8:1:2ff::/64", "2001:db8:1:200::/56", false},
        {ECS_CLIENT, "127.3.4.5", NULL, "127.3.4.0/24", true},
        {ECS_CLIENT, "2001:db8:1:2ff::9", NULL, "2001:db8:1:200::/56", true},
        {ECS_CLIENT, "127.3.4.5", "0.0.0.0/0", "0.0.0.0/0", false},
        {ECS_CLIENT, "127.3.4.5", "192.0.2.0/24", "192.0.2.0/24", false},
    };
    struct fixture *f = *state;
    struct record r = {DNS_ANSWER, RR_A, 300, A1, NULL};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct fake_ask *asked = &fake_asks[0];
        struct cidr sent;
        const uint8_t *echo;
        size_t len;

        fake_reset();
        cache_flush_all(f->cache);
        f->config.ecs_mode = rows[i].mode;
        reload(f);
        ASK(f, "net.test", RR_A, .from = rows[i].from, .subnet = rows[i].option, .opt = true);
        assert_int_equal(fake_n_asks, 1);
        assert_int_equal(asked->has_subnet, rows[i].sent != NULL);
        if (rows[i].sent) {
            assert_true(cidr_parse(&sent, rows[i].sent));
            assert_int_equal(asked->subnet.family, sent.family);
            assert_int_equal(asked->subnet.source, sent.prefix);
            assert_memory_equal(asked->subnet.ip, sent.ip, 16);
        }
        assert_true(answer(0, 0, &r, 1, rows[i].sent ? 16 : -1));
        assert_int_equal(f->c->replies, 1);
        assert_int_equal(f->c->private_answer, rows[i].private_answer);
        echo = edns_option(f->c->reply.options, f->c->reply.options_len, DNS_OPTION_ECS, &len);
        assert_int_equal(echo != NULL, rows[i].option && rows[i].mode != ECS_OFF);
        if (echo) { /* as asked, with the scope that was used */
            assert_true(cidr_parse(&sent, rows[i].option));
            assert_int_equal(echo[2], sent.prefix);
            assert_int_equal(echo[3], sent.prefix && rows[i].mode != ECS_PRIVATE ? 16 : 0);
        }
    }
}

static void test_subnets_apart(void **state)
{
    struct fixture *f = *state;
    struct client *other = calloc(1, sizeof *other);
    struct record one = {DNS_ANSWER, RR_A, 300, A1, NULL},
                  two = {DNS_ANSWER, RR_A, 300, A2, NULL};

    f->config.ecs_mode = ECS_FORWARD;
    reload(f);
    ASK(f, "geo.test", RR_A, .subnet = "192.0.2.0/24");
    send_to(f, other, &(struct ask)QUESTION("geo.test", RR_A, .subnet = "198.51.100.0/24"));
    assert_int_equal(fake_n_asks, 2); /* only equal subnets share an ask */
    assert_true(answer(1, 0, &two, 1, 24));
    assert_int_equal(f->c->replies, 0);
    assert_true(answer(0, 0, &one, 1, 24));
    assert_int_equal(f->c->msg[f->c->reply.section[DNS_AUTHORITY] - 1], 1);
    assert_int_equal(other->msg[other->reply.section[DNS_AUTHORITY] - 1], 2);
    ASK(f, "geo.test", RR_A, .subnet = "192.0.2.99/32");
    assert_int_equal(fake_n_asks, 2);
    assert_int_equal(f->c->msg[f->c->reply.section[DNS_AUTHORITY] - 1], 1);
    ASK(f, "geo.test", RR_A);
    assert_int_equal(fake_n_asks, 3);
    assert_false(fake_asks[2].has_subnet);
    assert_true(answer(2, 0, &two, 1, -1));
    /* What was got without a subnet is not given to one, until upstream says it is for all. */
    ASK(f, "geo.test", RR_A, .subnet = "203.0.113.0/24");
    assert_int_equal(fake_n_asks, 4);
    assert_true(answer(3, 0, &one, 1, 0));
    ASK(f, "geo.test", RR_A, .subnet = "203.0.112.0/24");
    assert_int_equal(fake_n_asks, 4);
    assert_int_equal(f->c->msg[f->c->reply.section[DNS_AUTHORITY] - 1], 1);
    ASK(f, "geo.test", RR_A);
    assert_int_equal(fake_n_asks, 4);
    free(other);
}

/* Records of names that the question does not lead to are not passed on. */
static void test_strays(void **state)
{
    static const char to_two[] = "\x03two\x04test", to_three[] = "\x05three\x04test";
    struct fixture *f = *state;
    struct record r[] = {
        {DNS_ANSWER, RR_CNAME, 300, to_three, sizeof to_three, "two.test."},
        {DNS_ANSWER, RR_A, 300, A1, "stranger.test."},
        {DNS_ANSWER, RR_CNAME, 300, to_two, sizeof to_two, NULL},
        {DNS_ANSWER, RR_A, 300, A2, "three.test."},
    };

    ASK(f, "one.test", RR_A);
    assert_true(answer(0, 0, r, 4, -1));
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 3);
    assert_int_equal(f->c->msg[f->c->reply.section[DNS_AUTHORITY] - 1], 2);
    /* Nothing else: no data, and without SOA nothing to keep. */
    ASK(f, "four.test", RR_A);
    assert_true(answer(1, 0, &r[1], 1, -1));
    assert_int_equal(f->c->reply.count[DNS_ANSWER], 0);
    assert_int_equal(f->c->max_age_s, 0);
    ASK(f, "four.test", RR_A);
    assert_int_equal(fake_n_asks, 3);
}

/* Upstream's words are cut between characters. */
static void test_error_text(void **state)
{
    struct fixture *f = *state;
    static const char euro[] = "\xe2\x82\xac";

    for (size_t head = 58; head <= 64; head++) {
        uint8_t msg[512], data[2 + 80] = {0, DNS_EDE_BLOCKED};
        struct dns_builder b;
        uint8_t *opt;
        const uint8_t *got;
        size_t len, i = fake_n_asks;
        char name[32];

        snprintf(name, sizeof name, "x%zu.test", head);
        ASK(f, name, RR_A, .opt = true);
        build_start(&b, msg, sizeof msg, 77, DNS_QR | DNS_RA | DNS_RCODE_NXDOMAIN,
                    fake_asks[i].qname, fake_asks[i].qname_len, RR_A, DNS_CLASS_IN);
        opt = msg + build_finish(&b);
        memset(data + 2, 'x', head);
        memcpy(data + 2 + head, euro, 3);
        edns_write(opt, 1232, 0, 0);
        len = (size_t)(edns_add(opt, opt + DNS_OPT_FIXED, msg + sizeof msg, DNS_OPTION_EDE,
                                data, 2 + head + 3) -
                       msg);
        msg[11] = 1;
        assert_true(fake_reply(i, msg, len, true));
        got = edns_option(f->c->reply.options, f->c->reply.options_len, DNS_OPTION_EDE, &len);
        assert_non_null(got);
        assert_int_equal(len, 2 + (head + 3 <= 63 ? head + 3 : head <= 63 ? head : 63));
        assert_memory_equal(got, data, len);
    }
}

/* A reply about another subnet is dropped, not cached (RFC 7871 11.2). */
static void test_wrong_subnet(void **state)
{
    struct fixture *f = *state;
    struct record r = {DNS_ANSWER, RR_A, 300, A1, NULL};

    f->config.ecs_mode = ECS_FORWARD;
    reload(f);
    ASK(f, "geo.test", RR_A, .subnet = "192.0.2.0/24");
    fake_asks[0].subnet.ip[2] ^= 1;
    assert_true(answer(0, 0, &r, 1, 24));
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
}

static void test_padding(void **state)
{
    static const struct {
        enum query_transport transport;
        bool asked, padded;
    } rows[] = {{QUERY_DOT, true, true},
                {QUERY_DOH, true, true},
                {QUERY_UDP, true, false},
                {QUERY_TCP, true, false},
                {QUERY_DOT, false, false}};
    struct fixture *f = *state;

    ASK(f, "pad.test", RR_A);
    assert_true(answer_a(0, 300));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ASK(f, "pad.test", RR_A, .transport = rows[i].transport, .padding = rows[i].asked,
            .opt = true);
        assert_int_equal(f->c->len % 468 == 0, rows[i].padded);
    }
}

/* The name of a probe that comes back is answered here and noted. */
static void test_loop(void **state)
{
    struct fixture *f = *state;
    uint8_t name[DNS_NAME_MAX];
    char text[NAME_TEXT_SIZE];
    size_t len = loopcheck_name(name, 7);

    ASK(f, name_to_text(name, len, text), RR_NS);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_REFUSED);
    assert_int_equal(fake_n_asks, 0);
    assert_true(loopcheck_seen_ms(7) > 0);
    assert_int_equal(loopcheck_seen_ms(6), 0);
    text[20] ^= 1; /* another secret */
    ASK(f, text, RR_NS);
    assert_int_equal(fake_n_asks, 1);
}

static void test_overload(void **state)
{
    struct fixture *f = *state;

    fake_full = true;
    ASK(f, "full.test", RR_A, .opt = true);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_SERVFAIL);
    assert_int_equal(error_code(f->c, 0), DNS_EDE_OTHER);
}

static void test_rate(void **state)
{
    struct fixture *f = *state;
    int limited = 0;

    f->config.rate_queries = 10;
    f->config.rate_burst = 20;
    reload(f);
    for (int i = 0; i < 30; i++) {
        ASK(f, "localhost", RR_A, .from = "127.7.7.7", .opt = true);
        limited += f->c->verdict == QUERY_LIMITED;
    }
    assert_in_range(limited, 8, 10);
    assert_int_equal(f->c->reply.rcode, DNS_RCODE_REFUSED);
    ASK(f, "localhost", RR_A, .from = "127.7.7.8");
    assert_int_equal(f->c->verdict, QUERY_ANSWER);
    clock_advance(1000);
    ASK(f, "localhost", RR_A, .from = "127.7.7.7");
    assert_int_equal(f->c->verdict, QUERY_ANSWER);
}

/* What is malformed in any way costs as much as what is not, and is refused as that is. */
static void test_rate_of_malformed(void **state)
{
    static const struct {
        const char *msg;
        size_t len;
        bool is_due; /* an answer */
    } rows[] = {
        {"\0\1\1\0\0\0\0\0\0\0\0\0", 12, true},                            /* no question */
        {"\0\1\x21\0\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", 19, true},             /* opcode */
        {"\0\1\1\0\0\1\0\0\0\0\0\0\7version\4bind\0\0\x10\0\3", 30, true}, /* class */
        {"\0\1\1\0\0\1\0\0\0\0\0\0\x3f", 13, true},                        /* a name cut off */
        {"\0\1\1\0", 4, false},
        {"\0\1\x81\x80\0\1\0\0\0\0\0\0\1a\0\0\1\0\1", 19, false}, /* a response */
    };
    struct fixture *f = *state;

    f->config.rate_queries = 1;
    f->config.rate_burst = 20;
    reload(f);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char from[32];
        struct ask a = {.from = from};

        snprintf(from, sizeof from, "127.8.8.%u", i + 1);
        for (int k = 0; k < 20; k++) {
            send_octets(f, f->c, (const uint8_t *)rows[i].msg, rows[i].len, &a);
            assert_int_equal(f->c->verdict, rows[i].is_due ? QUERY_ANSWER : QUERY_MALFORMED);
        }
        send_octets(f, f->c, (const uint8_t *)rows[i].msg, rows[i].len, &a);
        assert_int_equal(f->c->verdict, rows[i].is_due ? QUERY_LIMITED : QUERY_MALFORMED);
        if (rows[i].is_due)
            assert_int_equal(f->c->msg[3] & 15, DNS_RCODE_REFUSED);
        ASK(f, "localhost", RR_A, .from = from);
        assert_int_equal(f->c->verdict, QUERY_LIMITED);
    }
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_miss_then_hit),
        T(test_coalesce),
        T(test_policy),
        T(test_malformed),
        T(test_negative),
        T(test_ttls),
        T(test_authentic),
        T(test_rrsig_only_for_do),
        T(test_failure_is_kept),
        T(test_stale),
        T(test_stale_then_zero_ttl),
        T(test_prefetch),
        T(test_no_recursion),
        T(test_subnet_modes),
        T(test_subnets_apart),
        T(test_strays),
        T(test_error_text),
        T(test_wrong_subnet),
        T(test_padding),
        T(test_loop),
        T(test_overload),
        T(test_rate),
        T(test_rate_of_malformed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
