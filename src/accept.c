/* accept.c - from upstream's reply to the message that is kept. */
#include "accept.h"

#include <string.h>

#include "core/log.h"
#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"

enum { CHAIN_MAX = 20 }; /* aliases followed; what lies behind is dropped */

/* What the walk over the records learns. */
struct ttls {
    uint32_t answer;    /* smallest of the answer section */
    uint32_t authority; /* smallest of the authority section */
    uint32_t negative;  /* min(SOA TTL, MINIMUM, cap) */
    bool has_soa;
    bool has_type; /* a record of the type asked */
};

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* RFC 8767 4: the top bit makes it huge, not negative. */
static uint32_t clamp_ttl(uint32_t ttl, const struct config *config)
{
    if (ttl & 0x80000000)
        ttl = config->max_ttl_s;
    if (ttl < config->min_ttl_s)
        ttl = config->min_ttl_s;
    return min_u32(ttl, config->max_ttl_s);
}

/* Records that answer DO alone (RFC 4035 3.2.1) stay away from who did not set it. */
static bool unasked(const struct dns_rr *rr, const struct cache_key *key)
{
    if (key->dnssec_ok || rr->type == key->qtype)
        return false;
    return rr->type == RR_RRSIG || rr->type == RR_NSEC || rr->type == RR_NSEC3;
}

/* The negative life by the SOA in expanded rdata: MINIMUM is its last 4 octets (RFC 2308 5). */
static uint32_t negative_ttl(uint32_t ttl, const uint8_t *rdata, size_t len,
                             const struct config *config)
{
    uint32_t minimum = dns_read32(rdata + len - 4);

    if (ttl & 0x80000000)
        ttl = config->negative_max_ttl_s;
    if (minimum & 0x80000000)
        minimum = config->negative_max_ttl_s;
    return min_u32(min_u32(ttl, minimum), config->negative_max_ttl_s);
}

static bool copy_record(struct dns_builder *b, const struct dns_reply *reply,
                        const struct dns_rr *rr, struct ttls *t, const struct config *config,
                        bool negative)
{
    uint8_t owner[DNS_NAME_MAX];
    static _Thread_local uint8_t rdata[DNS_MESSAGE_MAX];
    size_t pos = rr->pos;
    size_t owner_len = name_expand(reply->msg, reply->len, &pos, owner);
    size_t rdata_len = rdata_expand(reply, rr, rdata, sizeof rdata);
    uint32_t ttl = clamp_ttl(rr->ttl, config);

    if (owner_len == 0 || rdata_len == SIZE_MAX)
        return false;
    if (rr->section == DNS_AUTHORITY && rr->type == RR_SOA && negative && rdata_len > 20) {
        ttl = negative_ttl(rr->ttl, rdata, rdata_len, config);
        t->negative = t->has_soa ? min_u32(t->negative, ttl) : ttl;
        t->has_soa = true;
    } else if (rr->section == DNS_ANSWER) {
        t->answer = min_u32(t->answer, ttl);
    } else if (rr->section == DNS_AUTHORITY) {
        t->authority = min_u32(t->authority, ttl);
    }
    return build_rr(b, rr->section, owner, owner_len, rr->type, rr->rclass, ttl, rdata,
                    rdata_len);
}

/* The names that the answer is about: the qname and what its aliases lead to. */
struct chain {
    size_t n;
    uint8_t len[CHAIN_MAX];
    uint8_t name[CHAIN_MAX][DNS_NAME_MAX];
};

static bool chain_has(const struct chain *c, const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < c->n; i++)
        if (name_equal(c->name[i], c->len[i], name, len))
            return true;
    return false;
}

static bool chain_add(struct chain *c, const uint8_t *name, size_t len)
{
    if (c->n == CHAIN_MAX || chain_has(c, name, len))
        return false;
    memcpy(c->name[c->n], name, len);
    c->len[c->n++] = (uint8_t)len;
    return true;
}

/* Follows the CNAMEs of the answer section, in whatever order they stand. */
static void chain_follow(struct chain *c, const struct dns_reply *reply)
{
    bool longer = true;

    c->n = 0;
    (void)chain_add(c, reply->qname, reply->qname_len);
    while (longer) {
        struct dns_walk w;
        struct dns_rr rr;

        longer = false;
        walk_start(&w, reply);
        while (walk_next(&w, &rr) && rr.section == DNS_ANSWER) {
            uint8_t owner[DNS_NAME_MAX], target[DNS_NAME_MAX];
            size_t pos = rr.pos, at = rr.rdata;
            size_t owner_len, target_len;

            if (rr.type != RR_CNAME)
                continue;
            owner_len = name_expand(reply->msg, reply->len, &pos, owner);
            target_len = name_expand(reply->msg, reply->len, &at, target);
            if (chain_has(c, owner, owner_len) && chain_add(c, target, target_len))
                longer = true;
        }
    }
}

/* A record of the answer section that is about no name of the chain is nobody's answer: clients
 * that cache must not be fed with it (RFC 2181 5.4.1). A DNAME is about the names below it. */
static bool stray(const struct chain *c, const struct dns_reply *reply, const struct dns_rr *rr)
{
    uint8_t owner[DNS_NAME_MAX];
    size_t pos = rr->pos;
    size_t len;

    if (rr->section != DNS_ANSWER)
        return false;
    len = name_expand(reply->msg, reply->len, &pos, owner);
    for (size_t i = 0; i < c->n; i++)
        if (name_below(c->name[i], c->len[i], owner, len) &&
            (c->len[i] == len || rr->type == RR_DNAME || rr->type == RR_RRSIG))
            return false;
    return true;
}

/* RFC 2308 2: NXDOMAIN, or NOERROR without a record of the type asked that is passed on. */
static bool is_negative(const struct dns_reply *reply, const struct chain *chain)
{
    struct dns_walk w;
    struct dns_rr rr;

    if (reply->rcode == DNS_RCODE_NXDOMAIN)
        return true;
    if (reply->rcode != DNS_RCODE_NOERROR)
        return false;
    walk_start(&w, reply);
    while (walk_next(&w, &rr) && rr.section == DNS_ANSWER)
        if (rr.type == reply->qtype && !stray(chain, reply, &rr))
            return false;
    return true;
}

static bool rewrite(struct accepted *out, uint8_t *buf, size_t size,
                    const struct dns_reply *reply, const struct cache_key *key,
                    const struct config *config, struct ttls *t)
{
    struct dns_builder b;
    struct dns_walk w;
    struct dns_rr rr;
    uint16_t flags = (uint16_t)(DNS_QR | DNS_RA | DNS_RD | (out->rcode & DNS_RCODE));
    struct chain chain;

    chain_follow(&chain, reply);
    out->negative = is_negative(reply, &chain);
    if (!build_start(&b, buf, size, 0, flags, reply->qname, reply->qname_len, reply->qtype,
                     DNS_CLASS_IN))
        return false;
    walk_start(&w, reply);
    while (walk_next(&w, &rr))
        if (rr.type != RR_OPT && !unasked(&rr, key) && !stray(&chain, reply, &rr) &&
            !copy_record(&b, reply, &rr, t, config, out->negative))
            return false;
    return reply_parse(&out->reply, buf, build_finish(&b));
}

/* RFC 7871 7.3: an option in the reply must be about what was asked. */
static bool take_subnet(struct accepted *out, const struct dns_reply *reply,
                        const struct cache_key *key)
{
    size_t len;
    const uint8_t *data;
    struct ecs got;

    data = edns_option(reply->options, reply->options_len, DNS_OPTION_ECS, &len);
    if (!data || !key->subnet)
        return true;
    if (!ecs_parse(&got, data, len) || !ecs_equal(&got, key->subnet))
        return false;
    out->scope = key->subnet->source > 0 ? got.scope : 0;
    return true;
}

static void take_error(struct accepted *out, const struct dns_reply *reply)
{
    size_t len;
    const uint8_t *data = edns_option(reply->options, reply->options_len, DNS_OPTION_EDE, &len);

    out->ede = DNS_EDE_NONE;
    if (!data || len < 2)
        return;
    out->ede = dns_read16(data);
    data += 2;
    len -= 2;
    if (len > sizeof out->ede_text - 1) {
        len = sizeof out->ede_text - 1;
        /* Not within a character of UTF-8 (RFC 8914 2): what is cut begins with a whole one. */
        while (len > 0 && (data[len] & 0xc0) == 0x80)
            len--;
    }
    memcpy(out->ede_text, data, len);
    out->ede_text[len] = '\0';
}

static void decide_life(struct accepted *out, const struct ttls *t, const struct config *config)
{
    if (out->failure) {
        out->life_s = config->failure_ttl_s;
        out->max_age_s = 0;
        return;
    }
    if (out->negative) {
        /* Without a SOA it is nobody's word on how long (RFC 2308 5). */
        out->life_s = t->has_soa ? min_u32(t->negative, t->answer) : 0;
        out->max_age_s = out->life_s;
        out->scope = 0; /* RFC 7871 7.4 */
        return;
    }
    out->life_s = min_u32(t->answer, t->authority);
    out->max_age_s = t->answer;
}

bool accept_reply(struct accepted *out, uint8_t *buf, size_t size,
                  const struct dns_reply *reply, const struct cache_key *key,
                  const struct config *config)
{
    struct ttls t = {.answer = UINT32_MAX, .authority = UINT32_MAX};

    *out = (struct accepted){
        .rcode = reply->rcode,
        .failure = reply->rcode != DNS_RCODE_NOERROR && reply->rcode != DNS_RCODE_NXDOMAIN,
        .authentic = reply->flags & DNS_AD,
    };
    /* What we asked was well formed: that upstream did not think so is its failure. RCODEs
     * above 15 are about the hop to upstream (BADVERS, BADCOOKIE). */
    if (out->rcode == DNS_RCODE_FORMERR || out->rcode > 15)
        out->rcode = DNS_RCODE_SERVFAIL;
    take_error(out, reply);
    if (!take_subnet(out, reply, key)) {
        log_debug("reply dropped: its client subnet is not the one asked for");
        return false;
    }
    if (!rewrite(out, buf, size, reply, key, config, &t))
        return false;
    decide_life(out, &t, config);
    return true;
}

bool accept_failure(struct accepted *out, uint8_t *buf, size_t size,
                    const struct cache_key *key, const struct config *config)
{
    struct dns_builder b;

    *out = (struct accepted){
        .rcode = DNS_RCODE_SERVFAIL,
        .failure = true,
        .life_s = config->failure_ttl_s,
        .ede = DNS_EDE_NONE,
    };
    return build_start(&b, buf, size, 0, DNS_QR | DNS_RA | DNS_RD | DNS_RCODE_SERVFAIL,
                       key->qname, key->qname_len, key->qtype, DNS_CLASS_IN) &&
           reply_parse(&out->reply, buf, build_finish(&b));
}
