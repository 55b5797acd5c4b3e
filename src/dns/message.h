/* message.h - a bounds-checked view of a message, and the strict walk over its records.
 *
 * Nothing is copied: views point into the message, which has to stay. */
#ifndef PITH_DNS_MESSAGE_H
#define PITH_DNS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "dns/rrtype.h"
#include "dns/wire.h"

/* A query as a client sent it, read by query_parse(). */
struct dns_query {
    uint16_t id;
    uint16_t flags;       /* as on the wire */
    uint16_t qtype, qclass;
    const uint8_t *qname; /* in the message, uncompressed, case as asked; NULL without question */
    size_t qname_len;
    uint16_t udp_size;    /* what OPT says, at least 512; 512 without OPT */
    uint16_t ext_flags;   /* EDNS flags: DO is 0x8000 */
    uint8_t edns_version;
    bool has_opt;
    const uint8_t *options; /* OPT rdata, checked to be whole options */
    size_t options_len;
};

/* Why a query gets which answer. The order is the order of checks. */
enum query_problem {
    QUERY_OK = 0,
    QUERY_SHORT,    /* under 12 octets: no DNS answer is possible */
    QUERY_RESPONSE, /* QR=1: never answered with DNS */
    QUERY_OPCODE,   /* NOTIMP */
    QUERY_FORMERR,  /* QDCOUNT not 1, bad name, records in answer or authority, malformed OPT, two
                     * OPTs, OPT owner not root, trailing octets */
    QUERY_BADVERS,  /* EDNS version > 0; the rest of OPT was not looked at (RFC 6891 6.1.3) */
};

/* Reads a client's query strictly (RFC 1035 4.1, RFC 6891 6, RFC 9619). On a problem, out still
 * has what could be read up to there: id and flags from 12 octets on, qname when the (first)
 * question is whole. The qname of a question must not be compressed. A TSIG or SIG(0) at the end
 * is FORMERR-free: it is ignored as an unknown record. */
enum query_problem query_parse(struct dns_query *out, const uint8_t *msg, size_t len);

static inline bool query_do(const struct dns_query *q)
{
    return q->has_opt && (q->ext_flags & 0x8000);
}

/* One resource record in a message. */
struct dns_rr {
    size_t pos;           /* of the owner */
    size_t fixed;         /* of type, class, TTL, RDLENGTH */
    size_t rdata;         /* of the rdata */
    size_t end;           /* behind the record */
    uint16_t type, rclass, rdlength;
    uint32_t ttl;         /* as on the wire */
    enum dns_section section;
};

/* A reply whose every record was walked and checked by reply_parse(). */
struct dns_reply {
    const uint8_t *msg;
    size_t len;               /* up to the end of the last record */
    uint16_t id, flags;
    uint16_t rcode;           /* 12 bits, with OPT's upper 8 */
    uint16_t qtype, qclass;
    const uint8_t *qname;     /* in the message, uncompressed */
    size_t qname_len;
    uint16_t count[DNS_SECTIONS]; /* from the header; additional includes OPT */
    size_t section[DNS_SECTIONS]; /* where each begins */
    bool has_opt;
    size_t opt_pos;           /* OPT's owner octet; its record is opt_len octets */
    size_t opt_len;
    uint16_t ext_flags;
    const uint8_t *options;
    size_t options_len;
};

/* Checks all of an upstream's reply: header, exactly one uncompressed question, every owner and
 * every name in rdata (pointers backwards only), RDLENGTH exact for the types that have names
 * and for A (4) and AAAA (16), class IN in all records but OPT, no meta type but one OPT with
 * root owner and whole options, nothing behind the last record. False when anything is off. TC=1
 * is not an error here. */
bool reply_parse(struct dns_reply *out, const uint8_t *msg, size_t len);

/* Walk: rr_first() positions before the first record, rr_next() reads the next one, false at the
 * end. Only for messages that reply_parse() passed. */
struct dns_walk {
    const struct dns_reply *reply;
    size_t pos;
    uint16_t left[DNS_SECTIONS];
    enum dns_section section;
};
void walk_start(struct dns_walk *w, const struct dns_reply *reply);
bool walk_next(struct dns_walk *w, struct dns_rr *rr);

/* The question fits what was asked: name (equal without case, or octet by octet when exact),
 * type, class IN. */
bool reply_matches(const struct dns_reply *r, const uint8_t *qname, size_t qname_len,
                   uint16_t qtype, bool exact_case);

/* Smallest TTL over the answer section (after the top-bit rule, RFC 8767 4: a TTL with the top
 * bit set counts as huge); UINT32_MAX when it has no record. */
uint32_t reply_answer_ttl(const struct dns_reply *r);

/* The SOA of the authority section for the negative rule: min(TTL, MINIMUM) (RFC 2308 5); false
 * without one. */
bool reply_negative_ttl(const struct dns_reply *r, uint32_t *ttl);

#endif
