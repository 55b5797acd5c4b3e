/* privileges.h - giving up what a daemon started as root does not need any more. */
#ifndef PITH_PRIVILEGES_H
#define PITH_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>

/* Becomes user (NULL: stays) for good, with its groups. Not started as root: nothing happens.
 * Before the first thread. False with a line in error. */
bool privileges_drop(const char *user, char *error, size_t error_size);

/* Descriptors up to the hard limit: a connection each. Returns the limit in force. */
size_t privileges_raise_descriptors(void);

#endif
