/* fake_upstream.h - upstream.h without a network: the test answers each ask itself. */
#ifndef PITH_TESTS_FAKE_UPSTREAM_H
#define PITH_TESTS_FAKE_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dns/ecs.h"
#include "upstream.h"

enum { FAKE_ASKS = 256 };

struct fake_ask {
    bool open;
    uint8_t qname[DNS_NAME_MAX];
    size_t qname_len;
    uint16_t qtype;
    bool dnssec_ok, checking_disabled, has_subnet;
    struct ecs subnet;
    void (*on_answer)(void *arg, const struct upstream_answer *answer);
    void *arg;
};

/* All that was asked since fake_reset(), in order. */
extern struct fake_ask fake_asks[FAKE_ASKS];
extern size_t fake_n_asks, fake_open;
extern bool fake_well, fake_full, fake_claims;
void fake_reset(void);

/* Answers ask number i with these octets, whose question must be the ask's (as the real one
 * checks); false when they do not pass the validator. */
bool fake_reply(size_t i, const uint8_t *msg, size_t len, bool trust_ad);
void fake_fail(size_t i, uint16_t ede);
/* Tells the proxy that an upstream came back. */
void fake_recover(void);

#endif
