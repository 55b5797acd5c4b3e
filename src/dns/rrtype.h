/* rrtype.h - resource record types and where names lie in their rdata. */
#ifndef PITH_DNS_RRTYPE_H
#define PITH_DNS_RRTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rrtype {
    RR_A = 1, RR_NS = 2, RR_MD = 3, RR_MF = 4, RR_CNAME = 5, RR_SOA = 6, RR_MB = 7, RR_MG = 8,
    RR_MR = 9, RR_NULL = 10, RR_WKS = 11, RR_PTR = 12, RR_HINFO = 13, RR_MINFO = 14, RR_MX = 15,
    RR_TXT = 16, RR_RP = 17, RR_AFSDB = 18, RR_RT = 21, RR_SIG = 24, RR_PX = 26, RR_AAAA = 28,
    RR_NXT = 30, RR_SRV = 33, RR_NAPTR = 35, RR_DNAME = 39, RR_OPT = 41, RR_DS = 43,
    RR_RRSIG = 46, RR_NSEC = 47, RR_DNSKEY = 48, RR_NSEC3 = 50, RR_SVCB = 64, RR_HTTPS = 65,
    RR_TKEY = 249, RR_TSIG = 250, RR_IXFR = 251, RR_AXFR = 252, RR_MAILB = 253, RR_MAILA = 254,
    RR_ANY = 255, RR_CAA = 257,
};

/* How a type's rdata is laid out for (de)compression. An rdata of such a type is:
 *   prefix octets, then `names` names one after the other, then the rest, with an exact
 *   length unless tail_any. NAPTR has three character-strings after its 4 fixed octets, which
 *   strings counts. */
struct rrtype_layout {
    uint8_t prefix;   /* octets before the first name (or the strings) */
    uint8_t strings;  /* character-strings after the prefix */
    uint8_t names;    /* 0: opaque, copied byte for byte */
    uint8_t tail;     /* octets after the names */
    bool tail_any;    /* any number of octets after the names */
    bool compress;    /* RFC 1035 type: names may be compressed when sent (RFC 3597 4) */
    bool may_come_compressed; /* accepted compressed, stored expanded (RFC 3597 4) */
};

/* Never NULL; the layout of unknown types says opaque. */
const struct rrtype_layout *rrtype_layout(uint16_t type);

/* Types that only a question or a transaction has: OPT, 249..255 (and 128..248, RFC 6895 3.1,
 * are not: they stay opaque). Such a type is never a record of an answer. */
bool rrtype_is_meta(uint16_t type);

/* "A", "HTTPS", "TYPE65280"; out has 16 octets. Returns out. */
const char *rrtype_to_text(uint16_t type, char *out);
/* From a mnemonic in any case, TYPE123, or a plain number; false when unknown. */
bool rrtype_from_text(uint16_t *type, const char *text);

#endif
