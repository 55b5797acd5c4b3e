/* context.h - what the connections of this folder see of a TLS context.
 *
 * The rest of the project sees tls.h only. */
#ifndef PITH_TLS_CONTEXT_H
#define PITH_TLS_CONTEXT_H

#include <openssl/ssl.h>
#include <stddef.h>

#include "tls/tls.h"

/* Application protocols a server side may choose from, in its order of preference,
 * as on the wire (RFC 7301 3.1): each with an octet of length before it. */
struct tls_alpn {
    unsigned char *wire;
    size_t len;
};

/* A server side of one connection, without its BIO. The SSL's read BIO must carry a
 * struct tls_io (tls/io.h) by the time the handshake starts: ALPN is chosen from its
 * list. NULL when memory is out. */
SSL *tls_context_accept(struct tls_context *t);

#endif
