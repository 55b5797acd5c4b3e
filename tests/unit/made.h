/* made.h - replies made at random, of every shape that upstreams send.
 *
 * Written octet by octet here, without src/dns: names as they are or compressed, in any case,
 * records of known and unknown types, TTLs alike or not. Every one is a reply that
 * reply_parse() passes. */
#ifndef PITH_TESTS_MADE_H
#define PITH_TESTS_MADE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/workload.h"

enum made_shape {
    MADE_SET,      /* one RRset of the question's type, one TTL */
    MADE_CHAIN,    /* CNAMEs, then a set or a SOA */
    MADE_NEGATIVE, /* NXDOMAIN or NODATA with SOA, perhaps signed */
    MADE_TTLS,     /* a set whose records differ in TTL */
    MADE_GENERAL,  /* records of all sections */
    MADE_EMPTY,    /* no record, any RCODE, perhaps of 12 bits */
    MADE_LARGE,    /* 1..60 KiB */
    MADE_ODD,      /* owners from elsewhere, long names, empty rdata, extreme TTLs */
    MADE_SHAPES
};

enum { MADE_MAX = 65535 };

/* A random wire name of 1..max octets (max >= 24); letters in any case. Returns the length. */
size_t made_name(struct random *r, uint8_t *out, size_t max);

/* Writes a reply to the question to out (MADE_MAX octets); returns its length. */
size_t made_reply(struct random *r, enum made_shape shape, const uint8_t *qname,
                  size_t qname_len, uint16_t qtype, uint8_t *out);

#endif
