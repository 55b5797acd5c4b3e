/* config.h - the configuration, as read from YAML (pith.yaml(5)) and checked.
 *
 * A struct config is immutable once config_load() returned it and may be read from all threads;
 * main and the workers hold references. Text and lists belong to it. */
#ifndef PITH_CONFIG_H
#define PITH_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/addr.h"

struct cidr_list {
    struct cidr *list;
    size_t n;
};

enum listener_kind { LISTENER_DOH, LISTENER_DOT, LISTENER_DNS };

struct config_listener {
    enum listener_kind kind;
    struct addr address;
    bool tls;                         /* DoH only: false is clear text behind a proxy */
    struct cidr_list trusted_proxies; /* whose X-Forwarded-For counts */
    struct cidr_list proxy_protocol;  /* who may (and must) send PROXY; empty: nobody */
};

struct config_certificate {
    char *certificate; /* PEM, leaf first, then the chain */
    char *key;
};

enum upstream_transport { UPSTREAM_UDP, UPSTREAM_TCP, UPSTREAM_TLS };

struct config_domain {
    uint8_t *name; /* wire name in lower case */
    size_t name_len;
    bool negated; /* "!corp.example": never this upstream */
};

struct config_upstream {
    char *text;       /* as written, for log lines */
    char *host;       /* a host name to be resolved; NULL when addr is given */
    struct addr addr; /* address and port; only the port when host is set */
    enum upstream_transport transport;
    char *tls_name;      /* NULL: only pins */
    char *ca;            /* PEM file; NULL: the system's */
    uint8_t (*pins)[32]; /* SHA-256 of SubjectPublicKeyInfo */
    size_t n_pins;
    struct config_domain *domains; /* empty: every name */
    size_t n_domains;
    struct addr *bootstrap;
    size_t n_bootstrap;
    bool trust_ad; /* default: tls or loopback */
};

enum upstream_policy { POLICY_FASTEST, POLICY_ORDERED, POLICY_ROUND_ROBIN };
enum ecs_mode { ECS_OFF, ECS_PRIVATE, ECS_FORWARD, ECS_CLIENT };

struct config {
    int refs;   /* atomic; config_ref(), config_unref() */
    char *path; /* NULL without a file */

    unsigned workers; /* resolved: at least 1 */
    struct config_listener *listeners;
    size_t n_listeners;
    char *name; /* our public name, NULL */

    struct config_certificate *certificates;
    size_t n_certificates;
    int tls_min_version; /* 0x0303 or 0x0304 as on the wire */
    char *ticket_keys;   /* file, NULL */

    char **http_paths;
    size_t n_http_paths;
    bool http_json;
    char *http_cors; /* value of access-control-allow-origin, NULL: no CORS */

    struct config_upstream *upstreams; /* from the file, else from resolv.conf; may be empty */
    size_t n_upstreams;
    enum upstream_policy policy;
    uint32_t upstream_timeout_ms, upstream_deadline_ms;
    unsigned upstream_tries;
    unsigned upstream_outstanding; /* cap a worker and upstream */

    uint64_t cache_memory_bytes;
    uint32_t min_ttl_s, max_ttl_s, negative_max_ttl_s, failure_ttl_s;
    bool prefetch;
    uint32_t stale_max_age_s; /* 0: serve-stale is off */
    uint32_t stale_ttl_s, stale_client_timeout_ms;
    char *snapshot; /* NULL */

    enum ecs_mode ecs_mode;
    uint8_t ecs_ipv4_prefix, ecs_ipv6_prefix;

    char **local; /* lines of `local:` as written; parsed by src/local.c */
    size_t n_local;
    bool private_reverse; /* forward private PTR */

    char *user; /* NULL: stay who we are */
    bool seccomp;
    struct cidr_list access;

    uint32_t limit_connections, limit_connections_per_client, limit_streams;
    uint32_t limit_handshake_ms, limit_idle_ms, limit_read_ms, limit_write_ms;
    uint32_t limit_queries_per_connection; /* 0: none */
    uint32_t rate_queries, rate_burst;     /* a second and client; 0: none */
};

/* Reads path (NULL: built-in defaults), checks everything, resolves defaults (workers,
 * resolv.conf). Variables PITH_* of the environment come before the file. Each fault is one line
 * "FILE:LINE: key: what", or "environment: PITH_KEY: what", written to `faults`. NULL when
 * there was one. */
struct config *config_load(const char *path, FILE *faults);
struct config *config_ref(struct config *c);
void config_unref(struct config *c);

/* The effective configuration as YAML that config_load() reads back the same. */
void config_dump(const struct config *c, FILE *out);

#endif
