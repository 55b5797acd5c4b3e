/* record.h - one answer, as an entry keeps it: "record" here is the cache's, "RR" that of DNS.
 *
 *   entry:   | key | record | record | ... | 0 to 3 octets of 0 |
 *
 *   record:    0       1      2              6               7
 *            +-------+------+--------------+---------------+-----------+-----------+------+
 *            | flags | type | life 10      | form 3        | type, 16  | extension | body |
 *            |       | code | expiry 22    | count 5       | if code   | if flag   |      |
 *            |       |      | bits         | bits          | is 255    | EXT       |      |
 *            +-------+------+--------------+---------------+-----------+-----------+------+
 *
 *   extension: | what | RCODE, 16 | EDE, 16 | text length, text | epoch, 16 |
 *              each behind `what` only if its bit is set there
 *
 * Numbers are in the machine's byte order. Expiry is a second of the caller's clock modulo
 * 2^22; life is the whole life, rounded. Bodies by form:
 *
 *   UNIFORM    `count` RRs in the answer section, owner qname, type qtype, TTL the life left.
 *              A and AAAA: the rdata one after the other. Others: length (an octet; from 255
 *              on 255 and 16 bits) and rdata, its names expanded.
 *
 *   STRINGS    The same, and each rdata is one character-string: its first octet tells its
 *              length.
 *
 *   LIST       A list of `count` RRs in the answer section: CNAMEs and what they lead to,
 *              TTLs that differ.
 *
 *   NODATA     A list of `count` RRs in the authority section.
 *
 *   NXDOMAIN   The same, and RCODE 3.
 *
 *   GENERAL    Three varints, the number of RRs in each section, then their list.
 *
 *   LARGE      Where the record is in the large pages (large.h).
 *
 *   SUBNETS    Type code 0: the subnets that the name has answers for (ecs.h).
 *
 *   RR in a list:  | TTL 2, type 3, owner 3 bits | owner | type, 16 | TTL | rdata |
 *
 *   owner      QNAME: equal to the question of the reply, octet by octet; written as the
 *              question of who asks. SAME: as of the RR before. TARGET: the name in the CNAME
 *              before. SUFFIX: an octet, how many labels to take off the qname; only for
 *              names in lower case. NAME: a wire name.
 *
 *   TTL        LIFE: the life left. SAME: as before. DIFF: a varint, the zigzag of what the
 *              TTL is more than the life.
 *
 *   rdata      A, AAAA and CNAME as it is, others behind their length as above. */
#ifndef PITH_CACHE_RECORD_H
#define PITH_CACHE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dns/message.h"

enum cache_form {
    FORM_UNIFORM,
    FORM_STRINGS,
    FORM_LIST,
    FORM_NODATA,
    FORM_NXDOMAIN,
    FORM_GENERAL,
    FORM_LARGE,
    FORM_SUBNETS,
};

enum {
    RECORD_MORE = 0x80, /* another record of the name follows */
    RECORD_EXT = 0x40,
    RECORD_DO = 0x20, /* part of the key, like the next two */
    RECORD_CD = 0x10,
    RECORD_OPTOUT = 0x08, /* was asked with source 0, for those who ask so (RFC 7871 7.3.1) */
    RECORD_AD = 0x04,
    RECORD_FAILURE = 0x02,
    RECORD_SUBNET = 0x01, /* was asked with a subnet and is valid for all */
    RECORD_KEY = RECORD_DO | RECORD_CD | RECORD_OPTOUT,
};

enum {
    EXT_RCODE = 0x01,
    EXT_EDE = 0x02,
    EXT_TEXT = 0x04,
    EXT_EPOCH = 0x08, /* of failures: cache_forget_failures() */
    EXT_V6 = 0x10,    /* RECORD_SUBNET was with an IPv6 subnet */
    EXT_ALL = 0x1f,
};

enum {
    RECORD_HEAD = 7,
    RECORD_COUNT_MAX = 31,
    RECORD_TYPE_LONG = 255,
    RECORD_TYPE_SUBNETS = 0,
    RECORD_TEXT_MAX = 63,
    RECORD_LIFE_MAX = 127 << 14, /* what 10 bits hold; 24 days */
    RECORD_CLOCK = (1 << 22) - 1,
};

/* A record's head, read. */
struct cache_record {
    const uint8_t *start, *body;
    uint32_t expiry; /* 22 bits */
    uint32_t life_s;
    uint16_t type; /* 0 for SUBNETS */
    uint16_t rcode, ede, epoch;
    uint8_t flags, form, count;
    uint8_t what; /* of the extension */
    uint8_t text_len;
    const uint8_t *text;
};

/* Reads what a head has beyond its 7 octets: cache_record_read() calls it. */
bool cache_record_read_more(struct cache_record *r, const uint8_t *end);

/* A life of 10 bits in seconds. */
static inline uint32_t cache_record_life(uint32_t code)
{
    uint32_t shift = code >> 6;
    return shift == 0 ? code : (64 + (code & 63)) << (shift - 1);
}

/* Reads the head of the record at p; `left` octets are there. False when it is cut or
 * malformed. */
static inline bool cache_record_read(struct cache_record *r, const uint8_t *p, size_t left)
{
    uint32_t word;
    if (left < RECORD_HEAD)
        return false;
    memcpy(&word, p + 2, sizeof word);
    r->start = p;
    r->body = p + RECORD_HEAD;
    r->flags = p[0];
    r->type = p[1];
    r->expiry = word & RECORD_CLOCK;
    r->life_s = cache_record_life(word >> 22);
    r->form = p[6] >> 5;
    r->count = p[6] & RECORD_COUNT_MAX;
    r->rcode = r->form == FORM_NXDOMAIN ? DNS_RCODE_NXDOMAIN : DNS_RCODE_NOERROR;
    r->ede = DNS_EDE_NONE;
    r->epoch = 0;
    r->what = 0;
    r->text_len = 0;
    r->text = NULL;
    if (__builtin_expect((r->flags & RECORD_EXT) || r->type == RECORD_TYPE_LONG, 0)) {
        struct cache_record more = *r; /* so that r can be in registers */
        bool sound = cache_record_read_more(&more, p + left);
        *r = more;
        return sound;
    }
    return (r->type == RECORD_TYPE_SUBNETS) == (r->form == FORM_SUBNETS);
}

/* Octets of the whole record, body included, after a check of the body's structure; 0 when it
 * is malformed. */
size_t cache_record_size(const struct cache_record *r, size_t left);

/* What a record has to have in its head: flags under a mask, type code, and the type if that is
 * long. */
struct cache_sought {
    uint8_t mask, flags, code;
    uint16_t type;
};

/* The record sought among those at p; NULL without. */
const uint8_t *cache_record_seek(const uint8_t *p, size_t left, struct cache_sought s);

/* The record of a type with these RECORD_KEY flags. */
static inline const uint8_t *cache_record_find(const uint8_t *p, size_t left, uint16_t type,
                                               uint8_t key_flags)
{
    bool is_long = type == 0 || type >= RECORD_TYPE_LONG;
    uint8_t code = is_long ? RECORD_TYPE_LONG : (uint8_t)type;
    if (left >= RECORD_HEAD && !is_long && p[1] == code && (p[0] & RECORD_KEY) == key_flags)
        return p; /* mostly the first */
    return cache_record_seek(p, left, (struct cache_sought){RECORD_KEY, key_flags, code, type});
}

/* The SUBNETS record. */
static inline const uint8_t *cache_record_find_subnets(const uint8_t *p, size_t left)
{
    return cache_record_seek(p, left, (struct cache_sought){.code = RECORD_TYPE_SUBNETS});
}

/* Life left at now_s, up to 2^21 s either way. */
static inline int32_t cache_record_left(uint32_t expiry, uint32_t now_s)
{
    return (int32_t)((expiry - now_s) << 10) >> 10;
}

/* A life in 10 bits: 4 of exponent, 6 of mantissa; rounded up, at most RECORD_LIFE_MAX. */
uint32_t cache_record_life_code(uint32_t life_s);

/* The word of expiry and life, and the octets it is written to. */
static inline uint32_t cache_record_word(uint32_t now_s, uint32_t life_s)
{
    return cache_record_life_code(life_s) << 22 | ((now_s + life_s) & RECORD_CLOCK);
}

/* An RR of a list. */
enum cache_owner { OWNER_QNAME, OWNER_SAME, OWNER_TARGET, OWNER_SUFFIX, OWNER_NAME };
enum cache_rrtype {
    TYPE_SAME,
    TYPE_QTYPE,
    TYPE_CNAME,
    TYPE_SOA,
    TYPE_NS,
    TYPE_RRSIG,
    TYPE_DS,
    TYPE_OTHER
};
enum cache_ttl { TTL_LIFE, TTL_SAME, TTL_DIFF };

struct cache_rr {
    enum cache_owner owner;
    uint8_t skip;        /* OWNER_SUFFIX: labels to take off */
    const uint8_t *name; /* OWNER_NAME */
    size_t name_len;
    uint16_t type;
    int32_t ttl_diff;
    enum dns_section section;
    const uint8_t *rdata;
    size_t rdata_len;
};

/* Walks the RRs of any form but LARGE and SUBNETS. */
struct cache_walk {
    const uint8_t *pos, *end;
    uint16_t qtype;
    uint8_t form;
    bool bad;
    enum dns_section section;
    uint32_t left[DNS_SECTIONS];
    struct cache_rr before;
};
bool cache_walk_start(struct cache_walk *w, const struct cache_record *r, const uint8_t *end);
/* False at the end, and with `bad` set when the body is malformed. */
bool cache_walk_next(struct cache_walk *w, struct cache_rr *rr);

#endif
