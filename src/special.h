/* special.h - names whose answers are fixed by RFC: special-use names (RFC 6761, RFC 7686, RFC
 * 9462 6) and private reverse zones (RFC 6303, RFC 7793). */
#ifndef PITH_SPECIAL_H
#define PITH_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum special_kind {
    SPECIAL_NONE,
    SPECIAL_LOCALHOST, /* localhost and below: 127.0.0.1, ::1 */
    SPECIAL_LOOPBACK,  /* reverse of loopback: the PTR of 127.0.0.1 and ::1, else NXDOMAIN */
    SPECIAL_NXDOMAIN,  /* invalid, onion */
    SPECIAL_RESOLVER,  /* resolver.arpa: discovery names only */
    SPECIAL_PRIVATE,   /* a private reverse zone: NXDOMAIN unless forwarding is wanted */
};

/* Which kind the wire name (any case) is; *zone and *zone_len get the enclosing special zone,
 * in static memory or within name. Cheap for names that are not special. */
enum special_kind special_find(const uint8_t *name, size_t len, const uint8_t **zone,
                               size_t *zone_len);

#endif
