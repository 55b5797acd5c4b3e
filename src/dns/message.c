/* message.c - strict reading of queries and replies.
 *
 * A message (RFC 1035 4.1):
 *
 *   0    2       4         6         8         10        12
 *   +----+-------+---------+---------+---------+---------+----------+-----------
 *   | ID | flags | QDCOUNT | ANCOUNT | NSCOUNT | ARCOUNT | question | records
 *   +----+-------+---------+---------+---------+---------+----------+-----------
 *
 * and a record:
 *
 *   +-------+------+-------+-----+----------+-------+
 *   | owner | type | class | TTL | RDLENGTH | rdata |
 *   +-------+------+-------+-----+----------+-------+
 *   pos     fixed                           rdata   end
 */
#include "dns/message.h"

#include <string.h>

#include "dns/edns.h"
#include "dns/name.h"

enum {
    QDCOUNT = 4, /* where the counts stand in the header */
    ANCOUNT = 6,
    NSCOUNT = 8,
    ARCOUNT = 10,
};

/* Reads the question at *pos: name, type, class. Moves *pos behind it. */
static bool question_read(const uint8_t *msg, size_t len, size_t *pos, size_t *name_len)
{
    size_t n = name_wire_len(msg + *pos, len - *pos);
    if (n == 0 || len - *pos - n < 4)
        return false;
    *name_len = n;
    *pos += n + 4;
    return true;
}

/* Reads the fields in front of a record's rdata, whose owner ends at rr->fixed. */
static inline bool fixed_read(struct dns_rr *rr, const uint8_t *msg, size_t len)
{
    if (len - rr->fixed < DNS_RR_FIXED)
        return false;
    const uint8_t *p = msg + rr->fixed;
    rr->type = dns_read16(p);
    rr->rclass = dns_read16(p + 2);
    rr->ttl = dns_read32(p + 4);
    rr->rdlength = dns_read16(p + 8);
    rr->rdata = rr->fixed + DNS_RR_FIXED;
    rr->end = rr->rdata + rr->rdlength;
    return rr->end <= len;
}

/* Reads the record at pos, owner checked, rdata not. */
static inline bool rr_read(struct dns_rr *rr, const uint8_t *msg, size_t len, size_t pos)
{
    rr->pos = pos;
    rr->fixed = pos;
    return name_skip(msg, len, &rr->fixed) && fixed_read(rr, msg, len);
}

/* The root, as it is: one octet. */
static inline bool owner_is_root(const struct dns_rr *rr)
{
    return rr->fixed - rr->pos == 1;
}

/* Takes an OPT record of a query in; false for what is FORMERR. Once the record itself is
 * sound has_opt is set, so that even FORMERR is answered with OPT (RFC 6891 7). */
static bool query_opt(struct dns_query *out, const uint8_t *msg, const struct dns_rr *rr)
{
    if (out->has_opt || !owner_is_root(rr))
        return false;
    out->has_opt = true;
    if (rr->rclass > DNS_UDP_CLASSIC)
        out->udp_size = rr->rclass;
    out->edns_version = (uint8_t)(rr->ttl >> 16);
    out->ext_flags = (uint16_t)rr->ttl;
    if (out->edns_version > 0)
        return true;
    if (!edns_options_valid(msg + rr->rdata, rr->rdlength))
        return false;
    out->options = msg + rr->rdata;
    out->options_len = rr->rdlength;
    return true;
}

/* Notes a sound OPT of a query that is refused for something else, as far as the message can be
 * read: who sent OPT gets OPT (RFC 6891 6.1.1). */
static void query_find_opt(struct dns_query *out, const uint8_t *msg, size_t len)
{
    size_t pos = DNS_HEADER_SIZE;
    unsigned before = dns_read16(msg + ANCOUNT) + dns_read16(msg + NSCOUNT);
    unsigned records = before + dns_read16(msg + ARCOUNT);
    struct dns_rr rr;

    for (unsigned left = dns_read16(msg + QDCOUNT); left > 0; left--) {
        if (!name_skip(msg, len, &pos) || len - pos < 4)
            return;
        pos += 4;
    }
    for (unsigned i = 0; i < records && rr_read(&rr, msg, len, pos); i++) {
        if (rr.type == RR_OPT && i >= before) {
            (void)query_opt(out, msg, &rr);
            return;
        }
        pos = rr.end;
    }
}

enum query_problem query_parse(struct dns_query *out, const uint8_t *msg, size_t len)
{
    *out = (struct dns_query){.udp_size = DNS_UDP_CLASSIC};
    if (len < DNS_HEADER_SIZE)
        return QUERY_SHORT;
    out->id = dns_read16(msg);
    out->flags = dns_read16(msg + 2);
    if (out->flags & DNS_QR)
        return QUERY_RESPONSE;

    size_t pos = DNS_HEADER_SIZE;
    if (dns_read16(msg + QDCOUNT) > 0 && question_read(msg, len, &pos, &out->qname_len)) {
        out->qname = msg + DNS_HEADER_SIZE;
        out->qtype = dns_read16(msg + pos - 4);
        out->qclass = dns_read16(msg + pos - 2);
    }
    if (out->flags & DNS_OPCODE) {
        query_find_opt(out, msg, len);
        return QUERY_OPCODE;
    }
    if (out->qname == NULL || dns_read16(msg + QDCOUNT) != 1 ||
        dns_read16(msg + ANCOUNT) != 0 || dns_read16(msg + NSCOUNT) != 0) {
        query_find_opt(out, msg, len);
        return QUERY_FORMERR;
    }

    for (unsigned left = dns_read16(msg + ARCOUNT); left > 0; left--) {
        struct dns_rr rr;
        if (!rr_read(&rr, msg, len, pos))
            return QUERY_FORMERR;
        if (rr.type == RR_OPT && !query_opt(out, msg, &rr))
            return QUERY_FORMERR;
        pos = rr.end;
    }
    if (pos != len)
        return QUERY_FORMERR;
    return out->edns_version > 0 ? QUERY_BADVERS : QUERY_OK;
}

/* The rdata is what its type says: every part there, every name sound, nothing left over.
 * Names may point out of the rdata backwards; what stands in place must not pass its end. */
static bool rdata_valid(const uint8_t *msg, const struct dns_rr *rr)
{
    const struct rrtype_layout *l = rrtype_layout(rr->type);
    size_t pos = rr->rdata;

    if (l->prefix > rr->end - pos)
        return false;
    pos += l->prefix;
    for (unsigned i = 0; i < l->strings; i++) {
        if (pos >= rr->end || msg[pos] >= rr->end - pos)
            return false;
        pos += 1 + (size_t)msg[pos];
    }
    for (unsigned i = 0; i < l->names; i++) {
        if (!name_skip(msg, rr->end, &pos))
            return false;
    }
    return l->tail_any ? rr->end - pos >= l->tail : rr->end - pos == l->tail;
}

/* Takes an OPT record of a reply in. */
static bool reply_opt(struct dns_reply *out, const struct dns_rr *rr)
{
    if (out->has_opt || !owner_is_root(rr) || rr->section != DNS_ADDITIONAL)
        return false;
    if (!edns_options_valid(out->msg + rr->rdata, rr->rdlength))
        return false;
    out->has_opt = true;
    out->opt_pos = rr->pos;
    out->opt_len = rr->end - rr->pos;
    out->rcode |= (uint16_t)(rr->ttl >> 24 << 4);
    out->ext_flags = (uint16_t)rr->ttl;
    out->options = out->msg + rr->rdata;
    out->options_len = rr->rdlength;
    return true;
}

static bool reply_rr(struct dns_reply *out, const struct dns_rr *rr)
{
    if (rr->type == RR_OPT)
        return reply_opt(out, rr);
    return rr->rclass == DNS_CLASS_IN && !rrtype_is_meta(rr->type) && rdata_valid(out->msg, rr);
}

/* Header and question; returns where the question ends, 0 when they are off. */
static size_t reply_head(struct dns_reply *out, const uint8_t *msg, size_t len)
{
    if (len < DNS_HEADER_SIZE || len > DNS_MESSAGE_MAX)
        return 0;
    *out = (struct dns_reply){
        .msg = msg,
        .len = len,
        .id = dns_read16(msg),
        .flags = dns_read16(msg + 2),
        .rcode = msg[3] & DNS_RCODE,
        .count = {dns_read16(msg + ANCOUNT), dns_read16(msg + NSCOUNT),
                  dns_read16(msg + ARCOUNT)},
    };
    if ((out->flags & (DNS_QR | DNS_OPCODE)) != DNS_QR || dns_read16(msg + QDCOUNT) != 1)
        return 0;
    size_t pos = DNS_HEADER_SIZE;
    if (!question_read(msg, len, &pos, &out->qname_len))
        return 0;
    out->qname = msg + DNS_HEADER_SIZE;
    out->qtype = dns_read16(msg + pos - 4);
    out->qclass = dns_read16(msg + pos - 2);
    return pos;
}

bool reply_parse(struct dns_reply *out, const uint8_t *msg, size_t len)
{
    size_t pos = reply_head(out, msg, len);
    if (pos == 0)
        return false;
    for (unsigned section = 0; section < DNS_SECTIONS; section++) {
        out->section[section] = pos;
        for (unsigned left = out->count[section]; left > 0; left--) {
            struct dns_rr rr = {.section = (enum dns_section)section};
            if (!rr_read(&rr, msg, len, pos) || !reply_rr(out, &rr))
                return false;
            pos = rr.end;
        }
    }
    return pos == len;
}

void walk_start(struct dns_walk *w, const struct dns_reply *reply)
{
    w->reply = reply;
    w->pos = reply->section[DNS_ANSWER];
    memcpy(w->left, reply->count, sizeof w->left);
    w->section = DNS_ANSWER;
}

/* Behind the name in place, whose soundness reply_parse() has seen to. */
static inline size_t name_behind(const uint8_t *msg, size_t pos)
{
    while (msg[pos] != 0) {
        if (msg[pos] > DNS_LABEL_MAX)
            return pos + 2;
        pos += 1 + (size_t)msg[pos];
    }
    return pos + 1;
}

bool walk_next(struct dns_walk *w, struct dns_rr *rr)
{
    while (w->left[w->section] == 0) {
        if (w->section == DNS_ADDITIONAL)
            return false;
        w->section++;
    }
    w->left[w->section]--;
    rr->pos = w->pos;
    rr->fixed = name_behind(w->reply->msg, w->pos);
    rr->section = w->section;
    if (!fixed_read(rr, w->reply->msg, w->reply->len))
        return false;
    w->pos = rr->end;
    return true;
}

bool reply_matches(const struct dns_reply *r, const uint8_t *qname, size_t qname_len,
                   uint16_t qtype, bool exact_case)
{
    if (r->qtype != qtype || r->qclass != DNS_CLASS_IN)
        return false;
    if (exact_case)
        return r->qname_len == qname_len && memcmp(r->qname, qname, qname_len) == 0;
    return name_equal(r->qname, r->qname_len, qname, qname_len);
}

/* A TTL with the top bit set is a large one (RFC 8767 4), not the 0 of RFC 2181 8. */
static uint32_t ttl_value(uint32_t ttl)
{
    return ttl > INT32_MAX ? INT32_MAX : ttl;
}

uint32_t reply_answer_ttl(const struct dns_reply *r)
{
    uint32_t least = UINT32_MAX;
    struct dns_walk w;
    struct dns_rr rr;

    walk_start(&w, r);
    while (walk_next(&w, &rr) && rr.section == DNS_ANSWER) {
        uint32_t ttl = ttl_value(rr.ttl);
        if (ttl < least)
            least = ttl;
    }
    return least;
}

bool reply_negative_ttl(const struct dns_reply *r, uint32_t *ttl)
{
    struct dns_walk w;
    struct dns_rr rr;

    walk_start(&w, r);
    while (walk_next(&w, &rr) && rr.section != DNS_ADDITIONAL) {
        if (rr.section != DNS_AUTHORITY || rr.type != RR_SOA)
            continue;
        uint32_t own = ttl_value(rr.ttl);
        uint32_t minimum = ttl_value(dns_read32(r->msg + rr.end - 4));
        *ttl = own < minimum ? own : minimum;
        return true;
    }
    return false;
}
