/* setup.h - pithd --show-setup and --mobileconfig: what to type into clients. Thread: main. */
#ifndef PITH_SETUP_H
#define PITH_SETUP_H

#include <stdint.h>
#include <stdio.h>

/* What clients need to know beside the host. */
struct setup_server {
    const char *path;  /* of DoH, "/dns-query" */
    uint16_t dot_port; /* 853 unless moved */
};

/* The exact strings for each client of "HOST[:PORT]" (the port is that of DoH). Addresses are
 * looked up where a client wants one. Returns the exit status: 0, or 2 when it is no host. */
int setup_show(const char *text, const struct setup_server *server, FILE *out);

/* An Apple configuration profile (plain, not signed) for DoH, as a whole. Profiles of one host
 * have the same identifiers, so that a new one takes the place of the old. */
int setup_mobileconfig(const char *text, const struct setup_server *server, FILE *out);

#endif
