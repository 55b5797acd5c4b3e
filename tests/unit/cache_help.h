/* cache_help.h - a cache, keys by text, and replies put and got in one line. */
#ifndef PITH_TESTS_CACHE_HELP_H
#define PITH_TESTS_CACHE_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "cache/check.h"
#include "cache/internal.h"
#include "dns/build.h"
#include "dns/name.h"

struct asked {
    uint8_t qname[DNS_NAME_MAX];
    struct ecs subnet;
    struct cache_key key;
};

/* The struct must not move afterwards. */
static inline struct cache_key *ask(struct asked *a, const char *name, uint16_t type)
{
    memset(a, 0, sizeof *a);
    a->key.qname_len = name_from_text(a->qname, name);
    assert_true(a->key.qname_len > 0);
    a->key.qname = a->qname;
    a->key.qtype = type;
    return &a->key;
}

static inline struct cache_key *ask_from(struct asked *a, const char *name, uint16_t type,
                                         const char *address, uint8_t source)
{
    struct addr from;
    ask(a, name, type);
    assert_true(addr_parse(&from, address, 0));
    assert_true(ecs_from_addr(&a->subnet, &from, source));
    a->key.subnet = &a->subnet;
    return &a->key;
}

/* Puts `n` A records 192.0.2.`last`, ... */
static inline enum err put_a(struct cache *c, const struct cache_key *key, uint8_t last,
                             uint32_t ttl, const struct cache_put_options *options)
{
    uint8_t msg[512];
    struct dns_builder b;
    struct dns_reply reply;
    const uint8_t rdata[4] = {192, 0, 2, last};
    assert_true(build_start(&b, msg, sizeof msg, 7, DNS_QR | DNS_RA, key->qname, key->qname_len,
                            key->qtype, DNS_CLASS_IN));
    assert_true(build_rr(&b, DNS_ANSWER, NULL, 0, RR_A, DNS_CLASS_IN, ttl, rdata, 4));
    assert_true(reply_parse(&reply, msg, build_finish(&b)));
    return cache_put(c, key, &reply, options);
}

static inline enum err put_failure(struct cache *c, const struct cache_key *key,
                                   struct cache_put_options options)
{
    uint8_t msg[512];
    struct dns_builder b;
    struct dns_reply reply;
    assert_true(build_start(&b, msg, sizeof msg, 7, DNS_QR | DNS_RA | DNS_RCODE_SERVFAIL,
                            key->qname, key->qname_len, key->qtype, DNS_CLASS_IN));
    assert_true(reply_parse(&reply, msg, build_finish(&b)));
    options.failure = true;
    return cache_put(c, key, &reply, &options);
}

/* The last octet of the first address, 0 for a miss, 255 without an address. */
static inline uint8_t get_a(struct cache *c, const struct cache_key *key, uint32_t now_s,
                            uint32_t stale_max_s, enum cache_outcome *outcome,
                            struct cache_answer *answer)
{
    static uint8_t out[DNS_MESSAGE_MAX];
    const struct cache_get_options options = {
        .now_s = now_s, .stale_max_s = stale_max_s, .stale_ttl_s = 30, .prefetch = true};
    struct dns_reply reply;
    struct dns_walk walk;
    struct dns_rr rr;
    *outcome = cache_get(c, key, &options, out, sizeof out, answer);
    if (*outcome == CACHE_MISS)
        return 0;
    assert_true(reply_parse(&reply, out, answer->len));
    assert_int_equal(reply.flags & ~DNS_RCODE, DNS_QR | DNS_RA);
    assert_true(reply_matches(&reply, key->qname, key->qname_len, key->qtype, true));
    walk_start(&walk, &reply);
    while (walk_next(&walk, &rr)) {
        if (rr.type == RR_A)
            return out[rr.end - 1];
    }
    return 255;
}

static inline void assert_sound(struct cache *c)
{
    char why[200] = "";
    if (!cache_check(c, c->clock_s, why, sizeof why))
        fail_msg("%s", why);
}

#endif
