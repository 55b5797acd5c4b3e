/* check.c - pithd --check: connects as a strict client would, and says in plain words what is
 * wrong. */
#include "check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "dns/edns.h"
#include "dns/message.h"
#include "lookup.h"
#include "probe.h"

enum {
    CHECK_MS = 5000, /* in all, some of it to spare for the resolver and the report */
    SPARE_MS = 300,
    LOOKUP_MS = 1500,
    CONNECT_MS = 1000,
    ADDRESSES_MAX = 4,
    HOST_SIZE = 256,
    REPLY_BLOCK = 468, /* RFC 8467 4.1 */
    PORT_DOH = 443,
    PORT_DOT = 853,
    EXIT_USAGE = 2,
};

static const char check_name[] = "example.com";

enum kind { KIND_ANY, KIND_DOH, KIND_DOT };

struct check {
    const char *host, *path, *ca;
    FILE *out;
    uint64_t deadline_ms;
    unsigned faults;
    struct probe_answer answer;
};

__attribute__((format(printf, 3, 4))) static void tell(struct check *c, const char *word,
                                                       const char *fmt, ...)
{
    va_list args;

    fprintf(c->out, "  %-6s ", word);
    va_start(args, fmt);
    vfprintf(c->out, fmt, args);
    va_end(args);
    fputc('\n', c->out);
}

#define GOOD(c, ...) tell(c, "good", __VA_ARGS__)
#define FAULT(c, ...) ((c)->faults++, tell(c, "FAULT", __VA_ARGS__))

/* --- answers ---------------------------------------------------------------------------------
 */

/* The server says that it is us who may not ask (EDE 18, RFC 8914 4.19). */
static bool is_prohibited(const struct dns_reply *r)
{
    size_t len;
    const uint8_t *ede = edns_option(r->options, r->options_len, DNS_OPTION_EDE, &len);

    return r->has_opt && ede != NULL && len >= 2 && ede[0] == 0 && ede[1] == DNS_EDE_PROHIBITED;
}

static void judge_rcode(struct check *c, const char *how, const struct dns_reply *r)
{
    switch (r->rcode) {
    case DNS_RCODE_NOERROR:
    case DNS_RCODE_NXDOMAIN:
        GOOD(c, "%s answers (%s)", how, r->rcode == DNS_RCODE_NOERROR ? "NOERROR" : "NXDOMAIN");
        break;
    case DNS_RCODE_REFUSED:
        if (is_prohibited(r))
            FAULT(c, "%s: REFUSED, clients from here are not in access.allow", how);
        else
            FAULT(c, "%s: REFUSED for %s, by its upstream", how, check_name);
        break;
    case DNS_RCODE_SERVFAIL:
        FAULT(c, "%s: SERVFAIL for %s, its upstreams do not answer", how, check_name);
        break;
    default:
        FAULT(c, "%s: RCODE %u for %s", how, r->rcode, check_name);
    }
}

static void judge_padding(struct check *c, const char *how, const struct dns_reply *r,
                          size_t len)
{
    size_t padding_len;

    if (!r->has_opt)
        FAULT(c,
              "%s: no OPT record in the answer to a query that has one; systemd-resolved "
              "downgrades such a server",
              how);
    else if (edns_option(r->options, r->options_len, DNS_OPTION_PADDING, &padding_len) == NULL)
        FAULT(c, "%s: the answer is not padded, though the query was (RFC 8467)", how);
    else if (len % REPLY_BLOCK != 0)
        tell(c, "hint", "%s: the answer is padded to %zu octets, no multiple of %d (RFC 8467)",
             how, len, REPLY_BLOCK);
    else
        GOOD(c, "%s: padded to %zu octets", how, len);
}

static void judge_message(struct check *c, const char *how, const uint8_t *query,
                          size_t query_len)
{
    const struct probe_answer *a = &c->answer;
    struct dns_reply r;
    struct dns_query q;

    if (a->len >= DNS_HEADER_SIZE && memcmp(a->message, query, 2) != 0)
        FAULT(c, "%s: the answer has another ID than the query", how);
    else if (!reply_parse(&r, a->message, a->len) ||
             query_parse(&q, query, query_len) != QUERY_OK)
        FAULT(c, "%s: the answer is no DNS message that is whole", how);
    else if (!reply_matches(&r, q.qname, q.qname_len, q.qtype, true))
        FAULT(c, "%s: the answer is for another question", how);
    else {
        judge_rcode(c, how, &r);
        judge_padding(c, how, &r, a->len);
    }
}

static void check_doh(struct check *c, struct probe *p, uint16_t port)
{
    static const char *const how[] = {"DoH by GET", "DoH by POST"};
    char why[PROBE_WHY], authority[HOST_SIZE + 16];
    uint8_t query[PROBE_QUERY_SIZE];
    bool v6 = strchr(c->host, ':') != NULL;
    size_t len = probe_query(query, 0, check_name, true);
    int n = snprintf(authority, sizeof(authority), v6 ? "[%s]" : "%s", c->host);

    if (port != PORT_DOH)
        snprintf(authority + n, sizeof(authority) - (size_t)n, ":%u", port);
    for (int post = 0; post < 2; post++) {
        struct probe_answer *a = &c->answer;
        if (!probe_ask_doh(p, post, authority, c->path, query, len, a, why, sizeof(why))) {
            FAULT(c, "%s: %s", how[post], why);
            return;
        }
        if (a->status == 404)
            FAULT(c, "%s: 404, there is nothing at %s", how[post], c->path);
        else if (a->status != 200)
            FAULT(c, "%s: HTTP status %d", how[post], a->status);
        else if (strcmp(a->type, "application/dns-message") != 0)
            FAULT(c, "%s: the content is \"%s\", not application/dns-message", how[post],
                  a->type);
        else
            judge_message(c, how[post], query, len);
    }
}

static void check_dot(struct check *c, struct probe *p)
{
    char why[PROBE_WHY];
    uint8_t query[PROBE_QUERY_SIZE];
    size_t len = probe_query(query, (uint16_t)clock_now_us(), check_name, true);

    if (probe_ask_stream(p, query, len, &c->answer, why, sizeof(why)))
        judge_message(c, "DoT", query, len);
    else
        FAULT(c, "DoT: %s", why);
}

/* --- connections -----------------------------------------------------------------------------
 */

/* The first address that takes a connection; the others are tried as well, for a client may
 * choose any. */
static bool connect_first(struct check *c, struct probe *p, const struct addr *list, size_t n)
{
    char why[PROBE_WHY], text[ADDR_TEXT_SIZE];
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        struct probe other;
        if (!probe_connect(found ? &other : p, &list[i], CONNECT_MS, c->deadline_ms, why,
                           sizeof(why))) {
            FAULT(c, "%s: %s", addr_format(&list[i], text), why);
            continue;
        }
        GOOD(c, "connects to %s", addr_format(&list[i], text));
        if (found)
            probe_close(&other);
        found = true;
    }
    return found;
}

static void tell_tls(struct check *c, const struct tls_client_report *r)
{
    for (size_t i = 0; i < r->n_faults; i++)
        FAULT(c, "%s", r->faults[i]);
    if (r->n_faults == 0)
        GOOD(c, "%s, certificate for %s, %zu in the chain, %ld days left", r->version,
             r->subject, r->n_sent, r->days_left);
    if (r->hint[0] != '\0')
        tell(c, "hint", "%s", r->hint);
}

static void check_port(struct check *c, enum kind kind, struct addr *list, size_t n,
                       uint16_t port)
{
    static const char *const offers[] = {"h2 http/1.1 dot", "h2 http/1.1", "dot"};
    static const char *const titles[] = {"", ", DNS over HTTPS", ", DNS over TLS"};
    struct tls_client_report report;
    struct probe p;

    fprintf(c->out, "%s, port %u%s\n", c->host, port, titles[kind]);
    for (size_t i = 0; i < n; i++)
        list[i].port = port;
    if (!connect_first(c, &p, list, n))
        return;
    bool open = probe_tls(&p, c->host, offers[kind], c->ca, &report);
    tell_tls(c, &report);
    if (!open)
        goto out;
    if (kind == KIND_ANY)
        kind = report.alpn[0] == 'h' ? KIND_DOH : KIND_DOT;
    if (kind == KIND_DOT)
        check_dot(c, &p);
    else if (strcmp(report.alpn, "h2") == 0)
        check_doh(c, &p, port);
    else
        FAULT(c, "ALPN: the server does not offer HTTP/2 (h2), which browsers want for DoH");
out:
    probe_close(&p);
}

int check_server(const char *text, const char *path, const char *ca, FILE *out)
{
    struct addr list[ADDRESSES_MAX];
    char host[HOST_SIZE], why[PROBE_WHY];
    uint16_t port;

    if (!lookup_split(text, host, sizeof(host), &port)) {
        fprintf(out, "\"%s\" is no HOST[:PORT]\n", text);
        return EXIT_USAGE;
    }
    struct check *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return EXIT_FAILURE;
    *c = (struct check){.host = host, .path = path, .ca = ca, .out = out};
    c->deadline_ms = clock_now_ms() + CHECK_MS - SPARE_MS;
    size_t n = lookup_host(host, port, LOOKUP_MS, list, ADDRESSES_MAX, why, sizeof(why));
    if (n == 0) {
        fprintf(out, "%s\n", host);
        FAULT(c, "%s", why);
    } else if (port != 0) {
        check_port(c, KIND_ANY, list, n, port);
    } else {
        check_port(c, KIND_DOH, list, n, PORT_DOH);
        check_port(c, KIND_DOT, list, n, PORT_DOT);
    }
    unsigned faults = c->faults;
    free(c);
    if (faults == 0)
        fputs("all is good\n", out);
    else
        fprintf(out, "%u fault%s\n", faults, faults == 1 ? "" : "s");
    return faults == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
