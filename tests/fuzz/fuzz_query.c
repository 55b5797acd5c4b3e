/* fuzz_query.c - queries: what query_parse() takes can be written again and says the same,
 * and every answer without records that is due can be built. */
#include <string.h>

#include "dns/build.h"
#include "dns/ecs.h"
#include "dns/edns.h"
#include "dns/message.h"
#include "dns/name.h"
#include "fuzz.h"

/* Everything the view points to lies in the message. */
static void check_view(const struct dns_query *q, const uint8_t *msg, size_t len)
{
    if (q->qname != NULL) {
        CHECK(q->qname == msg + DNS_HEADER_SIZE);
        CHECK(name_wire_len(q->qname, q->qname_len) == q->qname_len);
        CHECK(q->qname_len + 4 <= len - DNS_HEADER_SIZE);
    }
    CHECK(q->udp_size >= DNS_UDP_CLASSIC);
    CHECK(q->has_opt || (q->options == NULL && q->ext_flags == 0 && q->edns_version == 0));
    if (q->options != NULL) {
        CHECK(q->options > msg && q->options_len <= len);
        CHECK((size_t)(q->options - msg) <= len - q->options_len);
        CHECK(edns_options_valid(q->options, q->options_len));
    }
}

static void check_names(const struct dns_query *q)
{
    uint8_t name[DNS_NAME_MAX], low[DNS_NAME_MAX];
    char text[NAME_TEXT_SIZE];
    CHECK(strlen(name_to_text(q->qname, q->qname_len, text)) < sizeof text);
    CHECK(name_from_text(name, text) == q->qname_len);
    CHECK(memcmp(name, q->qname, q->qname_len) == 0);
    name_lower(low, name, q->qname_len);
    CHECK(name_equal(low, q->qname_len, name, q->qname_len));
    CHECK(name_below(name, q->qname_len, low, q->qname_len));
    size_t labels = 0;
    for (size_t pos = 0; name[pos] != 0; pos += 1 + (size_t)name[pos], labels++)
        CHECK(name_below(name, q->qname_len, low + pos, q->qname_len - pos));
    CHECK(name_labels(name, q->qname_len) == labels);
}

static void check_subnet(const struct dns_query *q)
{
    struct ecs e;
    uint8_t back[ECS_OPTION_MAX];
    size_t len = 0;
    const uint8_t *data = edns_option(q->options, q->options_len, DNS_OPTION_ECS, &len);
    if (data == NULL || !ecs_parse(&e, data, len))
        return;
    CHECK(ecs_write(&e, back) == len);
    CHECK(memcmp(back, data, len) == 0);
    struct ecs shorter = e;
    ecs_cut(&shorter, e.source / 2);
    CHECK(ecs_prefix_equal(&e, &shorter, shorter.source));
}

/* The same query, written by the builder and option by option. */
static size_t write_again(const struct dns_query *q, uint8_t *out, size_t size)
{
    struct dns_builder b;
    CHECK(build_start(&b, out, size, q->id, q->flags, q->qname, q->qname_len, q->qtype,
                      q->qclass));
    size_t len = build_finish(&b);
    if (!q->has_opt)
        return len;
    uint8_t *opt = out + len;
    uint8_t *end = opt + edns_write(opt, q->udp_size, 0, q->ext_flags);
    for (size_t pos = 0; pos < q->options_len;) {
        const uint8_t *o = q->options + pos;
        size_t n = dns_read16(o + 2);
        end = edns_add(opt, end, out + size, dns_read16(o), o + 4, n);
        CHECK(end != NULL);
        pos += 4 + n;
    }
    out[11] = 1;
    return (size_t)(end - out);
}

static void check_again(const struct dns_query *q)
{
    static uint8_t out[DNS_MESSAGE_MAX + DNS_OPT_FIXED];
    struct dns_query again;
    size_t len = write_again(q, out, sizeof out);
    CHECK(query_parse(&again, out, len) == QUERY_OK);
    CHECK(again.id == q->id && again.flags == q->flags);
    CHECK(again.qtype == q->qtype && again.qclass == q->qclass);
    CHECK(again.qname_len == q->qname_len);
    CHECK(memcmp(again.qname, q->qname, q->qname_len) == 0);
    CHECK(again.has_opt == q->has_opt && again.udp_size == q->udp_size);
    CHECK(again.ext_flags == q->ext_flags && again.options_len == q->options_len);
    CHECK(q->options_len == 0 || memcmp(again.options, q->options, q->options_len) == 0);
}

static void check_error(const struct dns_query *q, uint16_t rcode)
{
    uint8_t out[512];
    size_t opt = 0, len = build_error(out, sizeof out, q, rcode, &opt);
    CHECK(len >= DNS_HEADER_SIZE && len <= sizeof out);
    CHECK(build_error(out, len - 1, q, rcode, NULL) == 0);
    CHECK((opt != 0) == q->has_opt);
    CHECK(dns_read16(out) == q->id);
    struct dns_reply r;
    if (q->qname == NULL || (q->flags & DNS_OPCODE))
        return;
    CHECK(reply_parse(&r, out, len));
    CHECK(r.rcode == (rcode > DNS_RCODE && !q->has_opt ? DNS_RCODE_SERVFAIL : rcode));
    CHECK(r.has_opt == q->has_opt && r.opt_pos == opt);
    CHECK(memcmp(r.qname, q->qname, q->qname_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dns_query q;
    enum query_problem problem = query_parse(&q, data, size);
    CHECK((problem == QUERY_SHORT) == (size < DNS_HEADER_SIZE));
    if (problem == QUERY_SHORT || problem == QUERY_RESPONSE)
        return 0;
    check_view(&q, data, size);
    check_error(&q, DNS_RCODE_FORMERR);
    check_error(&q, DNS_RCODE_BADVERS);
    if (q.qname != NULL)
        check_names(&q);
    if (problem != QUERY_OK || size > DNS_MESSAGE_MAX)
        return 0;
    if (q.has_opt)
        check_subnet(&q);
    check_again(&q);
    return 0;
}
