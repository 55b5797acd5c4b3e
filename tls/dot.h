/* dot.h - DNS messages on a byte stream: two octets of length before each (RFC 1035 4.2.2, RFC
 * 7766, RFC 7858).
 *
 * The same rider for DNS over TLS and over TCP. Pipelined, answers out of order as they come.
 */
#ifndef PITH_TLS_DOT_H
#define PITH_TLS_DOT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/query.h"
#include "core/stream.h"

struct dot_options {
    struct query_handler *handler;
    enum query_transport transport; /* QUERY_DOT or QUERY_TCP */
    uint32_t max_in_flight; /* queries of one connection; further ones wait in the kernel */
    uint32_t max_queries;   /* of one connection's life, 0: any number */
};

/* A listener_protocol.attach(); arg is a struct dot_options that outlives the connection. */
bool dot_attach(struct stream *s, void *arg);

#endif
