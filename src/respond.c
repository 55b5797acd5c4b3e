/* respond.c - the last step of every answer. */
#include "respond.h"

#include "core/metrics.h"
#include "dns/build.h"
#include "dns/edns.h"

enum { ANY_TTL_S = 3600 }; /* of the HINFO (RFC 8482 4.2) */

const struct asker_errors respond_no_errors = {{DNS_EDE_NONE, DNS_EDE_NONE}, {NULL, NULL}};

/* Finishes the message of len octets in r->msg and hands it to the transport. */
void respond(struct responder *r, struct query *q, const struct asker *a,
             const struct respond_outcome *o, size_t len, enum query_verdict verdict)
{
    bool truncated;
    struct query_reply out = {
        .verdict = verdict,
        .msg = r->msg,
        .max_age_s = o->max_age_s,
        .private_answer = a->subnet_from_address && o->answer.scoped,
    };

    out.len =
        asker_finish(a, &o->answer, r->msg, len, sizeof r->msg, r->keepalive_ms, &truncated);
    if (truncated)
        metrics_count(M_ANSWERS_TRUNCATED);
    if (o->answer.rcode == DNS_RCODE_SERVFAIL)
        metrics_count(M_ANSWERS_SERVFAIL);
    q->on_reply(q, &out);
}

/* An answer without records. */
void respond_rcode(struct responder *r, struct query *q, const struct asker *a, uint16_t rcode,
                   uint16_t ede, const char *ede_text, enum query_verdict verdict)
{
    struct respond_outcome o = {.answer = {.rcode = rcode, .errors = respond_no_errors}};
    struct dns_builder b;

    o.answer.errors.code[0] = ede;
    o.answer.errors.text[0] = ede_text;
    build_start(&b, r->msg, sizeof r->msg, a->id, (uint16_t)(rcode & DNS_RCODE), a->qname,
                a->qname_len, a->qtype, a->qclass);
    respond(r, q, a, &o, build_finish(&b), verdict);
}

/* For queries too broken to be an asker: what could be read is echoed. */
void respond_broken(struct responder *r, struct query *q, const struct dns_query *dq,
                    uint16_t rcode, uint16_t ede, enum query_verdict verdict)
{
    struct query_reply out = {.verdict = verdict, .msg = r->msg};
    size_t opt;

    out.len = build_error(r->msg, sizeof r->msg, dq, rcode, &opt);
    if (ede != DNS_EDE_NONE && opt > 0) {
        uint8_t code[2];

        dns_write16(code, ede);
        out.len = (size_t)(edns_add(r->msg + opt, r->msg + out.len, r->msg + sizeof r->msg,
                                    DNS_OPTION_EDE, code, sizeof code) -
                           r->msg);
    }
    q->on_reply(q, &out);
}

void respond_cached(struct responder *r, struct query *q, const struct asker *a,
                    const struct cache_answer *c, bool stale)
{
    struct respond_outcome o = {
        .answer = {.rcode = c->rcode,
                   .authentic = c->authentic,
                   .scoped = c->scoped,
                   .scope = c->scope,
                   .errors = respond_no_errors},
        .max_age_s = c->failure ? 0 : c->max_age_s,
    };
    size_t n = 0;

    if (stale) {
        /* RFC 8914 4.4, 4.20 */
        o.answer.errors.code[n++] =
            c->rcode == DNS_RCODE_NXDOMAIN ? DNS_EDE_STALE_NXDOMAIN : DNS_EDE_STALE;
        metrics_count(M_CACHE_STALE);
    } else if (c->failure) {
        o.answer.errors.code[n++] = DNS_EDE_CACHED_ERROR;
    }
    if (c->ede != DNS_EDE_NONE) {
        o.answer.errors.code[n] = c->ede;
        o.answer.errors.text[n] = c->ede_text;
    }
    respond(r, q, a, &o, c->len, QUERY_ANSWER);
}
/* RFC 8482 4.2: one made-up HINFO instead of all there is. */
void respond_any(struct responder *r, struct query *q, const struct asker *a)
{
    static const uint8_t hinfo[] = "RFC8482"; /* the NUL is the empty OS */
    struct respond_outcome o = {.answer = {.errors = respond_no_errors},
                                .max_age_s = ANY_TTL_S};
    struct dns_builder b;

    build_start(&b, r->msg, sizeof r->msg, a->id, 0, a->qname, a->qname_len, a->qtype,
                DNS_CLASS_IN);
    build_rr(&b, DNS_ANSWER, NULL, 0, RR_HINFO, DNS_CLASS_IN, ANY_TTL_S, hinfo, sizeof hinfo);
    respond(r, q, a, &o, build_finish(&b), QUERY_ANSWER);
}
