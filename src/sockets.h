/* sockets.h - the listening sockets of one listener, one of each kind for every worker.
 *
 * Main opens them before a worker starts (and before privileges go), so that an address in use
 * ends the start, or a reload, with one line and nothing half done. */
#ifndef PITH_SOCKETS_H
#define PITH_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

struct socket_set {
    struct addr address; /* with the port that the kernel chose where 0 was asked for */
    int *tcp;            /* n of them, listening; -1 once taken */
    int *udp;            /* n of them, or -1 for listeners that have no UDP */
    size_t n;
};

/* "doh", "dot", "dns". */
const char *listener_kind_name(enum listener_kind kind);

/* Fails when somebody else, another pithd too, has the address. False with a line in error. Not
 * for addresses that overlap one that we hold ourselves. */
bool sockets_probe(const struct config_listener *l, char *error, size_t error_size);

/* Opens n sockets of each kind with SO_REUSEPORT, non-blocking; where the service manager
 * passed one (activation.h), it is shared by all. False with a line in error and nothing open.
 * Owner: the caller, sockets_close(). */
bool sockets_open(struct socket_set *s, const struct config_listener *l, size_t n, char *error,
                  size_t error_size);

/* Closes what nobody took, and frees. Fine on a zeroed set. */
void sockets_close(struct socket_set *s);

#endif
