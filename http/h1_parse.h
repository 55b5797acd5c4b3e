/* h1_parse.h - the lines of an HTTP/1.1 request (RFC 9112), strictly.
 *
 * Written for this place rather than taken from the http-parser library: that one takes bare
 * LF, folded fields and HTTP/0.9, cannot be told not to, and is no longer maintained. Requests
 * for DNS need little: a head that comes whole, Content-Length or chunked. Whatever two parsers
 * could read in two ways is an error here, so that nothing can be smuggled past a proxy in
 * front.
 *
 * Lines are given without their CRLF. All functions are pure. */
#ifndef PITH_HTTP_H1_PARSE_H
#define PITH_HTTP_H1_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/doh.h"

/* What frames a request, gathered line by line; {0} before the request line. */
struct h1_head {
    const char *method, *target; /* in the request line */
    size_t method_len, target_len;
    uint8_t minor; /* of HTTP/1.x */
    bool host;
    bool has_length, chunked;
    bool close, keep_alive; /* Connection */
    uint64_t length;
};

/* Each returns 0, or the status that the request gets before the connection ends. */
uint16_t h1_request_line(struct h1_head *h, const char *line, size_t len);
/* name is in `lower` (DOH_NAME_MAX) when it fits there, in lower case; longer ones are no field
 * of interest and given as they are. */
uint16_t h1_field_line(struct h1_head *h, const char *line, size_t len,
                       struct http_field *field, char *lower);
/* After the last field. */
uint16_t h1_head_end(const struct h1_head *h);

/* The first line of a chunk: size in hexadecimal, extensions ignored (RFC 9112 7.1). */
bool h1_chunk_line(const char *line, size_t len, uint64_t *size);

/* The origin-form within a target in absolute-form; leaves "/..." and "*" as they are. False
 * for any other form. An absolute target without path becomes "/". */
bool h1_target(const char **target, size_t *len);

#endif
