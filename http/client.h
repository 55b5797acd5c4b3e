/* client.h - the HTTP/2 side of a DNS-over-HTTPS client (RFC 8484, RFC 9113), without I/O.
 *
 * For checks from the command line (src/check.c): one connection, one request at a time. The
 * caller carries octets: what h2_client_output() has goes to the server, what comes from it
 * goes to h2_client_input(). Thread: any, one at a time. */
#ifndef PITH_HTTP_CLIENT_H
#define PITH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2_client;

enum { H2_CLIENT_FIELD = 128 };

struct h2_response {
    bool done;                           /* whole: the stream ended well */
    bool reset;                          /* the stream ended otherwise */
    int status;                          /* 0 before its headers */
    char type[H2_CLIENT_FIELD];          /* content-type */
    char cache_control[H2_CLIENT_FIELD]; /* "" without one */
    const uint8_t *body;                 /* until the next request; up to 65535 octets */
    size_t body_len;
    bool too_long;
};

/* NULL when memory is out. */
struct h2_client *h2_client_create(void);
void h2_client_destroy(struct h2_client *c);

/* A query by POST, or by GET with the dns parameter (RFC 8484 4.1). authority is
 * "dns.example.net" or "dns.example.net:8443". False when memory is out. */
bool h2_client_request(struct h2_client *c, bool post, const char *authority, const char *path,
                       const uint8_t *query, size_t len);

/* Octets for the server, valid until the next call for this client; 0 when there are none,
 * -1 when the session is over. */
int h2_client_output(struct h2_client *c, const uint8_t **data, size_t *len);
/* Octets of the server. False when they are no HTTP/2. */
bool h2_client_input(struct h2_client *c, const uint8_t *data, size_t len);

/* The response to the last request as far as it came. Owner: the client. */
const struct h2_response *h2_client_response(const struct h2_client *c);

#endif
