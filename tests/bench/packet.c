/* packet.c - what the engines that keep whole packets share; see engine.h. */
#include <string.h>

#include "dns/name.h"
#include "engine.h"

size_t packet_key(const struct cache_key *key, uint8_t *out)
{
    name_lower(out, key->qname, key->qname_len);
    uint8_t *p = out + key->qname_len;
    dns_write16(p, key->qtype);
    p[2] = (uint8_t)(key->dnssec_ok | key->checking_disabled << 1);
    p += 3;
    if (key->subnet != NULL) {
        p[0] = key->subnet->family;
        p[1] = key->subnet->source;
        size_t n = (key->subnet->source + 7u) / 8;
        memcpy(p + 2, key->subnet->ip, n);
        p += 2 + n;
    }
    return (size_t)(p - out);
}

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t packet_hash(const uint8_t *data, size_t len)
{
    uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), v;
    for (; len >= 8; data += 8, len -= 8) {
        memcpy(&v, data, 8);
        h = mix(h ^ v, UINT64_C(0xa0761d6478bd642f));
    }
    v = 0;
    memcpy(&v, data, len);
    return mix(h ^ v, UINT64_C(0xe7037ed1a0b428db));
}

/* The packet passed reply_parse() once: no check is needed to step over it. */
static uint8_t *skip_name(uint8_t *p)
{
    while (*p != 0 && *p < 0xc0)
        p += 1 + *p;
    return p + (*p == 0 ? 1 : 2);
}

size_t packet_answer(uint8_t *out, const uint8_t *packet, size_t len,
                     const struct cache_key *key, uint32_t age_s)
{
    memcpy(out, packet, len);
    dns_write16(out, 0);
    memcpy(out + DNS_HEADER_SIZE, key->qname, key->qname_len);
    uint8_t *p = out + DNS_HEADER_SIZE + key->qname_len + 4;
    size_t records = (size_t)dns_read16(out + 6) + dns_read16(out + 8) + dns_read16(out + 10);
    for (; records > 0; records--) {
        p = skip_name(p);
        uint32_t ttl = dns_read32(p + 4);
        dns_write32(p + 4, ttl > age_s ? ttl - age_s : 1);
        p += DNS_RR_FIXED + dns_read16(p + 8);
    }
    return len;
}
