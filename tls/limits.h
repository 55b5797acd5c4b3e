/* limits.h - counts of connections over all workers (struct conn_limits of listener.h).
 *
 * A client is an IPv4 address or an IPv6 /56. Its count is the smaller of two counters that
 * a keyed hash picks from two rows of a fixed table: never less than the truth, and more only
 * when others share both counters. Thread: any. */
#ifndef PITH_TLS_LIMITS_H
#define PITH_TLS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "tls/listener.h"

/* One more connection; false when that would be more than max. Each true is given back with
 * one conn_limits_drop(). */
bool conn_limits_take(struct conn_limits *l, uint32_t max);
void conn_limits_drop(struct conn_limits *l);

/* The same for the connections of one client. */
bool conn_limits_take_client(struct conn_limits *l, const struct addr *client, uint32_t max);
void conn_limits_drop_client(struct conn_limits *l, const struct addr *client);

/* The same for connections that have not got to their protocol yet. */
bool conn_limits_take_start(struct conn_limits *l, uint32_t max);
void conn_limits_drop_start(struct conn_limits *l);

/* Octets that connections keep from one wake-up to the next: moves the sum from `before` to
 * `now`; false when that passes the cap, LIMIT_BUFFERED_BYTES (the move is made anyway). */
enum { LIMIT_BUFFERED_BYTES = 128 * 1024 * 1024 };
bool conn_limits_buffered(struct conn_limits *l, size_t before, size_t now);

#endif
