/* lookup.h - addresses of a host by the system's resolver, within a time. For commands that a
 * person types (pithd --check); the daemon resolves by itself. Thread: main. */
#ifndef PITH_LOOKUP_H
#define PITH_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"

/* Up to max addresses with that port, the ones that the system prefers first. host may be an IP
 * address. 0 with the reason in why ("has no address") when there is none in time. */
size_t lookup_host(const char *host, uint16_t port, unsigned timeout_ms, struct addr *out,
                   size_t max, char *why, size_t why_size);

/* "HOST", "HOST:PORT", "ADDRESS", "[V6]:PORT": the host as text and the port, 0 without one.
 * False when it is none of these, or does not fit. */
bool lookup_split(const char *text, char *host, size_t host_size, uint16_t *port);

#endif
