/* respond.h - the last step of every answer: finished for its asker and handed to the
 * transport.
 *
 * Owner: the proxy embeds one responder, whose buffer holds the answer being made. */
#ifndef PITH_RESPOND_H
#define PITH_RESPOND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "asker.h"
#include "cache/cache.h"
#include "core/query.h"

struct responder {
    uint32_t keepalive_ms; /* what edns-tcp-keepalive says (RFC 7828) */
    uint8_t msg[DNS_MESSAGE_MAX + 1024];
};

/* Facts about the message in responder.msg. */
struct respond_outcome {
    struct asker_answer answer;
    uint32_t max_age_s; /* 0: no-store */
};

extern const struct asker_errors respond_no_errors;

/* Sends the message of len octets in r->msg, its question that of the asker in any case,
 * without OPT. */
void respond(struct responder *r, struct query *q, const struct asker *a,
             const struct respond_outcome *o, size_t len, enum query_verdict verdict);

/* Sends an answer without records. ede may be DNS_EDE_NONE, ede_text NULL. */
void respond_rcode(struct responder *r, struct query *q, const struct asker *a, uint16_t rcode,
                   uint16_t ede, const char *ede_text, enum query_verdict verdict);

/* The same for queries too broken to be an asker: what could be read of them is echoed. */
void respond_broken(struct responder *r, struct query *q, const struct dns_query *dq,
                    uint16_t rcode, uint16_t ede, enum query_verdict verdict);

/* Sends what cache_get() built in r->msg; stale: past its life. */
void respond_cached(struct responder *r, struct query *q, const struct asker *a,
                    const struct cache_answer *c, bool stale);

/* One made-up HINFO instead of all there is (RFC 8482 4.2). */
void respond_any(struct responder *r, struct query *q, const struct asker *a);

#endif
