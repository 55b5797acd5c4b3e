/* proxyproto.h - the PROXY header that a load balancer sends before all else, versions 1
 * (text) and 2 (binary). Pure: bytes in, addresses out. */
#ifndef PITH_TLS_PROXYPROTO_H
#define PITH_TLS_PROXYPROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/addr.h"

enum {
    /* Version 1 has at most 107 octets; a version 2 header with more additions (TLV) than
     * this is refused. */
    PROXYPROTO_MAX = 16 + 2048,
};

struct proxyproto {
    bool known;      /* false: UNKNOWN, LOCAL or no IP address; who connected is who asks */
    struct addr src; /* the client */
    struct addr dst; /* what it connected to */
};

/* Reads a header at the start of data. Returns its length, 0 when more octets are needed
 * (then every octet given belongs to the header), -1 when it is none. */
ssize_t proxyproto_parse(struct proxyproto *out, const uint8_t *data, size_t len);

#endif
