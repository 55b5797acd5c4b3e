/* probe.h - one connection to a server, as a client: connect, TLS, ask. For pithd --check and
 * --health.
 *
 * It blocks, up to the probe's deadline. Owner: the caller, probe_close(). Thread: main. */
#ifndef PITH_PROBE_H
#define PITH_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"
#include "dns/wire.h"
#include "http/client.h"
#include "tls/client.h"

struct probe {
    int fd;
    struct tls_client *tls; /* NULL: clear text */
    struct h2_client *h2;   /* made by the first request */
    uint64_t deadline_ms;   /* of clock_now_ms() */
};

enum { PROBE_WHY = 256, PROBE_QUERY_SIZE = 256, PROBE_READ_SIZE = 2 + DNS_MESSAGE_MAX };

struct probe_answer {
    int status; /* of HTTP; 0 over DoT and TCP */
    char type[H2_CLIENT_FIELD];
    uint8_t message[PROBE_READ_SIZE];
    size_t len;
};

/* Connects within timeout_ms, and not past the deadline. False with the reason in why. */
bool probe_connect(struct probe *p, const struct addr *address, unsigned timeout_ms,
                   uint64_t deadline_ms, char *why, size_t why_size);
void probe_close(struct probe *p);

/* Shakes hands; false when there is no connection afterwards. See tls/client.h. */
bool probe_tls(struct probe *p, const char *host, const char *alpn, const char *ca,
               struct tls_client_report *report);

/* Sends octets as they are (a PROXY header). */
bool probe_send(struct probe *p, const void *data, size_t len);

/* A query for name A with OPT, padded to 128 octets when asked (RFC 8467 4.1). Returns its
 * length, at most PROBE_QUERY_SIZE. */
size_t probe_query(uint8_t *out, uint16_t id, const char *name, bool padded);

/* Asks by DNS over HTTPS; any number of times. False with the reason in why when no whole
 * response came. */
bool probe_ask_doh(struct probe *p, bool post, const char *authority, const char *path,
                   const uint8_t *query, size_t len, struct probe_answer *answer, char *why,
                   size_t why_size);
/* Asks with two octets of length before each message (DoT, TCP). */
bool probe_ask_stream(struct probe *p, const uint8_t *query, size_t len,
                      struct probe_answer *answer, char *why, size_t why_size);

#endif
