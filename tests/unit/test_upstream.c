/* test_upstream.c - the upstream set against scripted upstreams: what is sent, what comes back,
 * choice by name and policy, life of asks, reload, certificates. How upstreams misbehave:
 * test_upstream_matrix.c. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clock.h"
#include "core/log.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "upstream_client.h"

#define POLICY(p) "upstream: { policy: " p " }\n"
#define QUICK(p) "upstream: { policy: " p ", timeout: 400ms, tries: 3, deadline: 1500ms }\n"

enum {
    ATTEMPTS =
        4, /* of all tests, when the machine was too busy for time-outs to mean what they say */
    BUSY_MS = 40,
};

static const enum fake_transport transports[] = {FAKE_UDP, FAKE_TCP, FAKE_TLS};

/* A client of n scripted upstreams. */
struct scene {
    struct fake *fake[4];
    struct client client;
};

static void set_up(struct scene *s, enum fake_transport t, int n, const char *head)
{
    char yaml[2048], line[384];
    memset(s, 0, sizeof *s);
    snprintf(yaml, sizeof yaml, "%supstreams:\n", head);
    for (int i = 0; i < n; i++) {
        s->fake[i] = fake_start(t, 0);
        strcat(yaml, client_line(line, sizeof line, t, fake_port(s->fake[i]), ""));
    }
    client_open(&s->client, yaml);
}

static void tear_down(struct scene *s)
{
    client_close(&s->client);
    for (int i = 0; i < 4; i++)
        fake_stop(s->fake[i]);
}

static void expect_answer(struct client *c, const char *name)
{
    struct outcome o = {0};
    client_resolve(c, &o, name);
    if (!o.answered)
        print_message("%s: EDE %u %s\n", name, o.ede, o.text);
    assert_true(o.answered);
    assert_int_equal(o.rcode, 0);
}

/* ---- what is sent */

static unsigned open_asks;
static size_t got_len;
static uint8_t got[4096];
static bool got_reply;

static void take(void *arg, const struct upstream_answer *answer)
{
    struct client *c = arg;
    got_reply = answer->reply != NULL;
    got_len = got_reply ? answer->reply->len : 0;
    if (got_reply)
        memcpy(got, answer->reply->msg, got_len);
    if (--open_asks == 0)
        ev_break(c->loop, EVBREAK_ALL);
}

static void ask_raw(struct scene *s, const struct upstream_question *q)
{
    open_asks = 1;
    assert_non_null(upstream_ask(s->client.set, q, take, &s->client));
    client_run(&s->client, &open_asks, 10000);
    assert_int_equal(open_asks, 0);
}

static size_t random_name(uint8_t *name, uint32_t *x)
{
    size_t len = 0;
    while (len < 180) {
        *x = *x * 1103515245 + 12345;
        size_t label = 1 + (*x >> 16) % 63;
        name[len++] = (uint8_t)label;
        for (size_t i = 0; i < label; i++) {
            *x = *x * 1103515245 + 12345;
            name[len++] = (uint8_t)(*x >> 16);
        }
    }
    name[len++] = 0;
    return len;
}

/* Any octet in a label, the root, 255 octets: sent and come back as they are. */
static void names_arrive_exactly(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        uint8_t name[DNS_NAME_MAX], sent[4096];
        uint32_t x = 1;
        set_up(&s, transports[t], 1, POLICY("ordered"));
        for (int i = 0; i < 60; i++) {
            size_t len = random_name(name, &x);
            if (i == 0)
                len = name_from_text(name, ".");
            if (i == 1) { /* 63 + 63 + 63 + 61 and their lengths */
                memset(name, 'x', sizeof name);
                name[0] = name[64] = name[128] = 63;
                name[192] = 61;
                name[254] = 0;
                len = 255;
            }
            struct upstream_question q = {.qname = name, .qname_len = len, .qtype = RR_TXT};
            ask_raw(&s, &q);
            assert_true(got_reply);
            assert_memory_equal(got + DNS_HEADER_SIZE, name, len);
            size_t n = fake_last_query(s.fake[0], sent, sizeof sent);
            assert_true(n > DNS_HEADER_SIZE + len + 4);
            assert_true(name_equal(sent + DNS_HEADER_SIZE, len, name, len));
            assert_int_equal(dns_read16(sent + DNS_HEADER_SIZE + len), RR_TXT);
        }
        tear_down(&s);
    }
}

static void flags_and_options_are_sent(void **state)
{
    (void)state;
    const struct ecs subnets[] = {
        {.ip = {198, 51, 100}, .family = ADDR_V4, .source = 24, .scope = 24},
        {.ip = {0x20, 1, 0xd, 0xb8, 0, 1}, .family = ADDR_V6, .source = 56},
        {.family = ADDR_V4, .source = 0},
    };
    const uint8_t name[] = "\7example";
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        set_up(&s, transports[t], 1, POLICY("ordered"));
        for (int i = 0; i < 16; i++) {
            struct upstream_question q = {
                .qname = name,
                .qname_len = sizeof name,
                .qtype = RR_A,
                .dnssec_ok = i & 1,
                .checking_disabled = i & 2,
                .subnet = i >> 2 ? &subnets[(i >> 2) - 1] : NULL,
            };
            uint8_t sent[4096];
            struct dns_query seen;
            ask_raw(&s, &q);
            assert_true(got_reply);
            size_t n = fake_last_query(s.fake[0], sent, sizeof sent);
            assert_int_equal(query_parse(&seen, sent, n), QUERY_OK);
            assert_int_equal(seen.flags & (DNS_RD | DNS_AD | DNS_CD | DNS_OPCODE),
                             DNS_RD | DNS_AD | (i & 2 ? DNS_CD : 0));
            assert_true(seen.has_opt);
            assert_int_equal(seen.edns_version, 0);
            assert_true(seen.udp_size == (t == 0 ? 1232 : 65535));
            assert_int_equal(query_do(&seen), i & 1);
            if (transports[t] == FAKE_TLS)
                assert_int_equal(n % 128, 0); /* RFC 8467 4.1 */
            size_t len = 0;
            const uint8_t *option =
                edns_option(seen.options, seen.options_len, DNS_OPTION_ECS, &len);
            struct ecs subnet;
            if (!q.subnet) {
                assert_null(option);
                continue;
            }
            assert_non_null(option);
            assert_true(ecs_parse(&subnet, option, len));
            assert_true(ecs_equal(&subnet, q.subnet));
            assert_int_equal(subnet.scope, 0);
        }
        tear_down(&s);
    }
}

/* Over UDP the case is mixed; what comes back is as asked. */
static void case_is_mixed_and_restored(void **state)
{
    (void)state;
    struct scene s;
    const char text[] = "AbCdEfGhIjKlMnOpQrStUvWxYz.Example.";
    uint8_t name[DNS_NAME_MAX], sent[4096];
    bool mixed = false;
    struct upstream_question q = {.qname = name, .qtype = RR_A};
    q.qname_len = name_from_text(name, text);
    set_up(&s, FAKE_UDP, 1, POLICY("ordered"));
    for (int i = 0; i < 4; i++) {
        ask_raw(&s, &q);
        assert_true(got_reply);
        assert_memory_equal(got + DNS_HEADER_SIZE, name, q.qname_len);
        fake_last_query(s.fake[0], sent, sizeof sent);
        mixed |= memcmp(sent + DNS_HEADER_SIZE, name, q.qname_len) != 0;
    }
    assert_true(mixed);
    tear_down(&s);
}

/* A reply whose case is off is asked for again over TCP, and then the server is known for it.
 */
static void lower_case_servers_work(void **state)
{
    (void)state;
    struct scene s;
    set_up(&s, FAKE_UDP, 1, POLICY("ordered"));
    fake_set(s.fake[0], FAKE_LOWER);
    expect_answer(&s.client, "Some.Name.Example.");
    assert_int_equal(fake_queries(s.fake[0]), 2);
    expect_answer(&s.client, "Another.Name.Example.");
    assert_int_equal(fake_queries(s.fake[0]), 3);
    tear_down(&s);
}

static void another_subnets_answer_is_dropped(void **state)
{
    (void)state;
    const struct ecs subnet = {.ip = {198, 51, 100}, .family = ADDR_V4, .source = 24};
    const uint8_t name[] = "\7example";
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        set_up(&s, transports[t], 1, QUICK("ordered"));
        fake_set(s.fake[0], FAKE_WRONG_SUBNET);
        struct upstream_question q = {.qname = name, .qname_len = sizeof name, .qtype = RR_A};
        ask_raw(&s, &q);
        assert_true(got_reply); /* without one of ours, theirs means nothing */
        q.subnet = &subnet;
        ask_raw(&s, &q);
        assert_false(got_reply);
        tear_down(&s);
    }
}

/* ---- choice */

static void ordered_sticks_to_the_first(void **state)
{
    (void)state;
    struct scene s;
    set_up(&s, FAKE_UDP, 3, POLICY("ordered"));
    for (int i = 0; i < 20; i++)
        expect_answer(&s.client, "a.example.");
    assert_int_equal(fake_queries(s.fake[0]), 20);
    assert_int_equal(fake_queries(s.fake[1]) + fake_queries(s.fake[2]), 0);
    tear_down(&s);
}

static void round_robin_goes_round(void **state)
{
    (void)state;
    struct scene s;
    set_up(&s, FAKE_UDP, 3, POLICY("round-robin"));
    for (int i = 0; i < 30; i++)
        expect_answer(&s.client, "a.example.");
    for (int i = 0; i < 3; i++)
        assert_in_range(fake_queries(s.fake[i]), 10, 11);
    tear_down(&s);
}

static void fastest_finds_the_fastest(void **state)
{
    (void)state;
    struct scene s;
    set_up(&s, FAKE_UDP, 3, POLICY("fastest"));
    for (int i = 0; i < 3; i++) {
        fake_set(s.fake[i], i == 2 ? FAKE_OK : FAKE_SLOW);
        fake_set_slow_ms(s.fake[i], 40);
    }
    for (int i = 0; i < 30; i++)
        expect_answer(&s.client, "a.example.");
    unsigned before = fake_queries(s.fake[2]);
    for (int i = 0; i < 50; i++)
        expect_answer(&s.client, "a.example.");
    assert_in_range(fake_queries(s.fake[2]) - before, 45, 70);
    tear_down(&s);
}

static void domains_choose(void **state)
{
    (void)state;
    const char *const keys[] = {
        "",
        ", domains: [corp.example]",
        ", domains: [deep.corp.example, \"!not.deep.corp.example\"]",
        ", domains: [\"!corp.example\", \"!secret.test\"]",
    };
    const struct {
        const char *name;
        unsigned who; /* bits */
    } cases[] = {
        {"example.", 1 | 8},
        {"corp.example.", 2},
        {"a.CORP.example.", 2},
        {"xcorp.example.", 1 | 8},
        {"deep.corp.example.", 4},
        {"a.deep.corp.example.", 4},
        {"a.not.deep.corp.example.", 2},
        {"secret.test.", 1},
        {".", 1 | 8},
    };
    struct scene s;
    char yaml[2048], line[384];
    memset(&s, 0, sizeof s);
    strcpy(yaml, POLICY("round-robin") "upstreams:\n");
    for (int i = 0; i < 4; i++) {
        s.fake[i] = fake_start(FAKE_UDP, 0);
        strcat(yaml, client_line(line, sizeof line, FAKE_UDP, fake_port(s.fake[i]), keys[i]));
    }
    client_open(&s.client, yaml);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        unsigned before[4], who = 0;
        for (int i = 0; i < 4; i++)
            before[i] = fake_queries(s.fake[i]);
        for (int n = 0; n < 8; n++)
            expect_answer(&s.client, cases[k].name);
        for (int i = 0; i < 4; i++)
            who |= fake_queries(s.fake[i]) > before[i] ? 1U << i : 0;
        if (who != cases[k].who)
            print_message("%s went to %x, not %x\n", cases[k].name, who, cases[k].who);
        assert_int_equal(who, cases[k].who);
    }
    uint8_t name[DNS_NAME_MAX];
    assert_true(upstream_claims(s.client.set, name, name_from_text(name, "x.corp.example")));
    assert_false(upstream_claims(s.client.set, name, name_from_text(name, "example")));
    assert_false(upstream_claims(s.client.set, name, name_from_text(name, "secret.test")));
    tear_down(&s);
}

static void a_name_of_nobody_fails_at_once(void **state)
{
    (void)state;
    char yaml[1024], line[384];
    struct client c;
    struct outcome o = {0};
    struct fake *f = fake_start(FAKE_UDP, 0);
    snprintf(
        yaml, sizeof yaml, "upstreams:\n%s",
        client_line(line, sizeof line, FAKE_UDP, fake_port(f), ", domains: [corp.example]"));
    client_open(&c, yaml);
    client_resolve(&c, &o, "else.example.");
    assert_true(o.done);
    assert_false(o.answered);
    assert_true(o.ms < 300); /* no try, no time-out */
    expect_answer(&c, "a.corp.example.");
    client_close(&c);
    fake_stop(f);
}

/* ---- failure answers */

static void servfail_is_asked_elsewhere_once(void **state)
{
    (void)state;
    struct scene s;
    struct outcome o = {0};
    set_up(&s, FAKE_UDP, 3, QUICK("ordered"));
    fake_set(s.fake[0], FAKE_REFUSED);
    fake_set(s.fake[1], FAKE_SERVFAIL);
    client_resolve(&s.client, &o, "a.example.");
    assert_true(o.answered);
    assert_int_equal(o.rcode, DNS_RCODE_REFUSED); /* what came first; the third was not asked */
    assert_int_equal(fake_queries(s.fake[0]), 1);
    assert_int_equal(fake_queries(s.fake[1]), 1);
    assert_int_equal(fake_queries(s.fake[2]), 0);
    fake_set(s.fake[1], FAKE_SILENT);
    fake_set(s.fake[2], FAKE_SILENT); /* nobody knows better: the answer that was there */
    client_resolve(&s.client, &o, "a.example.");
    assert_true(o.answered);
    assert_int_equal(o.rcode, DNS_RCODE_REFUSED);
    tear_down(&s);
}

/* ---- lives */

static void a_cancelled_ask_is_silent(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        struct outcome o[6];
        struct upstream_ask *a[6];
        memset(o, 0, sizeof o);
        set_up(&s, transports[t], 2, POLICY("ordered"));
        fake_set(s.fake[0], FAKE_SLOW);
        fake_set_slow_ms(s.fake[0], 60);
        unsigned open = 3;
        for (int i = 0; i < 6; i++) {
            o[i].open = i < 3 ? NULL : &open;
            assert_non_null(a[i] = client_ask(&s.client, &o[i], "a.example."));
        }
        upstream_cancel(a[0]);
        client_run(&s.client, NULL, 20);
        upstream_cancel(a[1]);
        upstream_cancel(a[2]);
        client_run(&s.client, &open, 5000);
        for (int i = 0; i < 3; i++)
            assert_false(o[i].done);
        for (int i = 3; i < 6; i++)
            assert_true(o[i].answered);
        expect_answer(&s.client, "b.example.");
        tear_down(&s);
    }
}

/* The set goes with asks open, in every state of theirs. */
static void the_set_ends_with_asks_open(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++)
        for (unsigned ms = 0; ms < 60; ms += 20) {
            struct scene s;
            struct outcome o[8];
            memset(o, 0, sizeof o);
            set_up(&s, transports[t], 2, QUICK("fastest"));
            fake_set(s.fake[0], FAKE_SILENT);
            fake_set(s.fake[1], FAKE_SILENT);
            for (int i = 0; i < 8; i++)
                assert_non_null(client_ask(&s.client, &o[i], "a.example."));
            client_run(&s.client, NULL, ms);
            tear_down(&s);
            for (int i = 0; i < 8; i++)
                assert_false(o[i].done);
        }
}

static struct scene *chain_scene;
static unsigned chain_left, chain_good;

static void chain(void *arg, const struct upstream_answer *answer)
{
    static const uint8_t name[] = "\5chain";
    struct upstream_question q = {.qname = name, .qname_len = sizeof name, .qtype = RR_A};
    chain_good += answer->reply != NULL;
    if (--chain_left)
        assert_non_null(upstream_ask(chain_scene->client.set, &q, chain, arg));
    else
        ev_break(chain_scene->client.loop, EVBREAK_ALL);
}

/* An answer makes the next question at once, from within its callback. */
static void asks_in_callbacks(void **state)
{
    (void)state;
    static const uint8_t name[] = "\5chain";
    struct upstream_question q = {.qname = name, .qname_len = sizeof name, .qtype = RR_A};
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        set_up(&s, transports[t], 1, POLICY("ordered"));
        chain_scene = &s;
        chain_left = 300;
        chain_good = 0;
        assert_non_null(upstream_ask(s.client.set, &q, chain, NULL));
        client_run(&s.client, &chain_left, 10000);
        assert_int_equal(chain_good, 300);
        if (t)
            assert_int_equal(fake_connections(s.fake[0]), 1); /* kept open */
        tear_down(&s);
    }
}

static void outstanding_asks_are_capped(void **state)
{
    (void)state;
    static struct outcome o[400];
    struct scene s;
    unsigned taken = 0;
    memset(o, 0, sizeof o);
    set_up(&s, FAKE_UDP, 1,
           "upstream: { policy: ordered, timeout: 100ms, tries: 1, deadline: 300ms, "
           "outstanding: 50 }\n");
    fake_set(s.fake[0], FAKE_SILENT);
    for (int i = 0; i < 400; i++)
        taken += client_ask(&s.client, &o[i], "a.example.") != NULL;
    assert_in_range(taken, 50, 100);
    client_run(&s.client, NULL, 400);
    fake_set(s.fake[0], FAKE_OK);
    client_run(&s.client, NULL, 600);
    expect_answer(&s.client, "a.example.");
    tear_down(&s);
}

static void reload_keeps_what_stays(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        struct outcome slow = {0};
        unsigned open = 1;
        char yaml[1024], a[384], b[384];
        set_up(&s, transports[t], 2, POLICY("ordered"));
        expect_answer(&s.client, "a.example.");
        fake_set(s.fake[0], FAKE_SLOW);
        fake_set_slow_ms(s.fake[0], 80);
        slow.open = &open;
        client_ask(&s.client, &slow, "slow.example.");
        client_run(&s.client, NULL, 10);
        /* Another order and one more; then only the second. */
        client_line(a, sizeof a, transports[t], fake_port(s.fake[0]), "");
        client_line(b, sizeof b, transports[t], fake_port(s.fake[1]), "");
        snprintf(yaml, sizeof yaml, POLICY("ordered") "upstreams:\n%s%s", b, a);
        struct config *second = client_config(yaml);
        assert_true(upstream_reload(s.client.set, second));
        expect_answer(&s.client, "b.example.");
        assert_int_equal(fake_queries(s.fake[1]), 1);
        snprintf(yaml, sizeof yaml, POLICY("ordered") "upstreams:\n%s", b);
        struct config *third = client_config(yaml);
        assert_true(upstream_reload(s.client.set, third));
        client_run(&s.client, &open, 2000);
        assert_true(slow.answered); /* from the one that is gone */
        expect_answer(&s.client, "c.example.");
        if (t) {
            assert_int_equal(fake_connections(s.fake[0]), 1);
            assert_int_equal(fake_connections(s.fake[1]), 1); /* kept over the reload */
        }
        struct upstream_stats stats;
        assert_true(upstream_stats(s.client.set, 0, &stats));
        assert_int_equal(stats.replies, 2);
        assert_false(upstream_stats(s.client.set, 1, &stats));
        config_unref(second);
        config_unref(third);
        tear_down(&s);
    }
}

/* What is found out about one that a reload has left out is of no interest. */
static void silence_of_one_left_behind(void **state)
{
    enum { QUESTIONS = 6 };
    static struct outcome o[QUESTIONS];
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        char yaml[1024], line[384];
        struct client c;
        unsigned open = QUESTIONS;
        struct fake *f = fake_start(transports[t], 0), *other = fake_start(FAKE_UDP, 0);
        snprintf(yaml, sizeof yaml, QUICK("ordered") "upstreams:\n%s",
                 client_line(line, sizeof line, transports[t], fake_port(f), ""));
        client_open(&c, yaml);
        fake_set(f, FAKE_SILENT);
        memset(o, 0, sizeof o);
        for (size_t i = 0; i < QUESTIONS; i++) {
            o[i].open = &open;
            assert_non_null(client_ask(&c, &o[i], "b.example."));
        }
        snprintf(yaml, sizeof yaml, QUICK("ordered") "upstreams:\n%s",
                 client_line(line, sizeof line, FAKE_UDP, fake_port(other), ""));
        struct config *config = client_config(yaml);
        assert_true(upstream_reload(c.set, config));
        config_unref(c.config);
        c.config = config;
        client_run(&c, &open, 5000);
        assert_int_equal(open, 0);
        for (size_t i = 0; i < QUESTIONS; i++)
            assert_false(o[i].answered);
        expect_answer(&c, "a.example.");
        client_close(&c);
        fake_stop(f);
        fake_stop(other);
    }
}

static void without_upstreams_every_ask_fails(void **state)
{
    (void)state;
    struct scene s;
    struct outcome o = {0};
    set_up(&s, FAKE_UDP, 1, POLICY("ordered"));
    struct config none = *s.client.config;
    none.n_upstreams = 0;
    none.refs = 1000; /* never freed: a copy */
    struct upstream_set *empty = upstream_create(s.client.loop, &none);
    assert_non_null(empty);
    struct client c = s.client;
    c.set = empty;
    client_resolve(&c, &o, "a.example.");
    assert_true(o.done);
    assert_false(o.answered);
    assert_true(o.network_failure);
    assert_int_equal(o.ede, DNS_EDE_NO_REACHABLE_AUTHORITY);
    assert_false(upstream_well(empty));
    upstream_destroy(empty);
    tear_down(&s);
}

/* ---- health */

static unsigned recoveries;

static void on_recovery(void *arg)
{
    (void)arg;
    recoveries++;
}

static void down_and_back(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        struct scene s;
        struct outcome o = {0};
        struct upstream_stats stats;
        set_up(&s, transports[t], 1, QUICK("ordered"));
        upstream_on_recovery(s.client.set, on_recovery, NULL);
        recoveries = 0;
        expect_answer(&s.client, "a.example.");
        uint16_t port = fake_port(s.fake[0]);
        fake_stop(s.fake[0]);
        for (int i = 0; i < 20 && upstream_well(s.client.set); i++)
            client_resolve(&s.client, &o, "a.example.");
        client_run(&s.client, NULL, 50); /* in doubt first, then the probe fails */
        client_resolve(&s.client, &o, "a.example.");
        assert_false(o.answered);
        assert_true(o.network_failure);
        assert_true(o.ede == DNS_EDE_NETWORK_ERROR || o.ede == DNS_EDE_NO_REACHABLE_AUTHORITY);
        assert_true(o.ms < 50); /* said at once by now, without a pause and more tries */
        assert_false(upstream_well(s.client.set));
        assert_true(upstream_stats(s.client.set, 0, &stats));
        assert_true(stats.down);
        assert_true(stats.refused > 0);
        assert_int_equal(recoveries, 0);
        s.fake[0] = fake_start(transports[t], port);
        client_run(&s.client, NULL, 2000); /* nobody asks: the probe finds out */
        assert_int_equal(recoveries, 1);
        assert_true(upstream_well(s.client.set));
        expect_answer(&s.client, "a.example.");
        tear_down(&s);
    }
}

/* A name that never gets an answer is no reason to leave an upstream. */
static void one_dead_name_takes_nobody_down(void **state)
{
    (void)state;
    struct scene s;
    struct outcome o = {0};
    struct upstream_stats stats;
    set_up(&s, FAKE_UDP, 1, QUICK("ordered"));
    for (int i = 0; i < 3; i++) {
        fake_set(s.fake[0], FAKE_SILENT);
        unsigned open = 1;
        o.open = &open;
        client_ask(&s.client, &o, "dead.example.");
        client_run(&s.client, NULL, 30);
        fake_set(s.fake[0], FAKE_OK);
        expect_answer(&s.client, "alive.example.");
        client_run(&s.client, &open, 5000);
        o.open = NULL;
        assert_true(o.done);
        assert_true(upstream_stats(s.client.set, 0, &stats));
        assert_false(stats.down);
    }
    tear_down(&s);
}

/* ---- TLS */

static void certificates(void **state)
{
    (void)state;
    uint8_t pin[32], other[32];
    char text[2][64], keys[5][256], yaml[1024], line[512];
    const bool good[5] = {true, false, false, true, false};
    fake_pin(0, pin);
    fake_pin(1, other);
    for (int i = 0; i < 2; i++) { /* base64 */
        static const char digits[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const uint8_t *p = i ? other : pin;
        char *o = text[i];
        for (int k = 0; k < 33; k += 3) {
            uint32_t v = (uint32_t)p[k] << 16 | (k + 1 < 32 ? (uint32_t)p[k + 1] << 8 : 0) |
                         (k + 2 < 32 ? p[k + 2] : 0);
            for (int d = 18; d >= 0; d -= 6)
                *o++ = digits[v >> d & 63];
        }
        o[-1] = '=';
        *o = '\0';
    }
    snprintf(keys[0], sizeof keys[0], ", tls-name: dot.test, ca: %s", fake_certificate(0));
    snprintf(keys[1], sizeof keys[1], ", tls-name: other.test, ca: %s", fake_certificate(0));
    snprintf(keys[2], sizeof keys[2], ", tls-name: dot.test, ca: %s", fake_certificate(1));
    snprintf(keys[3], sizeof keys[3], ", pin: [\"sha256/%s\"]", text[0]);
    snprintf(keys[4], sizeof keys[4], ", pin: [\"sha256/%s\"]", text[1]);
    for (int i = 0; i < 5; i++) {
        struct client c;
        struct outcome o = {0};
        struct fake *f = fake_start(FAKE_TLS, 0);
        snprintf(yaml, sizeof yaml, "upstreams:\n%s",
                 client_line(line, sizeof line, FAKE_TLS, fake_port(f), keys[i]));
        client_open(&c, yaml);
        client_resolve(&c, &o, "a.example.");
        if (o.answered != good[i])
            print_message("case %d: %s\n", i, o.text);
        assert_int_equal(o.answered, good[i]);
        if (!good[i]) {
            assert_int_equal(fake_queries(f), 0);
            assert_non_null(strstr(o.text, "certificate"));
            assert_int_equal(o.ede, DNS_EDE_NETWORK_ERROR);
        }
        client_close(&c);
        fake_stop(f);
    }
}

/* The server closed while nobody asked; the first question afterwards is answered all the same.
 */
static void first_question_after_an_idle_close(void **state)
{
    (void)state;
    for (size_t t = 1; t < 3; t++) {
        struct scene s;
        set_up(&s, transports[t], 1, POLICY("ordered"));
        for (int i = 0; i < 20; i++) {
            expect_answer(&s.client, "a.example.");
            fake_close_connections(s.fake[0]);
            if (i % 2) /* noticed before, or not until the query is on its way */
                client_run(&s.client, NULL, 10);
        }
        tear_down(&s);
    }
}

/* ---- host names */

static void host_names_are_found_by_bootstrap(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        char yaml[1024];
        struct client c;
        struct fake *helper = fake_start(FAKE_UDP, 0), *f = fake_start(transports[t], 0);
        fake_answer_loopback(helper, 1);
        snprintf(yaml, sizeof yaml,
                 POLICY("ordered") "upstreams:\n  - { address: \"dot.test:%u\", transport: %s, "
                                   "bootstrap: [\"127.0.0.1:%u\"]%s%s }\n",
                 fake_port(f),
                 t == 0   ? "udp"
                 : t == 1 ? "tcp"
                          : "tls",
                 fake_port(helper), t == 2 ? ", ca: " : "", t == 2 ? fake_certificate(0) : "");
        client_open(&c, yaml);
        expect_answer(&c, "a.example."); /* at once: it waits for the address */
        assert_true(upstream_well(c.set));
        assert_in_range(fake_queries(helper), 1, 2); /* A and AAAA, nothing else */
        assert_in_range(fake_queries(f), 1, 2);      /* the probe perhaps */
        struct upstream_stats stats;
        assert_false(upstream_stats(c.set, 1, &stats)); /* the helper does not show */
        client_close(&c);
        fake_stop(helper);
        fake_stop(f);
    }
}

static void host_names_are_found_by_others_and_again(void **state)
{
    (void)state;
    char yaml[1024];
    struct client c;
    struct outcome o = {0};
    struct fake *helper = fake_start(FAKE_UDP, 0), *f = fake_start(FAKE_TCP, 0);
    fake_answer_loopback(helper, 2); /* nobody listens there */
    snprintf(yaml, sizeof yaml,
             QUICK("ordered") "upstreams:\n"
                              "  - { address: \"127.0.0.1:%u\", domains: [test] }\n"
                              "  - { address: \"dot.test:%u\", transport: tcp }\n",
             fake_port(helper), fake_port(f));
    client_open(&c, yaml);
    client_resolve(&c, &o, "a.example.");
    assert_true(o.done);
    assert_false(o.answered);
    client_run(&c, NULL, 500);
    fake_answer_loopback(helper, 1);
    client_run(&c, NULL, 3000);
    expect_answer(&c, "a.example.");
    client_close(&c);
    fake_stop(helper);
    fake_stop(f);
}

/* Its address changes while questions hang at the old one: they end, or go to the new one. */
static void host_names_move_under_questions(void **state)
{
    enum { QUESTIONS = 150 };
    static struct outcome o[QUESTIONS];
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        char yaml[1024];
        struct client c;
        unsigned open = 0;
        struct fake *helper = fake_start(FAKE_UDP, 0), *f = fake_start(transports[t], 0);
        fake_answer_loopback(helper, 1);
        snprintf(yaml, sizeof yaml,
                 "upstream: { timeout: 800ms, tries: 3, deadline: 800ms }\n"
                 "upstreams:\n  - { address: \"dot.test:%u\", transport: %s, "
                 "bootstrap: [\"127.0.0.1:%u\"] }\n",
                 fake_port(f), t == 0 ? "udp" : "tcp", fake_port(helper));
        client_open(&c, yaml);
        expect_answer(&c, "a.example.");
        fake_set(f, FAKE_SILENT);
        fake_answer_loopback(helper, 2);
        memset(o, 0, sizeof o);
        for (size_t i = 0; i < QUESTIONS; i++) {
            o[i].open = &open;
            open++;
            assert_non_null(client_ask(&c, &o[i], "b.example."));
            client_run(&c, NULL, 20);
        }
        client_run(&c, &open, 3000);
        assert_int_equal(open, 0);
        fake_set(f, FAKE_OK);
        fake_answer_loopback(helper, 1);
        client_run(&c, NULL, 4000);
        expect_answer(&c, "a.example.");
        client_close(&c);
        fake_stop(helper);
        fake_stop(f);
    }
}

/* One that a reload has left out lives on for the questions that still hang at it, and is gone
 * with them: nothing is asked for it any more. */
static void host_names_left_behind(void **state)
{
    enum { QUESTIONS = 150 };
    static struct outcome o[QUESTIONS];
    struct upstream_stats stats = {.down = false};
    char yaml[1024];
    struct client c;
    unsigned open = 0;
    struct fake *helper = fake_start(FAKE_UDP, 0), *f = fake_start(FAKE_UDP, 0);
    (void)state;
    fake_answer_loopback(helper, 1);
    snprintf(yaml, sizeof yaml,
             "upstream: { timeout: 800ms, tries: 3, deadline: 800ms }\n"
             "upstreams:\n  - { address: \"127.0.0.1:%u\", domains: [test] }\n"
             "  - { address: \"dot.test:%u\" }\n",
             fake_port(helper), fake_port(f));
    client_open(&c, yaml);
    expect_answer(&c, "a.example.");
    fake_set(f, FAKE_SILENT);
    memset(o, 0, sizeof o);
    for (size_t i = 0; i < QUESTIONS && !stats.down; i++) {
        o[i].open = &open;
        open++;
        assert_non_null(client_ask(&c, &o[i], "b.example."));
        client_run(&c, NULL, 20);
        assert_true(upstream_stats(c.set, 1, &stats));
    }
    assert_true(stats.down);
    assert_true(open > 0);
    unsigned asked = fake_queries(helper);
    snprintf(yaml, sizeof yaml,
             "upstream: { timeout: 1500ms, tries: 1, deadline: 1500ms }\n"
             "upstreams:\n  - { address: \"127.0.0.1:%u\" }\n",
             fake_port(helper));
    fake_set(helper, FAKE_SILENT);
    struct config *config = client_config(yaml);
    assert_true(upstream_reload(c.set, config));
    config_unref(c.config);
    c.config = config;
    client_run(&c, &open, 3000);
    assert_int_equal(open, 0);
    client_run(&c, NULL, 2000);
    assert_int_equal(fake_queries(helper), asked);
    client_close(&c);
    fake_stop(helper);
    fake_stop(f);
}

/* ---- workers */

static void *worker(void *arg)
{
    const char *yaml = arg;
    struct client c;
    static _Thread_local struct outcome o[20];
    for (int round = 0; round < 3; round++) {
        client_open(&c, yaml);
        for (int i = 0; i < 20; i++) {
            unsigned open = 20;
            memset(o, 0, sizeof o);
            for (int k = 0; k < 20; k++) {
                o[k].open = &open;
                if (!client_ask(&c, &o[k], "a.example."))
                    abort();
            }
            client_run(&c, &open, 10000);
            for (int k = 0; k < 20; k++)
                if (!o[k].answered)
                    abort();
        }
        client_close(&c);
    }
    return NULL;
}

static void workers_do_not_meet(void **state)
{
    (void)state;
    char yaml[2048], line[384];
    struct fake *f[3];
    pthread_t thread[2];
    strcpy(yaml, POLICY("round-robin") "upstreams:\n");
    for (size_t t = 0; t < 3; t++) {
        f[t] = fake_start(transports[t], 0);
        strcat(yaml, client_line(line, sizeof line, transports[t], fake_port(f[t]), ""));
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, worker, yaml), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    for (size_t t = 0; t < 3; t++)
        fake_stop(f[t]);
}

static int clean_up(void **state)
{
    (void)state;
    fake_cleanup();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_arrive_exactly),
        cmocka_unit_test(flags_and_options_are_sent),
        cmocka_unit_test(case_is_mixed_and_restored),
        cmocka_unit_test(lower_case_servers_work),
        cmocka_unit_test(another_subnets_answer_is_dropped),
        cmocka_unit_test(ordered_sticks_to_the_first),
        cmocka_unit_test(round_robin_goes_round),
        cmocka_unit_test(fastest_finds_the_fastest),
        cmocka_unit_test(domains_choose),
        cmocka_unit_test(a_name_of_nobody_fails_at_once),
        cmocka_unit_test(servfail_is_asked_elsewhere_once),
        cmocka_unit_test(a_cancelled_ask_is_silent),
        cmocka_unit_test(the_set_ends_with_asks_open),
        cmocka_unit_test(asks_in_callbacks),
        cmocka_unit_test(outstanding_asks_are_capped),
        cmocka_unit_test(reload_keeps_what_stays),
        cmocka_unit_test(silence_of_one_left_behind),
        cmocka_unit_test(without_upstreams_every_ask_fails),
        cmocka_unit_test(down_and_back),
        cmocka_unit_test(one_dead_name_takes_nobody_down),
        cmocka_unit_test(certificates),
        cmocka_unit_test(first_question_after_an_idle_close),
        cmocka_unit_test(host_names_are_found_by_bootstrap),
        cmocka_unit_test(host_names_are_found_by_others_and_again),
        cmocka_unit_test(host_names_move_under_questions),
        cmocka_unit_test(host_names_left_behind),
        cmocka_unit_test(workers_do_not_meet),
    };
    signal(SIGPIPE, SIG_IGN);
    log_set_level(LOG_LEVEL_WARNING);
    int failed = 1;
    client_stall_ms();
    for (int i = 0; failed && i < ATTEMPTS; i++) {
        if (i)
            print_message("the machine is busy: once more\n");
        failed = cmocka_run_group_tests(tests, NULL, clean_up);
        if (client_stall_ms() < BUSY_MS)
            break;
    }
    return failed;
}
