/* doh.h - DNS over HTTPS (RFC 8484), whatever the HTTP version: a request becomes a query, its
 * reply becomes status, header fields and body.
 *
 * The session (h2.c, h1.c) embeds a struct doh_request in its own object of a request and
 * feeds it: method, target, fields as they come, then doh_headers(), body octets, doh_end(). It
 * gets exactly one respond() after that, inside doh_headers()/doh_body()/doh_end() or later,
 * unless it calls doh_deinit().
 *
 *      READING --doh_headers(), doh_body(): refused early--> DONE
 *      READING --doh_end()--> ASKED --reply--> DONE          (or DONE at once)
 *
 * Owner: the session. Thread: one worker. */
#ifndef PITH_HTTP_DOH_H
#define PITH_HTTP_DOH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "core/query.h"
#include "http/forwarded.h"
#include "http/http.h"
#include "http/response.h"

enum {
    DOH_BODY_MAX = 65535,        /* a DNS message (RFC 8484 6) */
    DOH_HEADERS_MAX = 16 * 1024, /* names, values and 32 a field, as RFC 9113 6.5.2 counts */
    DOH_INLINE_MSG = 384,        /* messages up to this need no memory of their own; padded
                                  * queries are a multiple of 128 (RFC 8467) */
    DOH_NAME_MAX = 32,           /* no field that matters has a longer name */
};

enum doh_state { DOH_READING, DOH_ASKED, DOH_DONE };
enum doh_method { DOH_NO_METHOD, DOH_GET, DOH_HEAD, DOH_POST, DOH_OPTIONS, DOH_OTHER };
/* What the path names. */
enum doh_resource { DOH_NOTHING, DOH_DNS, DOH_RESOLVE, DOH_ASTERISK };
struct doh_request {
    struct query query; /* first: a reply finds its request by it */
    const struct http_options *options;
    void (*respond)(struct doh_request *r, const struct http_response *response);
    uint8_t *msg; /* what came: `inline_msg` or memory of its own */
    size_t len, size;
    size_t headers;    /* octets of fields, as DOH_HEADERS_MAX counts */
    char *parameters;  /* the query string of a JSON question; own memory */
    uint64_t declared; /* content-length, UINT64_MAX: none */
    size_t received;   /* octets of body */
    struct forwarded forwarded;
    uint8_t state, method, resource, media;
    uint8_t dns_parameters; /* "dns=" seen, at most 2 are counted */
    bool dns_malformed;
    bool name_parameter; /* "name=" seen: a JSON question */
    bool wants_json;     /* asked for application/dns-json */
    bool wants_message;  /* JSON question with ct=application/dns-message */
    bool behind_proxy;   /* the peer's forwarding fields are believed */
    bool as_json;        /* the answer becomes JSON */
    bool expects;        /* Expect: 100-continue */
    uint16_t error;      /* the status that fields or body called for, 0: none */
    uint8_t inline_msg[DOH_INLINE_MSG];
};

/* Starts a request from `client` (struct stream's). options outlives it. */
void doh_init(struct doh_request *r, const struct http_options *options,
              const struct addr *client,
              void (*respond)(struct doh_request *r, const struct http_response *response));

/* The request line or pseudo fields. The target in origin-form ("/path?query") or "*". Borrowed
 * for the call. */
void doh_method(struct doh_request *r, const char *text, size_t len);
void doh_target(struct doh_request *r, const char *text, size_t len);

/* A header field, name in lower case, value without white space around it. */
void doh_field(struct doh_request *r, const char *name, size_t name_len, const char *value,
               size_t value_len);

/* All fields came; `body`: a body may follow. May respond at once where reading the body is no
 * use (413, 417, 431). */
void doh_headers(struct doh_request *r, bool body);

/* Body octets; ignored after a response. May respond with 413. */
void doh_body(struct doh_request *r, const uint8_t *data, size_t len);

/* The request is complete: asks, or responds. Nothing to do when it was answered before. */
void doh_end(struct doh_request *r);

/* Instead of what comes next: the request is malformed as HTTP, `status` says how. Nothing to
 * do when it was answered before. */
void doh_refuse(struct doh_request *r, uint16_t status);

/* Octets of own memory that the message takes. */
size_t doh_memory(const struct doh_request *r);

/* In any state: no respond() follows, own memory is given back. */
void doh_deinit(struct doh_request *r);

#endif
