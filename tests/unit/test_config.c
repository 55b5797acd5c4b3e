/* test_config.c - reading, checking and dumping configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config_schema.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* A configuration without resolv.conf, so that the machine's does not matter. */
#define UPSTREAM "upstreams: [{address: 192.0.2.53}]\n"

static char folder[] = "/tmp/pith-config-XXXXXX";
static char config_path[64];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(config_path, sizeof(config_path), "%s/pith.yaml", folder);
    /* The data is named relative to here. */
    const char *top = getenv("top_srcdir");
    return top == NULL ? 0 : chdir(top);
}

static int clean_up(void **state)
{
    (void)state;
    unlink(config_path);
    return rmdir(folder);
}

static void put(const char *text, size_t len)
{
    FILE *f = fopen(config_path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Loads the text; *faults is what was told, with the path taken off each line. */
static struct config *load_octets(const char *text, size_t len, char **faults)
{
    char *told = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&told, &size);

    assert_non_null(f);
    put(text, len);
    struct config *c = config_load(config_path, f);
    fclose(f);

    size_t prefix = strlen(config_path) + 1;
    char *out = told;
    for (char *line = told; *line != '\0';) {
        size_t n = strcspn(line, "\n") + 1;
        assert_int_equal(strncmp(line, config_path, prefix - 1), 0);
        memmove(out, line + prefix, n - prefix);
        out += n - prefix;
        line += n;
    }
    *out = '\0';
    *faults = told;
    return c;
}

static struct config *load(const char *text, char **faults)
{
    return load_octets(text, strlen(text), faults);
}

static struct config *load_good(const char *text)
{
    char *faults;
    struct config *c = load(text, &faults);

    assert_string_equal(faults, "");
    assert_non_null(c);
    free(faults);
    return c;
}

static char *dump(const struct config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_non_null(f);
    config_dump(c, f);
    fclose(f);
    return text;
}

static void test_defaults(void **state)
{
    struct config *c = load_good(UPSTREAM);
    char text[ADDR_TEXT_SIZE];

    (void)state;
    assert_true(c->workers >= 1);
    assert_int_equal(c->n_listeners, 1);
    assert_int_equal(c->listeners[0].kind, LISTENER_DNS);
    assert_false(c->listeners[0].tls);
    assert_string_equal(addr_format(&c->listeners[0].address, text), "127.0.0.1:53");
    assert_null(c->name);
    assert_int_equal(c->tls_min_version, 0x0303);
    assert_int_equal(c->n_http_paths, 1);
    assert_string_equal(c->http_paths[0], "/dns-query");
    assert_true(c->http_json);
    assert_null(c->http_cors);
    assert_int_equal(c->policy, POLICY_FASTEST);
    assert_int_equal(c->upstream_timeout_ms, 1300);
    assert_int_equal(c->upstream_deadline_ms, 4000);
    assert_int_equal(c->upstream_tries, 3);
    assert_int_equal(c->cache_memory_bytes, 64 << 20);
    assert_int_equal(c->min_ttl_s, 0);
    assert_int_equal(c->max_ttl_s, 86400);
    assert_int_equal(c->negative_max_ttl_s, 3600);
    assert_int_equal(c->failure_ttl_s, 5);
    assert_true(c->prefetch);
    assert_int_equal(c->stale_max_age_s, 86400);
    assert_int_equal(c->stale_ttl_s, 30);
    assert_int_equal(c->stale_client_timeout_ms, 1800);
    assert_null(c->snapshot);
    assert_int_equal(c->ecs_mode, ECS_OFF);
    assert_int_equal(c->ecs_ipv4_prefix, 24);
    assert_int_equal(c->ecs_ipv6_prefix, 56);
    assert_int_equal(c->n_local, 0);
    assert_false(c->private_reverse);
    assert_null(c->user);
    assert_int_equal(c->limit_connections, 20000);
    assert_int_equal(c->limit_connections_per_client, 100);
    assert_int_equal(c->limit_streams, 100);
    assert_int_equal(c->limit_handshake_ms, 5000);
    assert_int_equal(c->limit_idle_ms, 30000);
    assert_int_equal(c->limit_read_ms, 10000);
    assert_int_equal(c->limit_write_ms, 10000);
    assert_int_equal(c->limit_queries_per_connection, 0);
    assert_int_equal(c->rate_queries, 0);
    config_unref(c);
}

/* Loopback and private ranges; an open resolver is never a default. */
static void test_default_access(void **state)
{
    static const struct {
        const char *address;
        bool allowed;
    } rows[] = {
        {"127.0.0.1", true},    {"::1", true},         {"10.255.0.1", true},
        {"172.16.0.1", true},   {"172.32.0.1", false}, {"192.168.255.255", true},
        {"192.169.0.1", false}, {"169.254.1.1", true}, {"fd00::1", true},
        {"fe80::1", true},      {"8.8.8.8", false},    {"2001:db8::1", false},
        {"100.64.0.1", false},  {"0.0.0.0", false},    {"::", false},
    };
    struct config *c = load_good(UPSTREAM);

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct addr a;
        assert_true(addr_parse(&a, rows[i].address, 0));
        assert_int_equal(cidr_any(c->access.list, c->access.n, &a), rows[i].allowed);
    }
    config_unref(c);
}

#define CERTIFICATE                                                                            \
    "tls: {certificates: [{certificate: tests/unit/data/server.cert.pem, "                     \
    "key: tests/unit/data/server.key.pem}]}\n"

static const char full[] =
    "workers: 3\n"
    "listen:\n"
    "  doh: [ {address: \"[::]:443\"}, {address: \"127.0.0.1:8080\", tls: false,\n"
    "          trusted-proxies: [\"127.0.0.1/32\"]} ]\n"
    "  dot: [ {address: \"[::]:853\", proxy-protocol: [10.0.0.0/8, 192.0.2.1]} ]\n"
    "  dns: [ {address: \"127.0.0.1:53\"}, {address: \"[::1]\"} ]\n"
    "tls:\n"
    "  certificates: [ {certificate: tests/unit/data/server.cert.pem,\n"
    "                   key: tests/unit/data/server.key.pem} ]\n"
    "  min-version: \"1.3\"\n"
    "name: dns.example.net\n"
    "http: { paths: [/dns-query, /q], json: false, cors: \"*\" }\n"
    "upstreams:\n"
    "  - { address: 9.9.9.9, transport: tls, tls-name: dns.quad9.net }\n"
    "  - { address: \"192.0.2.53:5353\", domains: [Corp.Example, \"!x.corp.example.\"] }\n"
    "  - { address: \"2001:db8::1\", transport: tcp, trust-ad: true }\n"
    "  - { address: \"dns.example.com:8853\", transport: tls, bootstrap: [192.0.2.1],\n"
    "      pin: [\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"],\n"
    "      ca: tests/unit/data/server.cert.pem }\n"
    "upstream: { policy: round-robin, timeout: 900ms, tries: 2, deadline: 3s, outstanding: 7 "
    "}\n"
    "cache: { memory: 128MiB, min-ttl: 10, max-ttl: 2d, negative-max-ttl: 30m,\n"
    "         failure-ttl: 7s, prefetch: false, snapshot: /tmp/pith.snapshot,\n"
    "         serve-stale: { max-age: 0, ttl: 60s, client-timeout: 1s } }\n"
    "ecs: { mode: client, ipv4-prefix: 20, ipv6-prefix: 48 }\n"
    "local: [ \"router.lan A 192.168.1.1\", 'x.lan TXT \"a\\b\"' ]\n"
    "private-reverse: yes\n"
    "user: nobody\n"
    "access: { allow: [] }\n"
    "limits: { connections: 1, connections-per-client: 2, streams: 3, handshake: 400ms,\n"
    "          idle: 2m, read: 1m, write: 7s, queries-per-connection: 8,\n"
    "          rate: { queries: 9, burst: 10 } }\n";

static void test_full(void **state)
{
    static const uint8_t corp[] = "\4corp\7example";
    static const uint8_t empty_sha256[] = {0xe3, 0xb0, 0xc4, 0x42};
    struct config *c = load_good(full);
    char text[ADDR_TEXT_SIZE];

    (void)state;
    assert_int_equal(c->workers, 3);
    assert_int_equal(c->n_listeners, 5);
    assert_true(c->listeners[0].tls);
    assert_false(c->listeners[1].tls);
    assert_int_equal(c->listeners[1].trusted_proxies.n, 1);
    assert_int_equal(c->listeners[2].kind, LISTENER_DOT);
    assert_true(c->listeners[2].tls);
    assert_int_equal(c->listeners[2].proxy_protocol.n, 2);
    assert_string_equal(addr_format(&c->listeners[4].address, text), "[::1]:53");
    assert_int_equal(c->tls_min_version, 0x0304);
    assert_int_equal(c->n_http_paths, 2);
    assert_string_equal(c->http_cors, "*");

    const struct config_upstream *u = c->upstreams;
    assert_int_equal(c->n_upstreams, 4);
    assert_string_equal(addr_format(&u[0].addr, text), "9.9.9.9:853");
    assert_true(u[0].trust_ad);
    assert_int_equal(u[1].transport, UPSTREAM_UDP);
    assert_string_equal(addr_format(&u[1].addr, text), "192.0.2.53:5353");
    assert_false(u[1].trust_ad);
    assert_int_equal(u[1].n_domains, 2);
    assert_int_equal(u[1].domains[0].name_len, sizeof(corp));
    assert_memory_equal(u[1].domains[0].name, corp, sizeof(corp));
    assert_false(u[1].domains[0].negated);
    assert_true(u[1].domains[1].negated);
    assert_string_equal(addr_format(&u[2].addr, text), "[2001:db8::1]:53");
    assert_true(u[2].trust_ad);
    assert_string_equal(u[3].host, "dns.example.com");
    assert_int_equal(u[3].addr.port, 8853);
    assert_int_equal(u[3].addr.family, ADDR_NONE);
    assert_int_equal(u[3].n_pins, 1);
    assert_memory_equal(u[3].pins[0], empty_sha256, sizeof(empty_sha256));
    assert_string_equal(addr_format(&u[3].bootstrap[0], text), "192.0.2.1:53");

    assert_int_equal(c->policy, POLICY_ROUND_ROBIN);
    assert_int_equal(c->upstream_outstanding, 7);
    assert_int_equal(c->cache_memory_bytes, 128 << 20);
    assert_int_equal(c->min_ttl_s, 10);
    assert_int_equal(c->max_ttl_s, 2 * 86400);
    assert_int_equal(c->negative_max_ttl_s, 1800);
    assert_int_equal(c->stale_max_age_s, 0);
    assert_false(c->prefetch);
    assert_int_equal(c->ecs_mode, ECS_CLIENT);
    assert_int_equal(c->n_local, 2);
    assert_string_equal(c->local[1], "x.lan TXT \"a\\b\"");
    assert_true(c->private_reverse);
    assert_int_equal(c->access.n, 0);
    assert_int_equal(c->limit_handshake_ms, 400);
    assert_int_equal(c->rate_burst, 10);
    config_unref(c);
}

/* What -p prints is read back as the same, twice over. */
static void test_round_trip(void **state)
{
    static const char *const texts[] = {
        UPSTREAM,
        CERTIFICATE UPSTREAM,
        full,
        "upstreams: [{address: dns.example.net, transport: tls, bootstrap: "
        "[\"192.0.2.1:5353\"]}]\n"
        "limits: {rate: {queries: 5}}\n",
        UPSTREAM "local: [\"b.lan TXT \\\"\\\\\\\\, #: \\u00e4 [x] {y}\\\"\"]\n"
                 "http: {cors: \"https://a.example:8443\"}\n",
    };

    (void)state;
    for (size_t i = 0; i < ROWS(texts); i++) {
        struct config *first = load_good(texts[i]);
        char *once = dump(first);
        struct config *second = load_good(once);
        char *twice = dump(second);
        assert_string_equal(once, twice);
        assert_int_equal(first->n_listeners, second->n_listeners);
        assert_int_equal(first->n_upstreams, second->n_upstreams);
        assert_int_equal(first->n_local, second->n_local);
        for (size_t k = 0; k < first->n_local; k++)
            assert_string_equal(first->local[k], second->local[k]);
        free(once);
        free(twice);
        config_unref(first);
        config_unref(second);
    }
}

/* The encrypted front ends come with a certificate, and go where `listen` says otherwise. */
static void test_default_listeners(void **state)
{
    struct config *c = load_good(CERTIFICATE UPSTREAM);

    (void)state;
    assert_int_equal(c->n_listeners, 3);
    assert_int_equal(c->listeners[0].kind, LISTENER_DOH);
    assert_int_equal(c->listeners[0].address.port, 443);
    assert_int_equal(c->listeners[1].kind, LISTENER_DOT);
    assert_int_equal(c->listeners[1].address.port, 853);
    assert_int_equal(c->listeners[2].kind, LISTENER_DNS);
    config_unref(c);
    c = load_good(CERTIFICATE UPSTREAM "listen: {dot: [{address: 127.0.0.1}]}\n");
    assert_int_equal(c->n_listeners, 1);
    assert_int_equal(c->listeners[0].address.port, 853);
    config_unref(c);
    c = load_good(UPSTREAM "listen:\ncache:\nhttp:\n");
    assert_int_equal(c->n_listeners, 1);
    config_unref(c);
    /* A port that the kernel chooses is another one each time. */
    c = load_good(UPSTREAM
                  "listen: {dns: [{address: \"127.0.0.1:0\"}, {address: \"127.0.0.1:0\"}]}\n");
    assert_int_equal(c->n_listeners, 2);
    config_unref(c);
}

static void test_aliases(void **state)
{
    struct config *c = load_good(UPSTREAM "access: {allow: &a [192.0.2.0/24]}\n"
                                          "listen: {dns: [{address: \"127.0.0.1:5300\", "
                                          "proxy-protocol: *a}]}\n");

    (void)state;
    assert_int_equal(c->listeners[0].proxy_protocol.n, 1);
    assert_int_equal(c->access.n, 1);
    config_unref(c);
}

/* Each fault is one line, all of them come in one run. The texts are what an operator reads. */
static const struct fault_row {
    const char *text, *faults;
} fault_rows[] = {
    {UPSTREAM "wrkers: 2\n", "2: wrkers: unknown key\n"},
    {UPSTREAM "cache:\n  memry: 64MiB\n", "3: cache.memry: unknown key\n"},
    {UPSTREAM "cache: {memory: 64MiB, memory: 65MiB}\n",
     "2: cache.memory: is given twice, first in line 2\n"},
    {UPSTREAM "workers: 1\n" UPSTREAM, "3: upstreams: is given twice, first in line 1\n"},
    {UPSTREAM "workers: many\n", "2: workers: \"many\" is not a whole number\n"},
    {UPSTREAM "workers: 0\n", "2: workers: \"0\" is out of range (1 to 256)\n"},
    {UPSTREAM "workers: -1\n", "2: workers: \"-1\" is not a whole number\n"},
    {UPSTREAM "workers: [1]\n", "2: workers: is a list, but auto or a number is wanted\n"},
    {UPSTREAM "workers:\n", "2: workers: has no value, auto or a number is wanted\n"},
    {UPSTREAM "cache: 64MiB\n", "2: cache: is not a map (\"key: value\")\n"},
    {UPSTREAM "cache: {memory: 64MB5}\n", "2: cache.memory: \"64MB5\" has no unit that is "
                                          "known (KiB, MiB, GiB, TiB, kB, MB, GB, TB)\n"},
    {UPSTREAM "cache: {memory: 12KiB}\n",
     "2: cache.memory: \"12KiB\" is out of range (1MiB to 4TiB)\n"},
    {UPSTREAM "cache: {max-ttl: 3 parsecs}\n",
     "2: cache.max-ttl: \"3 parsecs\" has no unit that is known (ms, s, m, h, d, w)\n"},
    {UPSTREAM "cache: {max-ttl: 1500ms}\n",
     "2: cache.max-ttl: \"1500ms\" is not in whole seconds\n"},
    {UPSTREAM "cache: {max-ttl: 25d}\n",
     "2: cache.max-ttl: \"25d\" is out of range (1s to 24d)\n"},
    {UPSTREAM "cache: {prefetch: maybe}\n",
     "2: cache.prefetch: \"maybe\" is not true or false\n"},
    {UPSTREAM "cache:\n  max-ttl: 20d\n  serve-stale:\n    max-age: 5d\n",
     "5: cache.serve-stale.max-age: max-ttl and serve-stale.max-age are over 24d together\n"},
    {UPSTREAM "cache: {max-ttl: 24d}\n",
     "2: cache.max-ttl: max-ttl and serve-stale.max-age are over 24d together\n"},
    {UPSTREAM "cache: {min-ttl: 1h, max-ttl: 1m}\n",
     "2: cache.min-ttl: is longer than cache.max-ttl\n"},
    {UPSTREAM "cache: {snapshot: /no/such/folder/file}\n",
     "2: cache.snapshot: \"/no/such/folder/file\" has no folder to be in: No such file or "
     "directory\n"},
    {UPSTREAM "limits: {idle: 30}\n",
     "2: limits.idle: \"30\" needs a unit (ms, s, m, h, d, w)\n"},
    {UPSTREAM "limits: {rate: {queries: 4294967296}}\n",
     "2: limits.rate.queries: \"4294967296\" is too large\n"},
    {UPSTREAM "ecs: {mode: on}\n",
     "2: ecs.mode: \"on\" is not one of off, private, forward, client\n"},
    {UPSTREAM "ecs: {ipv4-prefix: 33}\n",
     "2: ecs.ipv4-prefix: \"33\" is out of range (0 to 32)\n"},
    {UPSTREAM "name: \"dns example\"\n", "2: name: \"dns example\" is not a host name\n"},
    {UPSTREAM "http: {paths: [dns-query]}\n",
     "2: http.paths[0]: \"dns-query\" does not begin with /\n"},
    {UPSTREAM "http: {paths: [\"/a?b\"]}\n",
     "2: http.paths[0]: \"/a?b\" has characters that a path may not have\n"},
    {UPSTREAM "http: {paths: []}\n", "2: http.paths: is empty\n"},
    {UPSTREAM "http: {cors: \"a\\r\\nb: c\"}\n",
     "2: http.cors: \"a??b: c\" has characters that a header field may not have\n"},
    {UPSTREAM "access: {allow: [10.0.0.1/8]}\n",
     "2: access.allow[0]: \"10.0.0.1/8\" is not an address range such as 192.0.2.0/24\n"},
    {UPSTREAM "access: {allow: 10.0.0.0/8}\n",
     "2: access.allow: is not a list ([...], or lines with \"- \")\n"},
    {UPSTREAM "local: [\"x.lan A 300.1.1.1\"]\n",
     "2: local[0]: not a record (name type rdata): \"x.lan A 300.1.1.1\"\n"},
    {UPSTREAM "local: [\"hosts /no/such/hosts\"]\n",
     "2: local[0]: /no/such/hosts: No such file or directory: \"hosts /no/such/hosts\"\n"},
    {UPSTREAM "listen: {doh: [{address: \"127.0.0.1:443\"}]}\n",
     "2: listen.doh[0].address: 127.0.0.1:443 needs a certificate in tls.certificates, or tls: "
     "false behind a proxy\n"},
    {UPSTREAM "listen: {dot: [{address: 127.0.0.1}]}\n",
     "2: listen.dot[0].address: 127.0.0.1:853 needs a certificate in tls.certificates\n"},
    {UPSTREAM "listen: {dns: [{tls: false}]}\n",
     "2: listen.dns[0].tls: unknown key\n2: listen.dns[0].address: is missing\n"},
    {UPSTREAM "listen: {dns: [{address: localhost}]}\n",
     "2: listen.dns[0].address: \"localhost\" is not an address with a port such as "
     "127.0.0.1:53\n"},
    {UPSTREAM "listen:\n  dns:\n    - address: 127.0.0.1:53\n    - address: 127.0.0.1:53\n",
     "5: listen.dns[1].address: 127.0.0.1:53 is the address of listen.dns[0] already\n"},
    {UPSTREAM "listen: {dns: []}\n", "2: listen.dns: has no address at all\n"},
    {UPSTREAM "tls: {min-version: \"1.1\"}\n",
     "2: tls.min-version: \"1.1\" is not one of 1.2, 1.3\n"},
    {UPSTREAM "tls:\n  certificates:\n    - certificate: /no/such/cert\n",
     "4: tls.certificates[0].certificate: \"/no/such/cert\" cannot be read: No such file or "
     "directory\n4: tls.certificates[0].key: is missing\n"},
    {UPSTREAM "tls: {ticket-keys: /no/such/keys}\n",
     "2: tls.ticket-keys: \"/no/such/keys\" cannot be read: No such file or directory\n"},
    {"upstreams: [{address: 9.9.9.9, transport: doh}]\n",
     "1: upstreams[0].transport: \"doh\" is not one of udp, tcp, tls\n"},
    {"upstreams: [{address: 9.9.9.9, transport: tls}]\n",
     "1: upstreams[0].address: needs a tls-name or a pin with transport: tls\n"},
    {"upstreams: [{address: 9.9.9.9, tls-name: dns.quad9.net}]\n",
     "1: upstreams[0].tls-name: is for transport: tls only\n"},
    {"upstreams: [{address: 9.9.9.9, transport: tls, tls-name: x, ca: /no/such/ca}]\n",
     "1: upstreams[0].ca: \"/no/such/ca\" cannot be read: No such file or directory\n"},
    {"upstreams: [{address: 9.9.9.9, transport: tls, pin: [sha256/AAAA]}]\n",
     "1: upstreams[0].pin[0]: \"sha256/AAAA\" is not sha256/ and 32 octets in base64\n"},
    {"upstreams: [{address: 9.9.9}]\n",
     "1: upstreams[0].address: \"9.9.9\" is neither an address nor a host name\n"},
    {"upstreams: [{address: \"a.example:0\"}, {address: 192.0.2.1}]\n",
     "1: upstreams[0].address: \"a.example:0\" is neither an address nor a host name\n"},
    {"upstreams: [{address: 0.0.0.0}]\n",
     "1: upstreams[0].address: 0.0.0.0 is no address that can be asked\n"},
    {"upstreams: [{address: dns.example.net}]\n",
     "1: upstreams: has only host names, and none with bootstrap addresses to find them\n"},
    {"upstreams: [{address: 192.0.2.1, bootstrap: [192.0.2.2]}]\n",
     "1: upstreams[0].bootstrap: is for host names only\n"},
    {"upstreams: [{address: 192.0.2.1, domains: [a..b]}]\n",
     "1: upstreams[0].domains[0]: \"a..b\" is not a domain name\n"},
    {"upstreams: [{address: 127.0.0.1}]\n",
     "1: upstreams[0].address: 127.0.0.1 is an address that we listen on ourselves\n"},
    {"upstreams: [{address: \"[::1]:5300\"}]\nlisten: {dns: [{address: \"[::]:5300\"}]}\n",
     "1: upstreams[0].address: [::1]:5300 is an address that we listen on ourselves\n"},
    {"upstreams: [{address: \"127.9.9.9:5300\"}]\nlisten: {dns: [{address: \"[::]:5300\"}]}\n",
     "1: upstreams[0].address: 127.9.9.9:5300 is an address that we listen on ourselves\n"},
    {"upstreams: [{transport: udp}]\n", "1: upstreams[0].address: is missing\n"},
    {"upstreams: []\n",
     "1: upstreams: is empty; leave it out for the nameservers of /etc/resolv.conf\n"},
    {UPSTREAM "upstream: {timeout: 2s, deadline: 1s}\n",
     "2: upstream.deadline: is shorter than upstream.timeout\n"},
    {UPSTREAM "? [a]\n: b\n", "2: document: has a key that is not a word\n"},
    {UPSTREAM "cache: [\n", "3: yaml: did not find expected node content (while parsing a flow "
                            "node, line 3)\n"},
    {UPSTREAM "a: b: c\n", "2: yaml: mapping values are not allowed in this context\n"},
    {UPSTREAM "workers: 1\nname: \xff\n", "3: yaml: invalid leading UTF-8 octet\n"},
    {UPSTREAM "name: *nobody\n", "2: yaml: found undefined alias\n"},
    {UPSTREAM "---\nworkers: 2\n", "3: document: is a second one, only one is read\n"},
    {"- a\n- b\n", "1: document: is not a map (\"key: value\")\n"},
    {"&all {upstreams: *all}\n", "1: upstreams: is not a list ([...], or lines with \"- \")\n"},
    {"&all {cache: *all}\n", "1: cache.cache: unknown key\n"},
    /* All at once, in the order of the file, then what does not fit together. */
    {"workers: x\ncache:\n  memory: y\n  max-ttl: 20d\n  serve-stale: {max-age: 20d}\nfoo: 1\n"
     "upstreams:\n  - {address: 192.0.2.1, transport: z}\n",
     "1: workers: \"x\" is not a whole number\n"
     "3: cache.memory: \"y\" is not a size such as 64MiB\n"
     "6: foo: unknown key\n"
     "8: upstreams[0].transport: \"z\" is not one of udp, tcp, tls\n"
     "5: cache.serve-stale.max-age: max-ttl and serve-stale.max-age are over 24d together\n"},
};

static void test_faults(void **state)
{
    size_t wrong = 0;

    (void)state;
    for (size_t i = 0; i < ROWS(fault_rows); i++) {
        char *faults;
        struct config *c = load(fault_rows[i].text, &faults);
        if (c != NULL || strcmp(faults, fault_rows[i].faults) != 0) {
            print_message("%s--- told:\n%s--- wanted:\n%s", fault_rows[i].text, faults,
                          fault_rows[i].faults);
            wrong++;
        }
        config_unref(c);
        free(faults);
    }
    assert_int_equal(wrong, 0);
}

static void test_too_many_upstreams(void **state)
{
    char text[4096] = "upstreams:\n";
    size_t len = strlen(text);
    char *faults;

    (void)state;
    for (unsigned i = 1; i <= 64; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "- address: 192.0.2.%u\n", i);
    config_unref(load_good(text));
    snprintf(text + len, sizeof(text) - len, "- address: 192.0.2.65\n");
    assert_null(load(text, &faults));
    assert_string_equal(faults, "2: upstreams: has 65 servers, 64 are the most\n");
    free(faults);
}

/* A certificate without its key, or with another's. */
static void test_certificates(void **state)
{
    static const char *const keys[] = {"tests/unit/data/other.key.pem",
                                       "tests/unit/data/README"};
    char text[512];

    (void)state;
    for (size_t i = 0; i < ROWS(keys); i++) {
        char *faults;
        snprintf(text, sizeof(text),
                 UPSTREAM "tls:\n  certificates:\n"
                          "    - certificate: tests/unit/data/server.cert.pem\n      key: %s\n",
                 keys[i]);
        struct config *c = load(text, &faults);
        assert_null(c);
        assert_int_equal(strncmp(faults, "4: tls.certificates[0].certificate: ", 36), 0);
        assert_non_null(strstr(faults, keys[i]));
        assert_ptr_equal(strchr(faults, '\n'), faults + strlen(faults) - 1);
        free(faults);
    }
    char *faults;
    struct config *c = load(UPSTREAM "tls:\n  ticket-keys: tests/unit/data/README\n"
                                     "  certificates:\n"
                                     "    - certificate: tests/unit/data/server.cert.pem\n"
                                     "      key: tests/unit/data/server.key.pem\n",
                            &faults);
    assert_null(c);
    assert_int_equal(strncmp(faults, "3: tls.ticket-keys: ", 20), 0);
    free(faults);
}

static void test_missing_file(void **state)
{
    char *told = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&told, &size);

    (void)state;
    assert_null(config_load("/no/such/file", f));
    assert_null(config_load("/tmp", f));
    fclose(f);
    assert_string_equal(told,
                        "/no/such/file: config: cannot be read: No such file or directory\n"
                        "/tmp: config: cannot be read: Is a directory\n");
    free(told);
}

/* Every prefix of a good file, and every file with one octet changed, is read or refused. */
static void test_mutated(void **state)
{
    static const char octets[] = {'\0', '\n', ' ', '[', '}', ':', '*', '&', '"', '9', '\x80'};
    char copy[sizeof(full)];
    size_t len = sizeof(full) - 1;

    (void)state;
    for (size_t i = 0; i < len; i += 3) {
        char *faults;
        struct config *c = load_octets(full, i, &faults);
        assert_true((c == NULL) == (*faults != '\0'));
        config_unref(c);
        free(faults);
        memcpy(copy, full, sizeof(full));
        copy[i] = octets[i % sizeof(octets)];
        c = load_octets(copy, len, &faults);
        assert_true((c == NULL) == (*faults != '\0'));
        config_unref(c);
        free(faults);
    }
}

/* Rows of the table that could not work. */
/* Variables come before the file, in the syntax of config_env.c. */
static void test_environment(void **state)
{
    static const char *const given[][2] = {
        {"PITH_CACHE_MEMORY", "96MiB"},
        {"PITH_UPSTREAMS", " 9.9.9.9,transport=tls,tls-name=dns.quad9.net  "
                           "[2001:db8::53]:5353,domains=corp.example+!x.corp.example"},
        {"PITH_LISTEN_DOH", "[::]:8443,tls=false,trusted-proxies=10.0.0.0/8+fc00::/7"},
        {"PITH_LIMITS_RATE_QUERIES", "7"},
        {"PITH_LOCAL", "a.lan A 192.0.2.1; b.lan A 192.0.2.2"},
        {"PITH_SECCOMP", "off"},
        {"PITH_PORT", "tcp://192.0.2.1:443"},
        {"PITH_SERVICE_HOST", "192.0.2.1"},
        {"PITH_TEST_ANYTHING", "x"},
    };
    char *faults;

    (void)state;
    for (size_t i = 0; i < ROWS(given); i++)
        setenv(given[i][0], given[i][1], 1);
    struct config *c = load("cache: {memory: 32MiB, prefetch: false}\n"
                            "upstreams: [{address: nonsense, transport: no}]\n"
                            "listen: {dns: [{address: 127.0.0.1:5300}]}\n",
                            &faults);
    for (size_t i = 0; i < ROWS(given); i++)
        unsetenv(given[i][0]);
    assert_string_equal(faults, "");
    assert_non_null(c);
    assert_int_equal(c->cache_memory_bytes, 96 << 20);
    assert_false(c->prefetch);
    assert_false(c->seccomp);
    assert_int_equal(c->n_upstreams, 2);
    assert_int_equal(c->upstreams[0].transport, UPSTREAM_TLS);
    assert_string_equal(c->upstreams[0].tls_name, "dns.quad9.net");
    assert_int_equal(c->upstreams[1].addr.port, 5353);
    assert_int_equal(c->upstreams[1].n_domains, 2);
    assert_true(c->upstreams[1].domains[1].negated);
    assert_int_equal(c->n_listeners, 2);
    assert_false(c->listeners[0].tls);
    assert_int_equal(c->listeners[0].trusted_proxies.n, 2);
    assert_int_equal(c->rate_queries, 7);
    assert_int_equal(c->n_local, 2);
    assert_string_equal(c->local[1], "b.lan A 192.0.2.2");
    config_unref(c);
    free(faults);
}

/* Each is one fault that names the variable; the file is good. */
static void test_environment_faults(void **state)
{
    static const struct {
        const char *name, *value, *fault;
    } rows[] = {
        {"PITH_CACHE_MEMRY", "1GiB", "PITH_CACHE_MEMRY: unknown variable"},
        {"PITH_CACHE", "1GiB", "PITH_CACHE: unknown variable"},
        {"PITH_UPSTREAM", "192.0.2.1", "PITH_UPSTREAM: unknown variable"},
        {"PITH_CACHE_MEMORY", "much", "PITH_CACHE_MEMORY: \"much\" is not a size"},
        {"PITH_CACHE_MEMORY", "", "PITH_CACHE_MEMORY: has no value"},
        {"PITH_ECS_MODE", "on", "PITH_ECS_MODE: \"on\" is not one of"},
        {"PITH_UPSTREAMS", "192.0.2.1,port=53", "PITH_UPSTREAMS: \"port\" is no key"},
        {"PITH_UPSTREAMS", "192.0.2.1,transport", "PITH_UPSTREAMS: \"transport\" has no value"},
        {"PITH_UPSTREAMS", "192.0.2.1,transport=quic", "PITH_UPSTREAMS: \"quic\" is not one of"},
        {"PITH_LISTEN_DNS", "127.0.0.1:70000", "PITH_LISTEN_DNS: \"127.0.0.1:70000\" is not"},
        {"PITH_TLS_CERTIFICATES", "tests/unit/data/server.cert.pem",
         "PITH_TLS_CERTIFICATES: an item has no key="},
        {"PITH_TLS_CERTIFICATES", "/nowhere,key=tests/unit/data/server.key.pem",
         "PITH_TLS_CERTIFICATES: \"/nowhere\" cannot be read"},
    };

    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        char *told = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&told, &size);
        assert_non_null(f);
        put(UPSTREAM, strlen(UPSTREAM));
        setenv(rows[i].name, rows[i].value, 1);
        struct config *c = config_load(config_path, f);
        unsetenv(rows[i].name);
        fclose(f);
        assert_null(c);
        const char *start = "environment: ";
        if (strncmp(told, start, strlen(start)) != 0 || strstr(told, rows[i].fault) == NULL)
            fail_msg("%s=%s: %s", rows[i].name, rows[i].value, told);
        free(told);
    }
}

static void check_rows(const struct option_table *t)
{
    assert_true(t->n > 0 && t->n <= 32);
    for (size_t i = 0; i < t->n; i++) {
        const struct option *o = &t->options[i];
        assert_non_null(o->name);
        assert_non_null(o->help);
        if (o->shape == OPTION_MAP || o->shape == OPTION_ITEMS)
            check_rows(o->members);
        else
            assert_non_null(o->kind);
        if (o->shape == OPTION_TEXTS)
            assert_int_equal(o->item_size, o->kind->size);
        if (o->kind == &kind_choice)
            assert_non_null(o->choices);
        assert_true(o->max == 0 || o->min <= o->max);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(o->name, t->options[k].name);
    }
}

static void test_table(void **state)
{
    (void)state;
    check_rows(&config_options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_default_access),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_default_listeners),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_certificates),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_too_many_upstreams),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_faults),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_table),
    };

    return cmocka_run_group_tests(tests, set_up, clean_up);
}
