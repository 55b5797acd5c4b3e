/* rrtype.c - rdata layouts and mnemonics of resource record types. */
#include "dns/rrtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Rows without an entry here are opaque: any number of octets, copied as they are. RRSIG and
 * NSEC stay opaque though they have names: those are never compressed (RFC 4034 3.1.7, 4.1.1).
 */
static const struct rrtype_layout opaque = {.tail_any = true};

/* A name of an RFC 1035 type, and one that is only decompressed (RFC 3597 4). */
#define CLASSIC .compress = true, .may_come_compressed = true
#define EXPANDED .may_come_compressed = true

static const struct rrtype_layout layouts[] = {
    [RR_A] = {.prefix = 4},
    [RR_NS] = {.names = 1, CLASSIC},
    [RR_MD] = {.names = 1, CLASSIC},
    [RR_MF] = {.names = 1, CLASSIC},
    [RR_CNAME] = {.names = 1, CLASSIC},
    [RR_SOA] = {.names = 2, .tail = 20, CLASSIC},
    [RR_MB] = {.names = 1, CLASSIC},
    [RR_MG] = {.names = 1, CLASSIC},
    [RR_MR] = {.names = 1, CLASSIC},
    [RR_PTR] = {.names = 1, CLASSIC},
    [RR_MINFO] = {.names = 2, CLASSIC},
    [RR_MX] = {.prefix = 2, .names = 1, CLASSIC},
    [RR_RP] = {.names = 2, EXPANDED},
    [RR_AFSDB] = {.prefix = 2, .names = 1, EXPANDED},
    [RR_RT] = {.prefix = 2, .names = 1, EXPANDED},
    [RR_SIG] = {.prefix = 18, .names = 1, .tail_any = true, EXPANDED},
    [RR_PX] = {.prefix = 2, .names = 2, EXPANDED},
    [RR_AAAA] = {.prefix = 16},
    [RR_NXT] = {.names = 1, .tail_any = true, EXPANDED},
    [RR_SRV] = {.prefix = 6, .names = 1, EXPANDED},
    [RR_NAPTR] = {.prefix = 4, .strings = 3, .names = 1, EXPANDED},
    [RR_DNAME] = {.names = 1, EXPANDED},
};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

const struct rrtype_layout *rrtype_layout(uint16_t type)
{
    if (type >= LAYOUTS)
        return &opaque;
    const struct rrtype_layout *l = &layouts[type];
    /* a row that nobody filled has no prefix and no name */
    return l->prefix | l->names ? l : &opaque;
}

bool rrtype_is_meta(uint16_t type)
{
    return type == RR_OPT || (type >= RR_TKEY && type <= RR_ANY);
}

/* The IANA registry's mnemonics, by type. */
static const struct mnemonic {
    uint16_t type;
    char text[14];
} mnemonics[] = {
    {1, "A"},           {2, "NS"},       {3, "MD"},        {4, "MF"},       {5, "CNAME"},
    {6, "SOA"},         {7, "MB"},       {8, "MG"},        {9, "MR"},       {10, "NULL"},
    {11, "WKS"},        {12, "PTR"},     {13, "HINFO"},    {14, "MINFO"},   {15, "MX"},
    {16, "TXT"},        {17, "RP"},      {18, "AFSDB"},    {19, "X25"},     {20, "ISDN"},
    {21, "RT"},         {22, "NSAP"},    {23, "NSAP-PTR"}, {24, "SIG"},     {25, "KEY"},
    {26, "PX"},         {27, "GPOS"},    {28, "AAAA"},     {29, "LOC"},     {30, "NXT"},
    {31, "EID"},        {32, "NIMLOC"},  {33, "SRV"},      {34, "ATMA"},    {35, "NAPTR"},
    {36, "KX"},         {37, "CERT"},    {38, "A6"},       {39, "DNAME"},   {40, "SINK"},
    {41, "OPT"},        {42, "APL"},     {43, "DS"},       {44, "SSHFP"},   {45, "IPSECKEY"},
    {46, "RRSIG"},      {47, "NSEC"},    {48, "DNSKEY"},   {49, "DHCID"},   {50, "NSEC3"},
    {51, "NSEC3PARAM"}, {52, "TLSA"},    {53, "SMIMEA"},   {55, "HIP"},     {56, "NINFO"},
    {57, "RKEY"},       {58, "TALINK"},  {59, "CDS"},      {60, "CDNSKEY"}, {61, "OPENPGPKEY"},
    {62, "CSYNC"},      {63, "ZONEMD"},  {64, "SVCB"},     {65, "HTTPS"},   {66, "DSYNC"},
    {99, "SPF"},        {104, "NID"},    {105, "L32"},     {106, "L64"},    {107, "LP"},
    {108, "EUI48"},     {109, "EUI64"},  {128, "NXNAME"},  {249, "TKEY"},   {250, "TSIG"},
    {251, "IXFR"},      {252, "AXFR"},   {253, "MAILB"},   {254, "MAILA"},  {255, "ANY"},
    {256, "URI"},       {257, "CAA"},    {258, "AVC"},     {259, "DOA"},    {260, "AMTRELAY"},
    {261, "RESINFO"},   {262, "WALLET"}, {32768, "TA"},    {32769, "DLV"},
};

enum { MNEMONICS = sizeof mnemonics / sizeof mnemonics[0] };

const char *rrtype_to_text(uint16_t type, char *out)
{
    for (size_t i = 0; i < MNEMONICS && mnemonics[i].type <= type; i++) {
        if (mnemonics[i].type == type) {
            snprintf(out, 16, "%s", mnemonics[i].text);
            return out;
        }
    }
    snprintf(out, 16, "TYPE%u", type);
    return out;
}

/* Decimal digits and nothing else, up to 65535. */
static bool number_from_text(uint16_t *number, const char *text)
{
    unsigned value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (unsigned)(*p - '0');
        if (value > UINT16_MAX)
            return false;
    }
    *number = (uint16_t)value;
    return p != text && *p == '\0';
}

bool rrtype_from_text(uint16_t *type, const char *text)
{
    for (size_t i = 0; i < MNEMONICS; i++) {
        if (strcasecmp(text, mnemonics[i].text) == 0) {
            *type = mnemonics[i].type;
            return true;
        }
    }
    return number_from_text(type, strncasecmp(text, "TYPE", 4) == 0 ? text + 4 : text);
}
