/* plain.h - a plain reader of DNS messages for tests.
 *
 * Shares no code with src/dns, so that the two can be held against each other. Everything is
 * expanded and copied; slow and simple on purpose. */
#ifndef PITH_TESTS_PLAIN_H
#define PITH_TESTS_PLAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plain_rr {
    int section; /* 0 answer, 1 authority, 2 additional */
    uint16_t type, rclass;
    uint32_t ttl;
    uint8_t owner[255];
    size_t owner_len;
    const uint8_t *rdata; /* in the message's bytes, names expanded */
    size_t rdata_len;
};

struct plain_message {
    uint16_t id, flags;
    uint8_t qname[255];
    size_t qname_len;
    uint16_t qtype, qclass;
    size_t n; /* records without OPT */
    struct plain_rr *rr;
    uint8_t *bytes;
};

/* Reads a message with exactly one question to its last octet. False when it is malformed; then
 * nothing needs to be freed. */
bool plain_parse(struct plain_message *m, const uint8_t *msg, size_t len);
void plain_free(struct plain_message *m);

/* Letters compare without case. */
bool plain_name_equal(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len);

/* TTLs of `got` must be those of `put` less by age, at least 1. */
#define PLAIN_AGED(age) ((int64_t)(age))
/* TTLs of `got` must all be ttl. */
#define PLAIN_FIXED(ttl) (-(int64_t)(ttl)-1)

/* NULL when `got` has the records of `put`: the same sections and order, the same octets of
 * rdata and owners, where an owner equal to the question's name may be spelled as the question
 * is; else what differs. */
const char *plain_difference(const struct plain_message *put, const struct plain_message *got,
                             int64_t ttls);

#endif
