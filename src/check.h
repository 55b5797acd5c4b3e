/* check.h - pithd --check and --health: a server looked at from outside. Thread: main. */
#ifndef PITH_CHECK_H
#define PITH_CHECK_H

#include <stdio.h>

#include "config.h"

/* Connects to "HOST[:PORT]" as a strict client would and tells on out, a line each, what is
 * good and what is not. Without a port: DoH on 443 and DoT on 853; with one, whichever of the
 * two answers there. path is that of DoH, ca a PEM file of authorities or NULL. At most 5 s.
 * Returns the exit status: 0 all is good, 1 it is not, 2 the text is no host. */
int check_server(const char *text, const char *path, const char *ca, FILE *out);

/* Asks the first listener of each kind of this configuration, on this machine, for a name that
 * needs no upstream. At most 4 s. 0 when all answer, else 1. */
int check_health(const struct config *c, FILE *out);

#endif
