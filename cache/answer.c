/* answer.c - from a record to an answer. */
#include "cache/answer.h"

#include <string.h>

#include "dns/build.h"
#include "dns/name.h"
#include "dns/rrtype.h"

static inline uint16_t be16(uint16_t v)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(v) : v;
}

static inline uint32_t be32(uint32_t v)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(v) : v;
}

/* An RR whose owner is the question, up to the rdata, as it lies on the wire. */
struct __attribute__((packed)) rr_head {
    uint16_t owner, type, rclass;
    uint32_t ttl;
    uint16_t rdlength;
};
_Static_assert(sizeof(struct rr_head) == 2 + DNS_RR_FIXED, "as on the wire");

static inline struct rr_head uniform_head(const struct cache_record *r, uint32_t ttl)
{
    return (struct rr_head){
        .owner = be16(0xc000 | DNS_HEADER_SIZE),
        .type = be16(r->type),
        .rclass = be16(DNS_CLASS_IN),
        .ttl = be32(ttl),
    };
}

/* Header and question; returns behind them. */
static uint8_t *start(uint8_t *out, const struct cache_key *key, const struct cache_record *r,
                      unsigned count)
{
    uint8_t *p = out + DNS_HEADER_SIZE;
    dns_write32(out, (uint32_t)DNS_QR | DNS_RA | (r->rcode & DNS_RCODE));
    dns_write32(out + 4, (uint32_t)1 << 16 | count);
    dns_write32(out + 8, 0);
    memcpy(p, key->qname, key->qname_len);
    p += key->qname_len;
    dns_write32(p, (uint32_t)key->qtype << 16 | DNS_CLASS_IN);
    return p + 4;
}

/* A and AAAA: rdata of one size each. */
static inline uint8_t *addresses(uint8_t *p, struct rr_head head, const uint8_t *rdata,
                                 unsigned count, size_t size)
{
    head.rdlength = be16((uint16_t)size);
    for (; count > 0; count--) {
        memcpy(p, &head, sizeof head);
        memcpy(p + sizeof head, rdata, size);
        p += sizeof head + size;
        rdata += size;
    }
    return p;
}

/* Rdata of any size, each with its length. */
static uint8_t *sized(uint8_t *p, struct rr_head head, const struct cache_record *r)
{
    const uint8_t *s = r->body;
    for (unsigned i = 0; i < r->count; i++) {
        size_t n = *s;
        if (r->form == FORM_STRINGS) {
            n++;
        } else if (n == 255) {
            uint16_t n16;
            memcpy(&n16, s + 1, sizeof n16);
            n = n16;
            s += 3;
        } else {
            s++;
        }
        head.rdlength = be16((uint16_t)n);
        memcpy(p, &head, sizeof head);
        memcpy(p + sizeof head, s, n);
        p += sizeof head + n;
        s += n;
    }
    return p;
}

/* UNIFORM and STRINGS without names in rdata. */
static size_t uniform(uint8_t *out, size_t size, const struct cache_key *key,
                      const struct cache_record *r, const uint8_t *end, uint32_t ttl)
{
    struct rr_head head = uniform_head(r, ttl);
    size_t each = r->type == RR_A ? 4 : r->type == RR_AAAA ? 16 : 0;
    size_t rdata = each > 0 ? each * r->count : (size_t)(end - r->body); /* or less */
    if (size < DNS_HEADER_SIZE + key->qname_len + 4 + r->count * sizeof head + rdata)
        return 0;
    uint8_t *p = start(out, key, r, r->count);
    if (each == 4)
        p = addresses(p, head, r->body, r->count, 4);
    else if (each == 16)
        p = addresses(p, head, r->body, r->count, 16);
    else
        p = sized(p, head, r);
    return (size_t)(p - out);
}

/* The owner of a list's RR as octets; NULL for the qname. */
static const uint8_t *owner(const struct cache_key *key, const struct cache_rr *rr,
                            uint8_t *space, size_t *len)
{
    if (rr->owner == OWNER_QNAME)
        return NULL;
    if (rr->owner == OWNER_NAME) {
        *len = rr->name_len;
        return rr->name;
    }
    const uint8_t *q = key->qname;
    size_t left = key->qname_len;
    for (unsigned i = 0; i < rr->skip && q[0] != 0; i++) {
        left -= 1 + (size_t)q[0];
        q += 1 + (size_t)q[0];
    }
    name_lower(space, q, left);
    *len = left;
    return space;
}

static size_t list(uint8_t *out, size_t size, const struct cache_key *key,
                   const struct cache_record *r, const uint8_t *end, int32_t left_s,
                   uint32_t stale_ttl_s, uint32_t *max_age_s)
{
    uint8_t space[DNS_NAME_MAX];
    struct dns_builder b;
    struct cache_walk w;
    struct cache_rr rr;
    uint16_t flags = (uint16_t)(DNS_QR | DNS_RA | (r->rcode & DNS_RCODE));
    bool positive = false;

    if (!build_start(&b, out, size, 0, flags, key->qname, key->qname_len, key->qtype,
                     DNS_CLASS_IN) ||
        !cache_walk_start(&w, r, end))
        return 0;
    while (cache_walk_next(&w, &rr)) {
        size_t owner_len = 0;
        const uint8_t *name = owner(key, &rr, space, &owner_len);
        int64_t aged = (int64_t)left_s + rr.ttl_diff;
        uint32_t ttl = left_s <= 0 ? stale_ttl_s : aged < 1 ? 1 : (uint32_t)aged;
        if (rr.section == DNS_ANSWER && ttl < *max_age_s)
            *max_age_s = ttl;
        if (rr.section == DNS_ANSWER && rr.type == key->qtype)
            positive = true;
        if (!build_rr(&b, rr.section, name, owner_len, rr.type, DNS_CLASS_IN, ttl, rr.rdata,
                      rr.rdata_len))
            return 0;
    }
    /* An alias in front makes a negative answer live no longer than its SOA says. */
    uint32_t life = left_s > 0 ? (uint32_t)left_s : stale_ttl_s;
    if ((!positive || r->rcode == DNS_RCODE_NXDOMAIN) && life < *max_age_s)
        *max_age_s = life;
    return w.bad ? 0 : build_finish(&b);
}

size_t cache_answer_write(uint8_t *out, size_t size, const struct cache_key *key,
                          const struct cache_record *r, const uint8_t *end, int32_t left_s,
                          uint32_t stale_ttl_s, uint32_t *max_age_s)
{
    uint32_t ttl = left_s > 0 ? (uint32_t)left_s : stale_ttl_s;
    if (r->form == FORM_STRINGS ||
        (r->form == FORM_UNIFORM &&
         (r->type == RR_A || r->type == RR_AAAA || rrtype_layout(r->type)->names == 0))) {
        *max_age_s = ttl;
        return uniform(out, size, key, r, end, ttl);
    }
    *max_age_s = UINT32_MAX;
    return list(out, size, key, r, end, left_s, stale_ttl_s, max_age_s);
}
