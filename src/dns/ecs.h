/* ecs.h - the client subnet option (RFC 7871 6). */
#ifndef PITH_DNS_ECS_H
#define PITH_DNS_ECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"

enum { ECS_OPTION_MAX = 4 + 16 }; /* option data, without code and length */

struct ecs {
    uint8_t ip[16];  /* bits beyond source are 0 */
    uint8_t family;  /* enum addr_family: ADDR_V4 or ADDR_V6 */
    uint8_t source;  /* prefix length 0..32 or 0..128 */
    uint8_t scope;   /* 0 in queries */
};

/* Strict (RFC 7871 6): family 1 or 2, source in range, exactly ceil(source/8) address octets, no
 * bit beyond source. Scope is given as it is: a query with scope != 0 is the caller's to refuse;
 * a scope beyond the family's length is malformed. */
bool ecs_parse(struct ecs *out, const uint8_t *data, size_t len);

/* Option data; returns its length (4..20). */
size_t ecs_write(const struct ecs *e, uint8_t *out);

/* The subnet of an address, cut to prefix bits. False for ADDR_NONE. */
bool ecs_from_addr(struct ecs *out, const struct addr *a, uint8_t prefix);

/* Shortens to at most prefix bits and clears the bits beyond. */
void ecs_cut(struct ecs *e, uint8_t prefix);

/* Family, source and address are equal (scope is not looked at). */
bool ecs_equal(const struct ecs *a, const struct ecs *b);

/* True when the first `bits` bits of both addresses are equal; false over families. */
bool ecs_prefix_equal(const struct ecs *a, const struct ecs *b, uint8_t bits);

#endif
