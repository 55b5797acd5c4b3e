/* ecs.c - reading and writing the client subnet option. */
#include "dns/ecs.h"

#include <string.h>

#include "dns/wire.h"

/* Option data (RFC 7871 6); the address has only the octets that source covers:
 *
 *   0        2        3       4
 *   +--------+--------+-------+----------
 *   | family | source | scope | address
 *   +--------+--------+-------+----------
 */
enum { ECS_HEAD = 4, FAMILY_IPV4 = 1, FAMILY_IPV6 = 2 };

static uint8_t family_bits(uint8_t family)
{
    return (uint8_t)(addr_ip_len(family) * 8);
}

/* Clears the bits of ip from `bits` on. */
static void clear_from(uint8_t ip[16], uint8_t bits)
{
    size_t whole = bits / 8u;
    if (whole >= 16)
        return;
    ip[whole] &= (uint8_t)(0xff00u >> (bits % 8u));
    memset(ip + whole + 1, 0, 16 - whole - 1);
}

bool ecs_parse(struct ecs *out, const uint8_t *data, size_t len)
{
    if (len < ECS_HEAD)
        return false;
    uint16_t family = dns_read16(data);
    if (family != FAMILY_IPV4 && family != FAMILY_IPV6)
        return false;
    struct ecs e = {
        .family = family == FAMILY_IPV4 ? ADDR_V4 : ADDR_V6,
        .source = data[2],
        .scope = data[3],
    };
    uint8_t bits = family_bits(e.family);
    size_t octets = (e.source + 7u) / 8u;
    if (e.source > bits || e.scope > bits || len - ECS_HEAD != octets)
        return false;
    memcpy(e.ip, data + ECS_HEAD, octets);
    clear_from(e.ip, e.source);
    if (memcmp(e.ip, data + ECS_HEAD, octets) != 0)
        return false;
    *out = e;
    return true;
}

size_t ecs_write(const struct ecs *e, uint8_t *out)
{
    size_t octets = (e->source + 7u) / 8u;
    if (octets > sizeof e->ip)
        octets = sizeof e->ip;
    dns_write16(out, e->family == ADDR_V4 ? FAMILY_IPV4 : FAMILY_IPV6);
    out[2] = e->source;
    out[3] = e->scope;
    memcpy(out + ECS_HEAD, e->ip, octets);
    return ECS_HEAD + octets;
}

bool ecs_from_addr(struct ecs *out, const struct addr *a, uint8_t prefix)
{
    size_t octets = addr_ip_len(a->family);
    if (octets == 0)
        return false;
    *out = (struct ecs){.family = a->family, .source = family_bits(a->family)};
    memcpy(out->ip, a->ip, octets);
    ecs_cut(out, prefix);
    return true;
}

void ecs_cut(struct ecs *e, uint8_t prefix)
{
    if (e->source > prefix)
        e->source = prefix;
    clear_from(e->ip, e->source);
}

bool ecs_equal(const struct ecs *a, const struct ecs *b)
{
    return a->family == b->family && a->source == b->source &&
           memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

bool ecs_prefix_equal(const struct ecs *a, const struct ecs *b, uint8_t bits)
{
    if (a->family != b->family)
        return false;
    if (bits > family_bits(a->family))
        bits = family_bits(a->family);
    size_t whole = bits / 8u;
    if (memcmp(a->ip, b->ip, whole) != 0)
        return false;
    return bits % 8u == 0 || ((a->ip[whole] ^ b->ip[whole]) >> (8u - bits % 8u)) == 0;
}
