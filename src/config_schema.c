/* config_schema.c - the option table, and what works on any object it describes.
 *
 * The order of rows is the order of the dump and of pith.yaml(5). */
#include "config_schema.h"

#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

#define TABLE(rows)                                                                            \
    {                                                                                          \
        rows, sizeof(rows) / sizeof((rows)[0])                                                 \
    }

/* Rows. FIELD is the member of the struct named by the macro OBJECT of each table below. */
#define FIELD_(object, field) offsetof(object, field)
#define AT(field) FIELD_(OBJECT, field)
#define ITEM_SIZE(field) sizeof(*((OBJECT *)0)->field)
#define SCALAR(key, field, of, text, ...)                                                      \
    {                                                                                          \
        .name = key, .kind = &of, .offset = AT(field), .initial = text, __VA_ARGS__            \
    }
#define MAP(key, table, text)                                                                  \
    {                                                                                          \
        .name = key, .shape = OPTION_MAP, .members = &table, .help = text                      \
    }
#define TEXTS(key, field, count, of, text, ...)                                                \
    {                                                                                          \
        .name = key, .shape = OPTION_TEXTS, .kind = &of, .offset = AT(field),                  \
        .count_offset = AT(count), .item_size = ITEM_SIZE(field), .initial = text, __VA_ARGS__ \
    }
#define ITEMS(key, field, count, table, text)                                                  \
    {                                                                                          \
        .name = key, .shape = OPTION_ITEMS, .members = &table, .offset = AT(field),            \
        .count_offset = AT(count), .item_size = ITEM_SIZE(field), .help = text                 \
    }

enum {
    DAY_S = 86400,
    WEEK_S = 7 * DAY_S,
    /* What the cache's clock of 22 bits can tell apart, with room to spare. */
    LIFE_MAX_S = 24 * DAY_S,
    DAY_MS = DAY_S * 1000,
    MINUTE_MS = 60 * 1000,
    HOUR_MS = 60 * MINUTE_MS,
};

/* ---- listen ---- */

#define OBJECT struct config_listener
#define LISTENER_ADDRESS(default_port)                                                         \
    SCALAR("address", address, kind_address, NULL, .required = true, .port = default_port,     \
           .help = "Where to listen; [::] takes IPv4 as well")
#define LISTENER_PROXY_PROTOCOL                                                                \
    TEXTS("proxy-protocol", proxy_protocol.list, proxy_protocol.n, kind_cidr, NULL,            \
          .help = "From whom a PROXY header (v1 or v2) is required and believed")

static const struct option doh_rows[] = {
    LISTENER_ADDRESS(443),
    SCALAR("tls", tls, kind_bool, "true", .help = "false: clear text, behind a reverse proxy"),
    TEXTS("trusted-proxies", trusted_proxies.list, trusted_proxies.n, kind_cidr, NULL,
          .help = "Whose Forwarded and X-Forwarded-For are believed"),
    LISTENER_PROXY_PROTOCOL,
};
static const struct option dot_rows[] = {LISTENER_ADDRESS(853), LISTENER_PROXY_PROTOCOL};
static const struct option dns_rows[] = {LISTENER_ADDRESS(53), LISTENER_PROXY_PROTOCOL};
static const struct option_table doh_table = TABLE(doh_rows);
static const struct option_table dot_table = TABLE(dot_rows);
static const struct option_table dns_table = TABLE(dns_rows);
#undef OBJECT

#define OBJECT struct config_document
static const struct option listen_rows[] = {
    ITEMS("doh", listeners[LISTENER_DOH].list, listeners[LISTENER_DOH].n, doh_table,
          "DNS over HTTPS (HTTP/2 and HTTP/1.1)"),
    ITEMS("dot", listeners[LISTENER_DOT].list, listeners[LISTENER_DOT].n, dot_table,
          "DNS over TLS"),
    ITEMS("dns", listeners[LISTENER_DNS].list, listeners[LISTENER_DNS].n, dns_table,
          "Plain DNS, UDP and TCP"),
};
static const struct option_table listen_table = TABLE(listen_rows);
#undef OBJECT

/* ---- tls, http ---- */

#define OBJECT struct config_certificate
static const struct option certificate_rows[] = {
    SCALAR("certificate", certificate, kind_file, NULL, .required = true,
           .help = "PEM file: the certificate, then its chain"),
    SCALAR("key", key, kind_file, NULL, .required = true,
           .help = "PEM file of its private key"),
};
static const struct option_table certificate_table = TABLE(certificate_rows);
#undef OBJECT

#define OBJECT struct config
static const struct option_choice tls_versions[] = {
    {"1.2", 0x0303}, {"1.3", 0x0304}, {NULL, 0}};
static const struct option tls_rows[] = {
    ITEMS("certificates", certificates, n_certificates, certificate_table,
          "Chosen by the name that a client asks for; the first is the default"),
    SCALAR("min-version", tls_min_version, kind_choice, "1.2", .choices = tls_versions,
           .help = "The oldest version of TLS that is spoken"),
    SCALAR("ticket-keys", ticket_keys, kind_file, NULL,
           .help = "File of 80-byte session ticket keys, newest first, shared by instances"),
};
static const struct option_table tls_table = TABLE(tls_rows);

static const struct option http_rows[] = {
    TEXTS("paths", http_paths, n_http_paths, kind_url_path, "/dns-query",
          .help = "Where DNS queries are answered"),
    SCALAR("json", http_json, kind_bool, "true",
           .help = "The JSON API at /resolve and, for application/dns-json, at paths"),
    SCALAR("cors", http_cors, kind_header, NULL,
           .help = "Value of access-control-allow-origin, * for any page"),
};
static const struct option_table http_table = TABLE(http_rows);
#undef OBJECT

/* ---- upstreams ---- */

#define OBJECT struct config_upstream
static const struct option_choice transports[] = {
    {"udp", UPSTREAM_UDP}, {"tcp", UPSTREAM_TCP}, {"tls", UPSTREAM_TLS}, {NULL, 0}};
static const struct option upstream_item_rows[] = {
    SCALAR("address", text, kind_text, NULL, .required = true,
           .help = "IP address or host name, with a port where it is not 53 (853 for tls)"),
    SCALAR("transport", transport, kind_choice, "udp", .choices = transports,
           .help = "udp (long answers over TCP), tcp or tls"),
    SCALAR("tls-name", tls_name, kind_host, NULL,
           .help = "The name that its certificate must have"),
    SCALAR("ca", ca, kind_file, NULL,
           .help = "PEM file of the authorities that are believed; without it the system's"),
    TEXTS("pin", pins, n_pins, kind_pin, NULL,
          .help = "SHA-256 of the public keys that its certificate may have"),
    TEXTS("domains", domains, n_domains, kind_domain, NULL,
          .help = "Only names at and below these; !NAME for all but these"),
    TEXTS("bootstrap", bootstrap, n_bootstrap, kind_address, NULL, .port = 53,
          .help = "For a host name as address: the IP addresses that tell it"),
    SCALAR("trust-ad", trust_ad, kind_bool, NULL,
           .help = "Give its AD bit on; without it true for tls and for loopback addresses"),
};
static const struct option_table upstream_item_table = TABLE(upstream_item_rows);
#undef OBJECT

#define OBJECT struct config
static const struct option_choice policies[] = {{"fastest", POLICY_FASTEST},
                                                {"ordered", POLICY_ORDERED},
                                                {"round-robin", POLICY_ROUND_ROBIN},
                                                {NULL, 0}};
static const struct option upstream_rows[] = {
    SCALAR("policy", policy, kind_choice, "fastest", .choices = policies,
           .help = "Which upstream is asked first"),
    SCALAR("timeout", upstream_timeout_ms, kind_millis, "1300ms", .min = 10, .max = MINUTE_MS,
           .help = "How long one try may take"),
    SCALAR("tries", upstream_tries, kind_count, "3", .min = 1, .max = 10,
           .help = "How often a question is asked before it is given up"),
    SCALAR("deadline", upstream_deadline_ms, kind_millis, "4s", .min = 10, .max = MINUTE_MS,
           .help = "How long all tries together may take"),
    SCALAR("outstanding", upstream_outstanding, kind_count, "1000", .min = 1, .max = 60000,
           .help = "Questions in flight to one upstream, for each worker"),
};
static const struct option_table upstream_table = TABLE(upstream_rows);

/* ---- cache, ecs, access, limits ---- */

static const struct option stale_rows[] = {
    SCALAR("max-age", stale_max_age_s, kind_ttl, "1d", .max = LIFE_MAX_S,
           .help = "How long past its life an answer may be given; 0: never"),
    SCALAR("ttl", stale_ttl_s, kind_ttl, "30", .min = 1, .max = WEEK_S,
           .help = "The TTL of its records then"),
    SCALAR("client-timeout", stale_client_timeout_ms, kind_millis, "1800ms", .max = MINUTE_MS,
           .help = "How long the upstream has before a stale answer is given"),
};
static const struct option_table stale_table = TABLE(stale_rows);

static const struct option cache_rows[] = {
    SCALAR("memory", cache_memory_bytes, kind_size, "64MiB", .min = CACHE_MIN_BYTES,
           .max = 1ULL << 42, .help = "Memory for answers, everything included"),
    SCALAR("min-ttl", min_ttl_s, kind_ttl, "0", .max = DAY_S,
           .help = "The shortest life of an answer"),
    SCALAR("max-ttl", max_ttl_s, kind_ttl, "1d", .min = 1, .max = LIFE_MAX_S,
           .help = "The longest life of an answer"),
    SCALAR("negative-max-ttl", negative_max_ttl_s, kind_ttl, "1h", .max = WEEK_S,
           .help = "The longest life of an answer that there is no such name or record"),
    SCALAR("failure-ttl", failure_ttl_s, kind_ttl, "5s", .min = 1, .max = 300,
           .help = "How long a failure is remembered (RFC 9520)"),
    SCALAR("prefetch", prefetch, kind_bool, "true",
           .help = "Refresh what is asked often before its life ends"),
    MAP("serve-stale", stale_table,
        "Answers past their life when no upstream answers (RFC 8767)"),
    SCALAR("snapshot", snapshot, kind_saved_file, NULL,
           .help = "File that keeps the cache over a restart"),
};
static const struct option_table cache_table = TABLE(cache_rows);

static const struct option_choice ecs_modes[] = {{"off", ECS_OFF},
                                                 {"private", ECS_PRIVATE},
                                                 {"forward", ECS_FORWARD},
                                                 {"client", ECS_CLIENT},
                                                 {NULL, 0}};
static const struct option ecs_rows[] = {
    SCALAR("mode", ecs_mode, kind_choice, "off", .choices = ecs_modes,
           .help = "off: none is sent; private: /0; forward: the client's own option; client: "
                   "that, else its address"),
    SCALAR("ipv4-prefix", ecs_ipv4_prefix, kind_octet, "24", .max = 32,
           .help = "Bits of an IPv4 address that are told"),
    SCALAR("ipv6-prefix", ecs_ipv6_prefix, kind_octet, "56", .max = 128,
           .help = "Bits of an IPv6 address that are told"),
};
static const struct option_table ecs_table = TABLE(ecs_rows);

static const struct option access_rows[] = {
    TEXTS("allow", access.list, access.n, kind_cidr,
          "127.0.0.0/8 ::1/128 10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 "
          "fe80::/10",
          .help = "Who may ask; all others are REFUSED"),
};
static const struct option_table access_table = TABLE(access_rows);

static const struct option rate_rows[] = {
    SCALAR("queries", rate_queries, kind_count, "0", .max = 100000,
           .help = "Queries a second of one IPv4 address or IPv6 /56; 0: no limit"),
    SCALAR("burst", rate_burst, kind_count, "0", .max = 100000,
           .help = "How many may come at once; 0: as many as queries"),
};
static const struct option_table rate_table = TABLE(rate_rows);

static const struct option limit_rows[] = {
    SCALAR("connections", limit_connections, kind_count, "20000", .min = 1, .max = 4000000,
           .help = "Connections in all"),
    SCALAR("connections-per-client", limit_connections_per_client, kind_count, "100", .min = 1,
           .max = 4000000, .help = "Connections of one IPv4 address or IPv6 /56"),
    SCALAR("streams", limit_streams, kind_count, "100", .min = 1, .max = 10000,
           .help = "Queries in flight on one connection"),
    SCALAR("handshake", limit_handshake_ms, kind_millis, "5s", .min = 100,
           .max = 10 * MINUTE_MS, .help = "Time for the TLS handshake"),
    SCALAR("idle", limit_idle_ms, kind_millis, "30s", .min = 100, .max = HOUR_MS,
           .help = "Time that a connection may rest"),
    SCALAR("read", limit_read_ms, kind_millis, "10s", .min = 100, .max = 10 * MINUTE_MS,
           .help = "Time for the whole of a request"),
    SCALAR("write", limit_write_ms, kind_millis, "10s", .min = 100, .max = 10 * MINUTE_MS,
           .help = "Time that a client may take nothing of an answer"),
    SCALAR("queries-per-connection", limit_queries_per_connection, kind_count, "0",
           .help = "Queries before a connection is ended; 0: any number"),
    MAP("rate", rate_table, "Queries a second"),
};
static const struct option_table limit_table = TABLE(limit_rows);

/* ---- the document ---- */

static const struct option rows[] = {
    SCALAR("workers", workers, kind_workers, "auto", .min = 1, .max = 256,
           .help = "Threads that answer; auto: one for each processor"),
    MAP("listen", listen_table, "Where clients ask"),
    MAP("tls", tls_table, "Certificates and versions"),
    SCALAR("name", name, kind_host, NULL, .help = "Our public name, for discovery (RFC 9462)"),
    MAP("http", http_table, "DNS over HTTPS"),
    ITEMS("upstreams", upstreams, n_upstreams, upstream_item_table,
          "Who is asked; without it the nameservers of /etc/resolv.conf"),
    MAP("upstream", upstream_table, "How upstreams are asked"),
    MAP("cache", cache_table, "What is remembered"),
    MAP("ecs", ecs_table, "Client subnet (RFC 7871)"),
    TEXTS("local", local, n_local, kind_text, NULL,
          .help = "Records that are answered before cache and upstream"),
    SCALAR("private-reverse", private_reverse, kind_bool, "false",
           .help = "Forward reverse lookups of private addresses (RFC 6303)"),
    SCALAR("user", user, kind_text, NULL, .help = "Who to become after the start as root"),
    SCALAR("seccomp", seccomp, kind_bool, "true",
           .help = "Only the system calls that a running server needs"),
    MAP("access", access_table, "Who may ask"),
    MAP("limits", limit_table, "What clients may take"),
};
#undef OBJECT

const struct option_table config_options = TABLE(rows);

/* ---- objects ---- */

void *option_list(const struct option *o, const void *object, size_t *count)
{
    void *list;

    memcpy(count, (const char *)object + o->count_offset, sizeof(*count));
    memcpy(&list, (const char *)object + o->offset, sizeof(list));
    return list;
}

static void set_list(const struct option *o, void *object, void *list, size_t n)
{
    memcpy((char *)object + o->count_offset, &n, sizeof(n));
    memcpy((char *)object + o->offset, &list, sizeof(list));
}

static void release_list(const struct option *o, void *object)
{
    size_t n;
    char *list = option_list(o, object, &n);

    for (size_t i = 0; i < n; i++) {
        void *item = list + i * o->item_size;
        if (o->shape == OPTION_ITEMS)
            option_table_release(o->members, item);
        else if (o->kind->release != NULL)
            o->kind->release(item);
    }
    free(list);
    set_list(o, object, NULL, 0);
}

bool option_list_create(const struct option *o, void *object, size_t n)
{
    void *list = n == 0 ? NULL : calloc(n, o->item_size);

    if (list == NULL && n > 0)
        return false;
    release_list(o, object);
    set_list(o, object, list, n);
    return true;
}

void option_table_release(const struct option_table *t, void *object)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (o->shape == OPTION_MAP)
            option_table_release(o->members, object);
        else if (o->shape != OPTION_SCALAR)
            release_list(o, object);
        else if (o->kind->release != NULL)
            o->kind->release(option_field(o, object));
    }
}

/* Items of a default list, with blanks between; none when there is no default. */
static bool default_list(const struct option *o, void *object)
{
    char why[128];
    size_t n = 0;

    if (o->initial == NULL)
        return true;
    char *words = strdup(o->initial);
    if (words == NULL)
        return false;
    for (const char *p = words; *p != '\0'; p += strspn(p, " ")) {
        n++;
        p += strcspn(p, " ");
    }
    bool ok = option_list_create(o, object, n);
    char *item = ok ? option_list(o, object, &n) : NULL;
    char *rest = words;
    for (const char *word; ok && (word = strsep(&rest, " ")) != NULL; item += o->item_size)
        ok = o->kind->read(o, word, item, why, sizeof(why));
    free(words);
    return ok;
}

bool option_table_defaults(const struct option_table *t, void *object)
{
    char why[128];
    bool ok = true;

    for (size_t i = 0; ok && i < t->n; i++) {
        const struct option *o = &t->options[i];
        if (o->shape == OPTION_MAP)
            ok = option_table_defaults(o->members, object);
        else if (o->shape == OPTION_TEXTS)
            ok = default_list(o, object);
        else if (o->shape == OPTION_SCALAR && o->initial != NULL)
            ok = o->kind->read(o, o->initial, option_field(o, object), why, sizeof(why));
    }
    return ok;
}
