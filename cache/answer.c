/* answer.c - from a record to an answer. */
#include "cache/answer.h"

#include <string.h>

#include "dns/build.h"
#include "dns/name.h"
#include "dns/rrtype.h"

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

/* UNIFORM of a type whose rdata goes out as it is. */
static size_t sized(uint8_t *out, size_t size, const struct cache_key *key,
                    const struct cache_record *r, const uint8_t *end, uint32_t ttl)
{
    size_t most = DNS_HEADER_SIZE + key->qname_len + 4 + r->count * (size_t)ANSWER_RR +
                  (size_t)(end - r->body);
    if (size < most)
        return 0;
    uint8_t *p = answer_start(out, key, r);
    const uint8_t *s = r->body;
    for (unsigned i = 0; i < r->count; i++) {
        size_t n = *s++;
        if (n == 255) {
            uint16_t n16;
            memcpy(&n16, s, sizeof n16);
            n = n16;
            s += sizeof n16;
        }
        answer_rr(p, r->type, ttl, n);
        memcpy(p + ANSWER_RR, s, n);
        p += ANSWER_RR + n;
        s += n;
    }
    return (size_t)(p - out);
}

size_t cache_answer_list(uint8_t *out, size_t size, const struct cache_key *key,
                         const struct cache_record *r, const uint8_t *end, int32_t left_s,
                         uint32_t stale_ttl_s, uint32_t *max_age_s)
{
    uint8_t space[DNS_NAME_MAX];
    struct dns_builder b;
    struct cache_walk w;
    struct cache_rr rr;
    uint16_t flags = (uint16_t)(DNS_QR | DNS_RA | (r->rcode & DNS_RCODE));
    bool positive = false;

    if (r->form == FORM_UNIFORM && r->type != RR_A && r->type != RR_AAAA &&
        !rrtype_layout(r->type)->compress) {
        *max_age_s = left_s > 0 ? (uint32_t)left_s : stale_ttl_s;
        return sized(out, size, key, r, end, *max_age_s);
    }
    *max_age_s = UINT32_MAX;
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
