/* wire.h - octets, constants of the wire format (RFC 1035 4, RFC 6891, RFC 8914). */
#ifndef PITH_DNS_WIRE_H
#define PITH_DNS_WIRE_H

#include <stdint.h>
#include <string.h>

enum {
    DNS_HEADER_SIZE = 12,
    DNS_NAME_MAX = 255,      /* octets of a name, root label included (RFC 1035 2.3.4) */
    DNS_LABEL_MAX = 63,
    DNS_MESSAGE_MAX = 65535,
    DNS_UDP_CLASSIC = 512,   /* without EDNS (RFC 1035 4.2.1) */
    DNS_UDP_SIZE = 1232,     /* ours, unfragmented on every path (RFC 9715) */
    DNS_RR_FIXED = 10,       /* type, class, TTL, RDLENGTH after the owner */
    DNS_OPT_FIXED = 11,      /* an OPT record without options */
};

/* flags, as in octets 2 and 3 read as one number */
enum {
    DNS_QR = 0x8000,
    DNS_OPCODE = 0x7800,
    DNS_AA = 0x0400,
    DNS_TC = 0x0200,
    DNS_RD = 0x0100,
    DNS_RA = 0x0080,
    DNS_Z = 0x0040,
    DNS_AD = 0x0020,
    DNS_CD = 0x0010,
    DNS_RCODE = 0x000f,
};

enum {
    DNS_RCODE_NOERROR = 0,
    DNS_RCODE_FORMERR = 1,
    DNS_RCODE_SERVFAIL = 2,
    DNS_RCODE_NXDOMAIN = 3,
    DNS_RCODE_NOTIMP = 4,
    DNS_RCODE_REFUSED = 5,
    DNS_RCODE_BADVERS = 16,
    DNS_RCODE_BADCOOKIE = 23,
};

enum { DNS_CLASS_IN = 1, DNS_CLASS_CH = 3, DNS_CLASS_ANY = 255 };

enum dns_option {
    DNS_OPTION_ECS = 8,        /* RFC 7871 */
    DNS_OPTION_COOKIE = 10,    /* RFC 7873 */
    DNS_OPTION_KEEPALIVE = 11, /* RFC 7828 */
    DNS_OPTION_PADDING = 12,   /* RFC 7830 */
    DNS_OPTION_EDE = 15,       /* RFC 8914 */
};

/* Extended DNS errors (RFC 8914 4) that pith itself gives. */
enum dns_ede {
    DNS_EDE_NONE = 0xffff, /* not a code on the wire */
    DNS_EDE_OTHER = 0,
    DNS_EDE_STALE = 3,
    DNS_EDE_CACHED_ERROR = 13,
    DNS_EDE_NOT_READY = 14,
    DNS_EDE_BLOCKED = 15,
    DNS_EDE_PROHIBITED = 18,
    DNS_EDE_STALE_NXDOMAIN = 19,
    DNS_EDE_NO_REACHABLE_AUTHORITY = 22,
    DNS_EDE_NETWORK_ERROR = 23,
};

enum dns_section { DNS_ANSWER, DNS_AUTHORITY, DNS_ADDITIONAL, DNS_SECTIONS };

static inline uint16_t dns_read16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t dns_read32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Written as one store each: compilers do not see that in shifted octets when a part of the value
 * is known. */
static inline void dns_write16(uint8_t *p, uint16_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap16(v);
#endif
    memcpy(p, &v, sizeof v);
}

static inline void dns_write32(uint8_t *p, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap32(v);
#endif
    memcpy(p, &v, sizeof v);
}

static inline void dns_write64(uint8_t *p, uint64_t v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    memcpy(p, &v, sizeof v);
}

#endif
