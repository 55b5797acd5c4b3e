/* local.c - local data: a sorted list of records, the special names behind it. */
#include "local.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getdns/getdns_extra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dns/build.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "special.h"

enum {
    RECORD_TTL_S = 300,    /* of lines without one, hosts files, discovery */
    SPECIAL_TTL_S = 10800, /* RFC 6303 3 */
    LOCALHOST_TTL_S = 604800,
    CHAIN_MAX = 8,
    PARAM_ALPN = 1,
    PARAM_PORT = 3,
    PARAM_IPV4HINT = 4,
    PARAM_IPV6HINT = 6,
    PARAM_DOHPATH = 7, /* RFC 9460 14.3.2, RFC 9461 5 */
};

struct record {
    uint8_t *data; /* owner in lower case, then the rdata */
    uint32_t ttl;
    uint32_t order; /* as read: records of a type stay in order */
    uint32_t line;  /* of the configuration, for faults */
    uint16_t type;
    uint16_t rdata_len;
    uint8_t name_len;
};

struct local {
    struct record *records; /* sorted by name */
    size_t n, size;
    bool private_reverse;
};

struct reader {
    struct local *local;
    size_t line;
    void (*on_fault)(void *arg, size_t line, const char *what);
    void *arg;
    bool failed;
};

static void fault(struct reader *r, const char *what)
{
    r->failed = true;
    if (r->on_fault)
        r->on_fault(r->arg, r->line, what);
}

/* ---- filling */

static void add(struct reader *r, const uint8_t *name, size_t name_len, uint16_t type,
                uint32_t ttl, const uint8_t *rdata, size_t rdata_len)
{
    struct local *l = r->local;
    struct record *rec;

    if (l->n == l->size) {
        size_t size = l->size ? l->size * 2 : 64;
        struct record *grown = realloc(l->records, size * sizeof *grown);

        if (!grown) {
            fault(r, "out of memory");
            return;
        }
        l->records = grown;
        l->size = size;
    }
    rec = &l->records[l->n];
    *rec = (struct record){
        .ttl = ttl,
        .order = (uint32_t)l->n,
        .line = (uint32_t)r->line,
        .type = type,
        .rdata_len = (uint16_t)rdata_len,
        .name_len = (uint8_t)name_len,
    };
    rec->data = malloc(name_len + rdata_len);
    if (!rec->data) {
        fault(r, "out of memory");
        return;
    }
    name_lower(rec->data, name, name_len);
    memcpy(rec->data + name_len, rdata, rdata_len);
    l->n++;
}

/* True when an answer can have the record: what is written as \# (RFC 3597 5) may be anything.
 */
static bool is_sound(const uint8_t *name, size_t name_len, uint16_t type, const uint8_t *rdata,
                     size_t rdata_len)
{
    uint8_t msg[DNS_MESSAGE_MAX];
    struct dns_builder b;

    return build_start(&b, msg, sizeof msg, 0, 0, name, name_len, type, DNS_CLASS_IN) &&
           build_rr(&b, DNS_ANSWER, name, name_len, type, DNS_CLASS_IN, 0, rdata, rdata_len);
}

/* One record in zone file syntax, by getdns's parser. */
static void read_record(struct reader *r, const char *text)
{
    getdns_dict *dict = NULL;
    uint8_t *wire = NULL;
    size_t len = 0, name_len;

    if (getdns_str2rr_dict(text, &dict, ".", RECORD_TTL_S) != GETDNS_RETURN_GOOD || !dict) {
        fault(r, "not a record (name type rdata)");
        return;
    }
    if (getdns_rr_dict2wire(dict, &wire, &len) != GETDNS_RETURN_GOOD) {
        fault(r, "not a record that has a wire form");
        goto out;
    }
    name_len = name_wire_len(wire, len);
    if (name_len == 0 || len < name_len + DNS_RR_FIXED ||
        rrtype_is_meta(dns_read16(wire + name_len)) ||
        dns_read16(wire + name_len + 2) != DNS_CLASS_IN) {
        fault(r, "not a record of class IN");
        goto out;
    }
    if (!is_sound(wire, name_len, dns_read16(wire + name_len), wire + name_len + DNS_RR_FIXED,
                  len - name_len - DNS_RR_FIXED)) {
        fault(r, "not rdata of its type");
        goto out;
    }
    if (name_len > 2 && wire[0] == 1 && wire[1] == '*') {
        fault(r, "a name, not a wildcard, is wanted");
        goto out;
    }
    add(r, wire, name_len, dns_read16(wire + name_len), dns_read32(wire + name_len + 4),
        wire + name_len + DNS_RR_FIXED, len - name_len - DNS_RR_FIXED);
out:
    free(wire);
    getdns_dict_destroy(dict);
}

/* The reverse name of an address: in-addr.arpa (RFC 1035 3.5) or ip6.arpa (RFC 3596 2.5). */
static size_t reverse_name(const struct addr *a, uint8_t *out)
{
    char text[128];
    size_t n = 0;

    if (a->family == ADDR_V4) {
        snprintf(text, sizeof text, "%u.%u.%u.%u.in-addr.arpa", a->ip[3], a->ip[2], a->ip[1],
                 a->ip[0]);
        return name_from_text(out, text);
    }
    for (size_t i = 16; i-- > 0;)
        n += (size_t)snprintf(text + n, sizeof text - n, "%x.%x.", a->ip[i] & 15u,
                              a->ip[i] >> 4u);
    snprintf(text + n, sizeof text - n, "ip6.arpa");
    return name_from_text(out, text);
}

/* "ADDRESS NAME [NAME ...]", as in hosts(5); the first name is the address's own. */
static void read_hosts_line(struct reader *r, char *line)
{
    char *save = NULL;
    char *word;
    struct addr a;
    bool first = true;

    line[strcspn(line, "#\r\n")] = '\0';
    word = strtok_r(line, " \t", &save);
    if (!word)
        return;
    if (!addr_parse(&a, word, 0)) {
        fault(r, "a hosts line does not begin with an address");
        return;
    }
    while ((word = strtok_r(NULL, " \t", &save))) {
        uint8_t name[DNS_NAME_MAX], reverse[DNS_NAME_MAX];
        size_t len = name_from_text(name, word);

        if (len == 0) {
            fault(r, "a hosts line has a malformed name");
            return;
        }
        add(r, name, len, a.family == ADDR_V4 ? RR_A : RR_AAAA, RECORD_TTL_S, a.ip,
            addr_ip_len(a.family));
        if (first)
            add(r, reverse, reverse_name(&a, reverse), RR_PTR, RECORD_TTL_S, name, len);
        first = false;
    }
}

static void read_hosts(struct reader *r, const char *path)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t size = 0;

    if (!f) {
        char what[256];

        snprintf(what, sizeof what, "%.200s: %s", path, strerror(errno));
        fault(r, what);
        return;
    }
    while (getline(&line, &size, f) >= 0)
        read_hosts_line(r, line);
    free(line);
    fclose(f);
}

static void read_line(struct reader *r, const char *line)
{
    line += strspn(line, " \t");
    if (strncmp(line, "hosts", 5) == 0 && (line[5] == ' ' || line[5] == '\t'))
        read_hosts(r, line + 5 + strspn(line + 5, " \t"));
    else
        read_record(r, line);
}

/* ---- discovery (RFC 9461, RFC 9462) */

static size_t param(uint8_t *out, uint16_t key, const void *value, size_t len)
{
    dns_write16(out, key);
    dns_write16(out + 2, (uint16_t)len);
    memcpy(out + 4, value, len);
    return 4 + len;
}

static bool is_any_address(const struct addr *a)
{
    static const uint8_t zero[16];

    return memcmp(a->ip, zero, sizeof zero) == 0;
}

/* Parameters come in the order of their keys (RFC 9460 2.2). */
static size_t discovery_rdata(uint8_t *out, const struct config *config,
                              const struct config_listener *l, uint16_t priority,
                              const uint8_t *target, size_t target_len)
{
    static const char doh_alpn[] = "\x02h2\x08http/1.1";
    static const char dot_alpn[] = "\x03"
                                   "dot";
    uint8_t port[2];
    char path[512];
    size_t n = 2;

    dns_write16(out, priority);
    memcpy(out + n, target, target_len);
    n += target_len;
    if (l->kind == LISTENER_DOH)
        n += param(out + n, PARAM_ALPN, doh_alpn, sizeof doh_alpn - 1);
    else
        n += param(out + n, PARAM_ALPN, dot_alpn, sizeof dot_alpn - 1);
    dns_write16(port, l->address.port);
    n += param(out + n, PARAM_PORT, port, sizeof port);
    if (!is_any_address(&l->address))
        n += param(out + n, l->address.family == ADDR_V4 ? PARAM_IPV4HINT : PARAM_IPV6HINT,
                   l->address.ip, addr_ip_len(l->address.family));
    if (l->kind == LISTENER_DOH && config->n_http_paths > 0) {
        int len = snprintf(path, sizeof path, "%.500s{?dns}", config->http_paths[0]);

        n += param(out + n, PARAM_DOHPATH, path, (size_t)len);
    }
    return n;
}

static void add_discovery(struct reader *r, const struct config *config)
{
    static const uint8_t resolver[] = "\x04_dns\x08resolver\x04"
                                      "arpa";
    uint8_t name[DNS_NAME_MAX], own[DNS_NAME_MAX + 5];
    uint8_t rdata[1024];
    size_t len;
    uint16_t priority = 0;

    if (!config->name)
        return;
    len = name_from_text(name, config->name);
    if (len == 0 || len + 5 > DNS_NAME_MAX)
        return; /* the config check said so already */
    memcpy(own, resolver, 5);
    memcpy(own + 5, name, len);
    for (size_t i = 0; i < config->n_listeners; i++) {
        const struct config_listener *l = &config->listeners[i];
        size_t n;

        if (l->kind == LISTENER_DNS || (l->kind == LISTENER_DOH && !l->tls))
            continue;
        n = discovery_rdata(rdata, config, l, ++priority, name, len);
        add(r, resolver, sizeof resolver, RR_SVCB, RECORD_TTL_S, rdata, n);
        add(r, own, len + 5, RR_SVCB, RECORD_TTL_S, rdata, n);
    }
}

/* ---- life */

static int compare_names(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    return memcmp(a, b, a_len);
}

static int compare_records(const void *x, const void *y)
{
    const struct record *a = x, *b = y;
    int order = compare_names(a->data, a->name_len, b->data, b->name_len);

    if (order != 0)
        return order;
    return a->order < b->order ? -1 : 1;
}

/* First record of a name in lower case, NULL without one. */
static const struct record *find(const struct local *l, const uint8_t *name, size_t len)
{
    size_t low = 0, high = l->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct record *rec = &l->records[middle];

        if (compare_names(rec->data, rec->name_len, name, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < l->n &&
        compare_names(l->records[low].data, l->records[low].name_len, name, len) == 0)
        return &l->records[low];
    return NULL;
}

static bool same_name(const struct local *l, const struct record *rec,
                      const struct record *first)
{
    return rec < l->records + l->n &&
           compare_names(rec->data, rec->name_len, first->data, first->name_len) == 0;
}

/* An alias is answered whole or not at all: nobody asks upstream for its target. */
static void check_aliases(struct reader *r)
{
    struct local *l = r->local;

    for (size_t i = 0; i < l->n; i++) {
        const struct record *rec = &l->records[i];
        uint8_t target[DNS_NAME_MAX];

        if (rec->type != RR_CNAME)
            continue;
        name_lower(target, rec->data + rec->name_len, rec->rdata_len);
        r->line = rec->line;
        if (!find(l, target, rec->rdata_len))
            fault(r, "the target of a CNAME has to be a local name as well");
    }
}

struct local *local_create(const struct config *config,
                           void (*on_fault)(void *arg, size_t line, const char *what),
                           void *arg)
{
    struct local *l = calloc(1, sizeof *l);
    struct reader r = {.local = l, .on_fault = on_fault, .arg = arg};

    if (!l)
        return NULL;
    l->private_reverse = config->private_reverse;
    for (r.line = 0; r.line < config->n_local; r.line++)
        read_line(&r, config->local[r.line]);
    r.line = 0;
    add_discovery(&r, config);
    if (l->n > 0)
        qsort(l->records, l->n, sizeof *l->records, compare_records);
    check_aliases(&r);
    if (r.failed) {
        local_destroy(l);
        return NULL;
    }
    return l;
}

void local_destroy(struct local *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n; i++)
        free(l->records[i].data);
    free(l->records);
    free(l);
}

/* ---- answering */

/* The SOA that lets a client keep a negative answer (RFC 2308 3); contents as RFC 6303 3 has
 * it. */
static bool add_soa(struct dns_builder *b, const uint8_t *zone, size_t zone_len, uint32_t ttl)
{
    static const uint8_t mailbox[] = "\x06nobody\x07invalid";
    static const uint32_t numbers[] = {1, 3600, 1200, 604800};
    uint8_t rdata[DNS_NAME_MAX + sizeof mailbox + 20];
    size_t n = zone_len;

    memcpy(rdata, zone, zone_len);
    memcpy(rdata + n, mailbox, sizeof mailbox);
    n += sizeof mailbox;
    for (size_t i = 0; i < 4; i++, n += 4)
        dns_write32(rdata + n, numbers[i]);
    dns_write32(rdata + n, ttl);
    return build_rr(b, DNS_AUTHORITY, zone, zone_len, RR_SOA, DNS_CLASS_IN, ttl, rdata, n + 4);
}

/* Records of the name, following aliases. Nothing of the type: the SOA of the last name. */
static bool answer_records(const struct local *l, const struct record *first, uint16_t qtype,
                           struct dns_builder *b, struct local_answer *answer)
{
    for (int hop = 0; first && hop < CHAIN_MAX; hop++) {
        const struct record *alias = NULL;
        uint8_t target[DNS_NAME_MAX];
        size_t found = 0;

        for (const struct record *rec = first; same_name(l, rec, first); rec++) {
            if (rec->type == RR_CNAME)
                alias = rec;
            if (rec->type != qtype && rec->type != RR_CNAME)
                continue;
            if (!build_rr(b, DNS_ANSWER, rec->data, rec->name_len, rec->type, DNS_CLASS_IN,
                          rec->ttl, rec->data + rec->name_len, rec->rdata_len))
                return false;
            if (rec->ttl < answer->max_age_s)
                answer->max_age_s = rec->ttl;
            found++;
        }
        if (alias && qtype != RR_CNAME) {
            name_lower(target, alias->data + alias->name_len, alias->rdata_len);
            first = find(l, target, alias->rdata_len);
            continue;
        }
        if (found == 0) {
            answer->max_age_s = RECORD_TTL_S;
            return add_soa(b, first->data, first->name_len, RECORD_TTL_S);
        }
        return true;
    }
    answer->rcode = DNS_RCODE_SERVFAIL; /* an alias loop in the configuration */
    answer->max_age_s = 0;
    return true;
}

static bool answer_localhost(uint16_t qtype, struct dns_builder *b, const uint8_t *zone,
                             size_t zone_len, struct local_answer *answer)
{
    static const uint8_t v4[4] = {127, 0, 0, 1};
    static const uint8_t v6[16] = {[15] = 1};

    if (qtype == RR_A || qtype == RR_AAAA)
        answer->max_age_s = LOCALHOST_TTL_S;
    if (qtype == RR_A)
        return build_rr(b, DNS_ANSWER, NULL, 0, RR_A, DNS_CLASS_IN, LOCALHOST_TTL_S, v4,
                        sizeof v4);
    if (qtype == RR_AAAA)
        return build_rr(b, DNS_ANSWER, NULL, 0, RR_AAAA, DNS_CLASS_IN, LOCALHOST_TTL_S, v6,
                        sizeof v6);
    return add_soa(b, zone, zone_len, SPECIAL_TTL_S);
}

/* The reverse name of 127.0.0.1, or of ::1, which is its zone's apex. */
static bool is_loopback_reverse(const uint8_t *name, size_t len, size_t zone_len)
{
    static const uint8_t v4[] = "\x01"
                                "1\x01"
                                "0\x01"
                                "0\x03"
                                "127\x07in-addr\x04"
                                "arpa";

    return (zone_len == 74 && len == zone_len) || name_equal(name, len, v4, sizeof v4);
}

static bool is_discovery_name(const uint8_t *name, size_t len)
{
    static const uint8_t dns[] = "\x04_dns\x08resolver\x04"
                                 "arpa";

    return name_equal(name, len, dns, sizeof dns);
}

static bool answer_special(enum special_kind kind, const uint8_t *qname, size_t qname_len,
                           uint16_t qtype, const uint8_t *zone, size_t zone_len,
                           struct dns_builder *b, struct local_answer *answer)
{
    static const uint8_t localhost[] = "\x09localhost";
    bool at_apex = qname_len == zone_len;

    answer->max_age_s = SPECIAL_TTL_S;
    switch (kind) {
    case SPECIAL_LOCALHOST:
        return answer_localhost(qtype, b, zone, zone_len, answer);
    case SPECIAL_LOOPBACK:
        if (is_loopback_reverse(qname, qname_len, zone_len)) {
            if (qtype == RR_PTR)
                return build_rr(b, DNS_ANSWER, NULL, 0, RR_PTR, DNS_CLASS_IN, SPECIAL_TTL_S,
                                localhost, sizeof localhost);
            return add_soa(b, zone, zone_len, SPECIAL_TTL_S);
        }
        break;
    case SPECIAL_RESOLVER:
        at_apex = at_apex || is_discovery_name(qname, qname_len);
        break;
    default:
        break;
    }
    if (at_apex && kind != SPECIAL_NXDOMAIN)
        return add_soa(b, zone, zone_len, SPECIAL_TTL_S);
    answer->rcode = DNS_RCODE_NXDOMAIN;
    return add_soa(b, zone, zone_len, SPECIAL_TTL_S);
}

bool local_lookup(const struct local *l, const uint8_t *qname, size_t qname_len, uint16_t qtype,
                  bool claimed, uint8_t *out, size_t size, struct local_answer *answer)
{
    uint8_t lower[DNS_NAME_MAX];
    const struct record *first = NULL;
    const uint8_t *zone;
    size_t zone_len;
    enum special_kind kind;
    struct dns_builder b;

    *answer = (struct local_answer){.max_age_s = UINT32_MAX};
    kind = special_find(qname, qname_len, &zone, &zone_len);
    if (l->n > 0) {
        name_lower(lower, qname, qname_len);
        first = find(l, lower, qname_len);
    }
    if (!first && kind == SPECIAL_PRIVATE &&
        (claimed || (l->private_reverse && qtype == RR_PTR)))
        return false;
    if (!first && kind == SPECIAL_NONE)
        return false;
    if (!build_start(&b, out, size, 0, 0, qname, qname_len, qtype, DNS_CLASS_IN))
        return false;
    if (first ? !answer_records(l, first, qtype, &b, answer)
              : !answer_special(kind, qname, qname_len, qtype, zone, zone_len, &b, answer))
        return false;
    answer->len = build_finish(&b);
    return true;
}
