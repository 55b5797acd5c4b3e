/* response.h - what a request is answered, and its header fields. */
#ifndef PITH_HTTP_RESPONSE_H
#define PITH_HTTP_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http.h"

enum {
    RESPONSE_FIELDS_MAX = 12,
    RESPONSE_SCRATCH = 80, /* octets of what is made for one response */
};

/* Media types, of requests and of responses. */
enum http_media { MEDIA_NONE, MEDIA_MESSAGE, MEDIA_JSON, MEDIA_TEXT, MEDIA_OTHER };

struct http_response {
    uint16_t status;
    uint8_t media;  /* enum http_media */
    bool preflight; /* OPTIONS: say which methods and fields a script may use */
    bool private_answer;
    const char *allow;   /* 405 and OPTIONS */
    uint32_t max_age_s;  /* 0: no-store */
    const uint8_t *body; /* borrowed for the call */
    size_t body_len;     /* what content-length says */
    bool no_body;        /* HEAD, 204: the body is not sent */
};

struct http_field {
    const char *name, *value;
    size_t name_len, value_len;
    bool varies; /* from response to response: not worth a place in HPACK's table */
};

/* Header fields of a response, but the status and what is HTTP/1.1's own, to out
 * (RESPONSE_FIELDS_MAX). Values point to constants and to scratch (RESPONSE_SCRATCH octets).
 * date: HTTP_DATE_LEN characters. Returns how many. */
size_t response_fields(const struct http_response *response, const struct http_options *options,
                       const char *date, struct http_field *out, char *scratch);

/* "Not Found"; never NULL. */
const char *response_reason(uint16_t status);

#endif
