/* activation.h - listening sockets that the service manager opened for us (sd_listen_fds(3)).
 *
 * They let a daemon without privileges have ports under 1024, and be restarted while clients
 * queue. Listeners of the configuration are matched by address. Owner: the process, for good,
 * as the service manager keeps its own descriptors open too. Thread: main. */
#ifndef PITH_ACTIVATION_H
#define PITH_ACTIVATION_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* Takes over what was passed, if anything was. Once, before anything else opens a descriptor.
 */
void activation_take(void);

/* A new non-blocking descriptor of the socket of this type (SOCK_STREAM, SOCK_DGRAM) that is
 * bound to this address. -1 when there is none, or with errno set. Owner: the caller. */
int activation_open(const struct addr *address, int type);

/* True when activation_open() has one. */
bool activation_has(const struct addr *address, int type);

/* Logs a warning for each that no listener of c uses. */
void activation_check(const struct config *c);

#endif
