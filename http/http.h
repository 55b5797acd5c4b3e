/* http.h - DNS over HTTPS (RFC 8484) on a byte stream: HTTP/2 by nghttp2, HTTP/1.1, and the
 * JSON API.
 *
 * Both versions share http/doh.c, which turns a request into a query and a reply into status,
 * header fields and body. Owner: riders belong to their stream. Thread: one worker. */
#ifndef PITH_HTTP_HTTP_H
#define PITH_HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/query.h"
#include "core/stream.h"

struct http_options {
    struct query_handler *handler;
    const char *const *paths; /* "/dns-query", ... */
    size_t n_paths;
    bool json;
    const char *cors; /* access-control-allow-origin, NULL: none */
    const struct cidr
        *trusted_proxies; /* peers whose X-Forwarded-For / Forwarded is believed */
    size_t n_trusted_proxies;
    uint32_t max_streams; /* HTTP/2 streams, HTTP/1.1 pipelined requests in flight */
    uint32_t max_queries; /* of one connection's life, 0: any number */
};

/* listener_protocol.attach() for "h2" (prior knowledge on clear text) and "http/1.1"; arg is a
 * struct http_options that outlives the connection. */
bool http_h2_attach(struct stream *s, void *arg);
bool http_h1_attach(struct stream *s, void *arg);
/* listener_protocol.sniff() for clear text: the HTTP/2 connection preface (RFC 9113 3.4). */
int http_h2_sniff(const uint8_t *data, size_t len);

#endif
