/* upstream_judge.c - what a message is to a question that waits for one. See upstream_getdns.h.
 */
#include <string.h>

#include "dns/edns.h"
#include "dns/name.h"
#include "upstream_getdns.h"

/* The question of a message that may be no more than that. */
static bool question_fits(const struct upstream_query *q, const uint8_t *msg, size_t len)
{
    size_t end = DNS_HEADER_SIZE + q->qname_len;
    return len >= end + 4 && dns_read16(msg + 4) == 1 &&
           name_wire_len(msg + DNS_HEADER_SIZE, len - DNS_HEADER_SIZE) == q->qname_len &&
           name_equal(msg + DNS_HEADER_SIZE, q->qname_len, q->qname, q->qname_len) &&
           dns_read16(msg + end) == q->qtype && dns_read16(msg + end + 2) == DNS_CLASS_IN;
}

/* RFC 7871 7.3: a reply that is made for another subnet is not ours. */
static bool subnet_fits(const struct upstream_query *q, const struct dns_reply *r)
{
    size_t len;
    const uint8_t *data = q->subnet && r->has_opt
                              ? edns_option(r->options, r->options_len, DNS_OPTION_ECS, &len)
                              : NULL;
    struct ecs got;
    if (!data)
        return true;
    return ecs_parse(&got, data, len) && ecs_equal(&got, q->subnet);
}

/* FORMERR without records, OPT among them, and often without the question (RFC 6891 7). */
static bool knows_no_edns(const struct upstream_query *q, const uint8_t *msg, size_t len)
{
    return !q->plain && (msg[3] & DNS_RCODE) == DNS_RCODE_FORMERR && dns_read32(msg + 6) == 0 &&
           dns_read16(msg + 10) == 0 &&
           (len == DNS_HEADER_SIZE ? dns_read16(msg + 4) == 0 : question_fits(q, msg, len));
}

void upstream_judge(struct upstream_query *q, uint8_t *msg, size_t len, bool datagram)
{
    q->outcome = OUTCOME_BAD;
    q->octets = msg;
    if (len < DNS_HEADER_SIZE)
        return;
    uint16_t flags = dns_read16(msg + 2);
    if (!(flags & DNS_QR) || flags & DNS_OPCODE)
        return;
    if (knows_no_edns(q, msg, len)) {
        q->outcome = OUTCOME_NO_EDNS;
        return;
    }
    if (!question_fits(q, msg, len))
        return;
    size_t limit = q->plain ? DNS_UDP_CLASSIC : DNS_UDP_SIZE;
    q->other_case = memcmp(msg + DNS_HEADER_SIZE, q->qname, q->qname_len) != 0;
    if (datagram && (flags & DNS_TC || len > limit || (q->other_case && q->exact_case)))
        q->outcome = OUTCOME_TRUNCATED;
    else if (!(flags & DNS_TC) && reply_parse(&q->reply, msg, len) && subnet_fits(q, &q->reply))
        q->outcome = OUTCOME_REPLY;
}
