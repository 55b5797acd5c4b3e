/* accept.h - what of an upstream's reply goes to clients and into the cache.
 *
 * The reply is written anew: names expanded and compressed as pith compresses, TTLs clamped,
 * OPT and what was not asked for (RRSIG, NSEC, NSEC3 without DO) left out. Thread: pure. */
#ifndef PITH_ACCEPT_H
#define PITH_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"
#include "config.h"
#include "dns/message.h"

struct accepted {
    struct dns_reply reply; /* parsed view of the clean message in the caller's buffer */
    uint16_t rcode;         /* 12 bits */
    bool failure;           /* neither NOERROR nor NXDOMAIN */
    bool negative;          /* NXDOMAIN or no data (RFC 2308) */
    uint32_t life_s;        /* to keep it; 0: not at all */
    uint32_t max_age_s;     /* for HTTP */
    uint8_t scope;          /* of upstream's client subnet option */
    bool authentic;         /* AD was set */
    uint16_t ede;           /* upstream's, DNS_EDE_NONE without */
    char ede_text[64];
};

/* Fills out and writes the clean message to buf (at least DNS_MESSAGE_MAX). False: the reply is
 * not to be used, because its client subnet is not what key.subnet says (RFC 7871 7.3, 11.2) or
 * the clean message is too large. */
bool accept_reply(struct accepted *out, uint8_t *buf, size_t size,
                  const struct dns_reply *reply, const struct cache_key *key,
                  const struct config *config);

/* A SERVFAIL for this key, as upstream could have sent it: for the failure cache. */
bool accept_failure(struct accepted *out, uint8_t *buf, size_t size,
                    const struct cache_key *key, const struct config *config);

#endif
