/* local.h - names that pith answers itself, before cache and upstream.
 *
 * The lines of `local:` (records, hosts files), the discovery names of RFC 9462 built from the
 * listeners, special-use names (RFC 6761, RFC 7686) and private reverse zones (RFC 6303).
 * Immutable once created; any thread may read. */
#ifndef PITH_LOCAL_H
#define PITH_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "dns/wire.h"

struct local;

/* Reads the `local:` lines of config and the hosts files they name. Each fault is reported with
 * the line's index; NULL when there was one or memory is out. on_fault may be NULL. */
struct local *local_create(const struct config *config,
                           void (*on_fault)(void *arg, size_t line, const char *what),
                           void *arg);
void local_destroy(struct local *l);

struct local_answer {
    size_t len; /* of the message in out: header with ID 0, question, records, no OPT */
    uint16_t rcode;
    uint32_t max_age_s; /* smallest TTL */
};

/* Answers qname (any case) and qtype when the name is local. claimed: an upstream has this name
 * in its `domains`, so private reverse zones are not ours. False: not a local name. */
bool local_lookup(const struct local *l, const uint8_t *qname, size_t qname_len, uint16_t qtype,
                  bool claimed, uint8_t *out, size_t size, struct local_answer *answer);

#endif
