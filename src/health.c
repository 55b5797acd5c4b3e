/* health.c - pithd --health: do the listeners of this configuration answer? For supervisors and
 * containers. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "probe.h"
#include "sockets.h"

enum { HEALTH_MS = 4000, CONNECT_MS = 1000 };

static const char health_name[] = "localhost";

static bool is_unspecified(const struct addr *a)
{
    static const uint8_t zeros[16];

    return memcmp(a->ip, zeros, addr_ip_len(a->family)) == 0;
}

/* Where a listener is reached from this machine. */
static struct addr reach(const struct addr *listening)
{
    struct addr a = *listening;

    if (!is_unspecified(&a))
        return a;
    if (a.family == ADDR_V4) {
        a.ip[0] = 127;
        a.ip[3] = 1;
    } else {
        a.ip[15] = 1;
    }
    return a;
}

static bool ask(const struct config *c, const struct config_listener *l, struct probe *p,
                char *why, size_t why_size)
{
    static const char proxy_header[] = "PROXY UNKNOWN\r\n";
    struct tls_client_report report;
    uint8_t query[PROBE_QUERY_SIZE];
    size_t len = probe_query(query, 0, health_name, false);
    struct probe_answer *answer = malloc(sizeof(*answer));
    bool ok = answer != NULL;

    if (l->proxy_protocol.n > 0)
        ok = ok && probe_send(p, proxy_header, sizeof(proxy_header) - 1);
    /* The certificate is for others to judge: nobody calls the server by this address. */
    if (ok && l->tls &&
        !probe_tls(p, "localhost", l->kind == LISTENER_DOH ? "h2" : "dot", NULL, &report)) {
        snprintf(why, why_size, "%s", report.faults[report.n_faults - 1]);
        ok = false;
    } else if (ok && l->kind == LISTENER_DOH) {
        ok = probe_ask_doh(p, true, "localhost", c->http_paths[0], query, len, answer, why,
                           why_size);
        if (ok && answer->status != 200) {
            snprintf(why, why_size, "HTTP status %d", answer->status);
            ok = false;
        }
    } else if (ok) {
        ok = probe_ask_stream(p, query, len, answer, why, why_size);
    }
    if (ok && answer->len < DNS_HEADER_SIZE) {
        snprintf(why, why_size, "the answer is no DNS message");
        ok = false;
    }
    free(answer);
    return ok;
}

static bool check_listener(const struct config *c, const struct config_listener *l,
                           uint64_t deadline_ms, FILE *out)
{
    struct addr at = reach(&l->address);
    char text[ADDR_TEXT_SIZE], why[PROBE_WHY] = "memory is out";
    struct probe p;
    bool ok = probe_connect(&p, &at, CONNECT_MS, deadline_ms, why, sizeof(why));

    if (!ok && l->address.family == ADDR_V6 && is_unspecified(&l->address)) {
        /* A machine without IPv6 on its loopback. */
        at = (struct addr){.ip = {127, 0, 0, 1}, .family = ADDR_V4, .port = at.port};
        ok = probe_connect(&p, &at, CONNECT_MS, deadline_ms, why, sizeof(why));
    }
    if (ok) {
        ok = ask(c, l, &p, why, sizeof(why));
        probe_close(&p);
    }
    fprintf(out, "%s %s: %s\n", listener_kind_name(l->kind), addr_format(&at, text),
            ok ? "answers" : why);
    return ok;
}

/* A load balancer's listener may take nobody else; a port of the kernel's choice is not known.
 */
static bool can_ask(const struct config_listener *l)
{
    struct addr at = reach(&l->address);

    return l->address.port != 0 && (l->proxy_protocol.n == 0 ||
                                    cidr_any(l->proxy_protocol.list, l->proxy_protocol.n, &at));
}

int check_health(const struct config *c, FILE *out)
{
    uint64_t deadline_ms = clock_now_ms() + HEALTH_MS;
    bool seen[3] = {false}, ok = true;
    size_t asked = 0;

    for (size_t i = 0; i < c->n_listeners; i++) {
        const struct config_listener *l = &c->listeners[i];
        if (seen[l->kind] || !can_ask(l))
            continue;
        seen[l->kind] = true;
        asked++;
        if (!check_listener(c, l, deadline_ms, out))
            ok = false;
    }
    if (asked == 0)
        fputs("no listener can be asked from here\n", out);
    return ok && asked > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
