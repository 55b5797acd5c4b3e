/* made.c - see made.h. */
#include "made.h"

#include <string.h>

#include "dns/rrtype.h"
#include "dns/wire.h"

struct maker {
    struct random *r;
    uint8_t *start, *p;
    const uint8_t *qname;
    size_t qname_len;
    uint16_t qtype;
    uint32_t ttl_s;
};

static bool chance(struct maker *m, uint32_t percent)
{
    return random_below(m->r, 100) < percent;
}

size_t made_name(struct random *r, uint8_t *out, size_t max)
{
    static const char usual[] = "abcdefghijklmnopqrstuvwxyz-ETAOIN0123456789_";
    uint32_t usuals = random_below(r, 2) ? sizeof usual - 1 : 33; /* all, or no digits */
    size_t n = 0, labels = 1 + random_below(r, random_below(r, 8) == 0 ? 20 : 4);
    for (; labels > 0; labels--) {
        size_t len = 1 + random_below(r, random_below(r, 10) == 0 ? 63 : 12);
        if (n + len + 2 > max)
            break;
        out[n++] = (uint8_t)len;
        bool odd = random_below(r, 20) == 0;
        for (size_t k = 0; k < len; k++)
            out[n++] = odd ? (uint8_t)random_next(r) : (uint8_t)usual[random_below(r, usuals)];
    }
    out[n++] = 0;
    return n;
}

static void put8(struct maker *m, unsigned v)
{
    *m->p++ = (uint8_t)v;
}

static void put16(struct maker *m, unsigned v)
{
    dns_write16(m->p, (uint16_t)v);
    m->p += 2;
}

static void put32(struct maker *m, uint32_t v)
{
    dns_write32(m->p, v);
    m->p += 4;
}

static void put_octets(struct maker *m, size_t n)
{
    for (size_t k = 0; k < n; k += 8) {
        uint64_t v = random_next(m->r);
        memcpy(m->p + k, &v, n - k < 8 ? n - k : 8);
    }
    m->p += n;
}

/* A name below a random suffix of the qname, or one from elsewhere; compressed or not. */
static void put_name(struct maker *m, bool compress)
{
    uint8_t name[DNS_NAME_MAX];
    if (chance(m, 20)) {
        size_t n = made_name(m->r, name, chance(m, 90) ? 40 : DNS_NAME_MAX);
        memcpy(m->p, name, n);
        m->p += n;
        return;
    }
    size_t suffix = 0;
    while (m->qname[suffix] != 0 && chance(m, 50))
        suffix += 1u + m->qname[suffix];
    size_t rest = m->qname_len - suffix;
    for (int labels = chance(m, 50) ? 1 : 0; labels > 0 && rest < 200; labels--) {
        size_t n = made_name(m->r, name, 24) - 1;
        memcpy(m->p, name, n);
        m->p += n;
    }
    if (compress && m->qname[suffix] != 0) {
        put16(m, (unsigned)(0xc000 | (DNS_HEADER_SIZE + suffix)));
    } else {
        memcpy(m->p, m->qname + suffix, rest);
        m->p += rest;
    }
}

static void put_strings(struct maker *m, size_t octets)
{
    do {
        size_t n = octets < 255 ? octets : 255;
        put8(m, (unsigned)n);
        put_octets(m, n);
        octets -= n;
    } while (octets > 0);
}

static void put_soa(struct maker *m)
{
    put_name(m, chance(m, 70));
    put_name(m, chance(m, 70));
    put_octets(m, 20);
}

static void put_signature(struct maker *m)
{
    put16(m, RR_A);
    put_octets(m, 16);
    put_name(m, false);
    put_octets(m, chance(m, 50) ? 64 : 256);
}

static void put_service(struct maker *m)
{
    put16(m, 1);
    if (chance(m, 50))
        put8(m, 0);
    else
        put_name(m, false);
    put16(m, 1);
    put16(m, 3);
    memcpy(m->p, "\2h2", 3);
    m->p += 3;
}

static void put_rdata(struct maker *m, uint16_t type)
{
    bool compress = chance(m, 60);
    switch (type) {
    case RR_A:
        put_octets(m, 4);
        break;
    case RR_AAAA:
        put_octets(m, 16);
        break;
    case RR_NS:
    case RR_CNAME:
    case RR_PTR:
    case RR_DNAME:
        put_name(m, compress);
        break;
    case RR_SOA:
        put_soa(m);
        break;
    case RR_MX:
        put_octets(m, 2);
        put_name(m, compress);
        break;
    case RR_RP:
        put_name(m, compress);
        put_name(m, compress);
        break;
    case RR_SRV:
        put_octets(m, 6);
        put_name(m, compress);
        break;
    case RR_NAPTR:
        put_octets(m, 4);
        for (int k = 0; k < 3; k++) {
            size_t n = random_below(m->r, 20);
            put8(m, (unsigned)n);
            put_octets(m, n);
        }
        put_name(m, compress);
        break;
    case RR_TXT:
        put_strings(m, random_below(m->r, chance(m, 10) ? 600 : 80));
        break;
    case RR_HTTPS:
        put_service(m);
        break;
    case RR_RRSIG:
        put_signature(m);
        break;
    case RR_NSEC:
        put_name(m, false);
        memcpy(m->p, "\0\6\100\1\0\0\0\3", 8);
        m->p += 8;
        break;
    default:
        put_octets(m, chance(m, 10) ? 0 : random_below(m->r, 300));
    }
}

static size_t room(const struct maker *m)
{
    return (size_t)(m->start + MADE_MAX - m->p);
}

/* A record of a section (octet of its count in the header). own: the owner is the qname. */
static void put_rr(struct maker *m, size_t section, bool own, uint16_t type, uint32_t ttl_s)
{
    if (room(m) < 3000)
        return;
    if (own)
        put16(m, 0xc000 | DNS_HEADER_SIZE);
    else
        put_name(m, chance(m, 70));
    put16(m, type);
    put16(m, DNS_CLASS_IN);
    put32(m, ttl_s);
    uint8_t *length = m->p;
    m->p += 2;
    put_rdata(m, type);
    dns_write16(length, (uint16_t)(m->p - length - 2));
    size_t at = 6 + 2 * section;
    dns_write16(m->start + at, (uint16_t)(dns_read16(m->start + at) + 1));
}

static uint32_t draw_ttl(struct maker *m)
{
    static const uint32_t usual[] = {1, 5, 30, 60, 300, 3600, 86400};
    return chance(m, 60) ? usual[random_below(m->r, 7)] : 1 + random_below(m->r, 200000);
}

static uint16_t draw_type(struct maker *m)
{
    static const uint16_t types[] = {RR_A,    RR_AAAA,  RR_NS,    RR_CNAME, RR_PTR,    RR_SOA,
                                     RR_MX,   RR_RP,    RR_SRV,   RR_NAPTR, RR_TXT,    RR_HTTPS,
                                     RR_NSEC, RR_RRSIG, RR_DNAME, RR_CAA,   RR_DNSKEY, 65280};
    return types[random_below(m->r, sizeof types / sizeof *types)];
}

static void put_set(struct maker *m, size_t max)
{
    for (size_t n = 1 + random_below(m->r, (uint32_t)max); n > 0; n--)
        put_rr(m, DNS_ANSWER, true, m->qtype, m->ttl_s);
}

/* CNAME to CNAME: each owner is the target before. */
static void put_chain(struct maker *m)
{
    size_t owner = DNS_HEADER_SIZE;
    for (size_t n = 1 + random_below(m->r, 4); n > 0; n--) {
        put16(m, (unsigned)(0xc000 | owner));
        put16(m, RR_CNAME);
        put16(m, DNS_CLASS_IN);
        put32(m, chance(m, 70) ? m->ttl_s : draw_ttl(m));
        uint8_t *length = m->p;
        m->p += 2;
        owner = (size_t)(m->p - m->start);
        put_name(m, chance(m, 60));
        dns_write16(length, (uint16_t)(m->p - length - 2));
        dns_write16(m->start + 6, (uint16_t)(dns_read16(m->start + 6) + 1));
    }
    if (chance(m, 20)) {
        put_rr(m, DNS_AUTHORITY, false, RR_SOA, m->ttl_s);
        return;
    }
    for (size_t n = 1 + random_below(m->r, 4); n > 0; n--) {
        put16(m, (unsigned)(0xc000 | owner));
        put16(m, m->qtype);
        put16(m, DNS_CLASS_IN);
        put32(m, m->ttl_s);
        uint8_t *length = m->p;
        m->p += 2;
        put_rdata(m, m->qtype);
        dns_write16(length, (uint16_t)(m->p - length - 2));
        dns_write16(m->start + 6, (uint16_t)(dns_read16(m->start + 6) + 1));
    }
}

static void put_negative(struct maker *m)
{
    put_rr(m, DNS_AUTHORITY, chance(m, 20), RR_SOA, m->ttl_s);
    if (chance(m, 20)) {
        put_rr(m, DNS_AUTHORITY, false, RR_RRSIG, m->ttl_s);
        put_rr(m, DNS_AUTHORITY, false, RR_NSEC, m->ttl_s);
        put_rr(m, DNS_AUTHORITY, false, RR_RRSIG, m->ttl_s);
    }
    if (chance(m, 50))
        m->start[3] |= DNS_RCODE_NXDOMAIN;
}

static void put_general(struct maker *m, bool odd)
{
    static const uint32_t extreme[] = {1, 0, 2000000, 1000000, 86400, 2};
    for (size_t section = DNS_ANSWER; section < DNS_SECTIONS; section++) {
        for (size_t n = random_below(m->r, odd ? 12 : 5); n > 0; n--)
            put_rr(m, section, chance(m, odd ? 20 : 60), draw_type(m),
                   odd && chance(m, 30) ? extreme[random_below(m->r, 6)]
                   : chance(m, 50)      ? m->ttl_s
                                        : draw_ttl(m));
    }
}

static void put_large(struct maker *m)
{
    size_t want = (size_t)1024 << random_below(m->r, 7);
    want = want > 60000 ? 60000 : want;
    bool mixed = chance(m, 30);
    while ((size_t)(m->p - m->start) < want)
        put_rr(m, DNS_ANSWER, !mixed || chance(m, 90), mixed ? draw_type(m) : m->qtype,
               m->ttl_s);
}

/* An OPT record with the upper octet of the RCODE, which a cache does not keep as a record. */
static void put_opt(struct maker *m, unsigned rcode_upper)
{
    put8(m, 0);
    put16(m, RR_OPT);
    put16(m, DNS_UDP_SIZE);
    put32(m, (uint32_t)rcode_upper << 24);
    put16(m, 0);
    dns_write16(m->start + 10, (uint16_t)(dns_read16(m->start + 10) + 1));
}

size_t made_reply(struct random *r, enum made_shape shape, const uint8_t *qname,
                  size_t qname_len, uint16_t qtype, uint8_t *out)
{
    struct maker m = {
        .r = r, .start = out, .qname = qname, .qname_len = qname_len, .qtype = qtype};
    memset(out, 0, DNS_HEADER_SIZE);
    dns_write16(out, (uint16_t)random_next(r));
    dns_write16(out + 2, DNS_QR | DNS_RD | DNS_RA);
    out[5] = 1;
    m.p = out + DNS_HEADER_SIZE;
    memcpy(m.p, qname, qname_len);
    m.p += qname_len;
    put16(&m, qtype);
    put16(&m, DNS_CLASS_IN);
    m.ttl_s = draw_ttl(&m);
    unsigned upper = 0;
    switch (shape) {
    case MADE_SET:
        put_set(&m, chance(&m, 90) ? 5 : 40);
        break;
    case MADE_CHAIN:
        put_chain(&m);
        break;
    case MADE_NEGATIVE:
        put_negative(&m);
        break;
    case MADE_TTLS:
        for (size_t n = 2 + random_below(r, 4); n > 0; n--)
            put_rr(&m, DNS_ANSWER, true, qtype, draw_ttl(&m));
        break;
    case MADE_EMPTY:
        out[3] = (uint8_t)(out[3] | random_below(r, 16));
        upper = chance(&m, 20) ? random_below(r, 256) : 0;
        break;
    case MADE_LARGE:
        put_large(&m);
        break;
    default:
        put_general(&m, shape == MADE_ODD);
    }
    if (upper > 0 || chance(&m, 30))
        put_opt(&m, upper);
    return (size_t)(m.p - out);
}
