/* forwarded.h - who asks, when trusted proxies pass the request on.
 *
 * Each proxy appends the address it was asked from to X-Forwarded-For (or Forwarded, RFC 7239).
 * Read from the right, every hop that is itself a trusted proxy vouches for the one on its
 * left; the first that is not is the client. What stands left of that hop, or left of
 * something that is no address, was written by nobody we trust and is not looked at:
 *
 *      X-Forwarded-For: 127.0.0.1, 192.0.2.7, 10.0.0.2        trusted: 10.0.0.0/8
 *                       forged     client     inner proxy     peer: 10.0.0.1
 *
 * Forwarded counts only in requests without X-Forwarded-For: proxies that write the latter
 * commonly pass on a Forwarded that their client made up. */
#ifndef PITH_HTTP_FORWARDED_H
#define PITH_HTTP_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "core/addr.h"

/* One request's; {0} before the first field. */
struct forwarded {
    struct addr for_x;   /* of X-Forwarded-For so far; ADDR_NONE: none that counts */
    struct addr for_std; /* of Forwarded */
    bool seen_x;
};

/* A line of X-Forwarded-For / of Forwarded; lines are given in the order they came. */
void forwarded_x(struct forwarded *f, const char *value, size_t len, const struct cidr *trusted,
                 size_t n_trusted);
void forwarded_std(struct forwarded *f, const char *value, size_t len,
                   const struct cidr *trusted, size_t n_trusted);

/* The effective client; `peer` (a trusted proxy) when no hop was named. */
struct addr forwarded_client(const struct forwarded *f, const struct addr *peer);

#endif
