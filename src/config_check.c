/* config_check.c - what one value alone cannot tell, and what follows from several.
 *
 * Everything that start or reload would stumble over and that can be known without opening a
 * socket is found here, with the line it stands in. */
#include <ifaddrs.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_schema.h"
#include "local.h"
#include "resolvconf.h"
#include "tls/tls.h"
#include "units.h"

enum {
    UPSTREAMS_MAX = 64, /* as many as src/upstream_set.h has candidates for */
};

static const char *const kind_names[] = {"listen.doh", "listen.dot", "listen.dns"};

/* ---- listeners ---- */

static bool add_listener(struct config_document *d, enum listener_kind kind,
                         const char *address)
{
    struct listener_list *l = &d->listeners[kind];

    l->list = calloc(1, sizeof(*l->list));
    if (l->list == NULL)
        return false;
    l->n = 1;
    l->list[0].tls = true;
    return addr_parse(&l->list[0].address, address, 0);
}

/* Without a `listen` section: plain DNS for this machine, and the encrypted front ends for all
 * as soon as there is a certificate. */
static void default_listeners(struct config_faults *f, struct config_document *d)
{
    bool certificates = d->config.n_certificates > 0;

    for (size_t kind = 0; kind < 3; kind++) {
        if (config_is_given(f, &d->listeners[kind].list))
            return;
    }
    if (!add_listener(d, LISTENER_DNS, "127.0.0.1:53") ||
        (certificates && (!add_listener(d, LISTENER_DOH, "[::]:443") ||
                          !add_listener(d, LISTENER_DOT, "[::]:853"))))
        config_fault(f, 0, "listen", "does not fit in memory");
}

static bool same_socket(const struct addr *a, const struct addr *b)
{
    /* Port 0 is a new one each time. */
    return a->port != 0 && a->port == b->port && addr_ip_equal(a, b) &&
           a->scope_id == b->scope_id;
}

/* An earlier listener on the same address. All kinds use TCP, so they all get in each other's
 * way; SO_REUSEPORT would let them, and share the clients out. */
static const char *find_twin(const struct config_document *d, const struct config_listener *l,
                             char *out, size_t out_size)
{
    for (size_t kind = 0; kind < 3; kind++) {
        const struct listener_list *other = &d->listeners[kind];
        for (size_t i = 0; i < other->n; i++) {
            if (&other->list[i] == l)
                return NULL;
            if (same_socket(&other->list[i].address, &l->address)) {
                snprintf(out, out_size, "%s[%zu]", kind_names[kind], i);
                return out;
            }
        }
    }
    return NULL;
}

static void check_listener(struct config_faults *f, struct config_document *d,
                           struct config_listener *l)
{
    char twin[64], text[ADDR_TEXT_SIZE];
    const char *name = kind_names[l->kind];

    if (l->address.family == ADDR_NONE)
        return;
    addr_format(&l->address, text);
    if (find_twin(d, l, twin, sizeof(twin)) != NULL)
        config_fault_at(f, &l->address, name, "%s is the address of %s already", text, twin);
    if (l->tls && d->config.n_certificates == 0)
        config_fault_at(f, &l->address, name, "%s needs a certificate in tls.certificates%s",
                        text, l->kind == LISTENER_DOH ? ", or tls: false behind a proxy" : "");
}

static void check_listeners(struct config_faults *f, struct config_document *d)
{
    size_t n = 0;

    default_listeners(f, d);
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < d->listeners[kind].n; i++, n++) {
            struct config_listener *l = &d->listeners[kind].list[i];
            l->kind = (enum listener_kind)kind;
            l->tls = kind == LISTENER_DOT || (kind == LISTENER_DOH && l->tls);
            check_listener(f, d, l);
        }
    }
    if (n == 0)
        config_fault_at(f, &d->listeners[LISTENER_DNS].list, "listen", "has no address at all");
}

/* ---- certificates ---- */

static bool try_context(const struct config *c, const struct tls_certificate_files *files,
                        size_t n_files, const char *ticket_keys, char *error, size_t error_size)
{
    const struct tls_options options = {
        .certificates = files,
        .n_certificates = n_files,
        .min_version = c->tls_min_version,
        .ticket_keys = ticket_keys,
    };
    struct tls_context *t = tls_context_create(&options, error, error_size);
    bool ok = t != NULL;

    tls_context_unref(t);
    return ok;
}

/* Each alone, so that a fault has the right line; then the ticket keys with the first. */
static void check_certificates(struct config_faults *f, struct config *c)
{
    struct tls_certificate_files files = {NULL, NULL};
    char error[512];
    bool all = c->n_certificates > 0;

    for (size_t i = 0; i < c->n_certificates; i++) {
        const struct config_certificate *pair = &c->certificates[i];
        files = (struct tls_certificate_files){pair->certificate, pair->key};
        if (pair->certificate == NULL || pair->key == NULL) {
            all = false;
        } else if (!try_context(c, &files, 1, NULL, error, sizeof(error))) {
            config_fault_at(f, &pair->certificate, "tls.certificates", "%s", error);
            all = false;
        }
    }
    if (all && c->ticket_keys != NULL &&
        !try_context(c, &files, 1, c->ticket_keys, error, sizeof(error)))
        config_fault_at(f, &c->ticket_keys, "tls.ticket-keys", "%s", error);
}

/* ---- upstreams ---- */

static bool is_wildcard(const struct addr *a)
{
    static const uint8_t zero[16];

    return memcmp(a->ip, zero, sizeof(zero)) == 0;
}

static bool is_own_address(const struct addr *a)
{
    struct ifaddrs *list;
    bool own = addr_is_loopback(a);

    if (own || getifaddrs(&list) != 0)
        return own;
    for (const struct ifaddrs *i = list; i != NULL && !own; i = i->ifa_next) {
        struct addr b;
        own =
            i->ifa_addr != NULL && addr_from_sockaddr(&b, i->ifa_addr) && addr_ip_equal(a, &b);
    }
    freeifaddrs(list);
    return own;
}

/* True when what is sent to this upstream would come back to us. */
static bool is_ourselves(const struct config_document *d, const struct config_upstream *u)
{
    const struct listener_list *l =
        &d->listeners[u->transport == UPSTREAM_TLS ? LISTENER_DOT : LISTENER_DNS];

    for (size_t i = 0; i < l->n; i++) {
        const struct addr *a = &l->list[i].address;
        if (a->port != u->addr.port || a->port == 0)
            continue;
        if (addr_ip_equal(a, &u->addr))
            return true;
        bool covers = a->family == ADDR_V6 || u->addr.family == ADDR_V4;
        if (is_wildcard(a) && covers && is_own_address(&u->addr))
            return true;
    }
    return false;
}

/* "host" or "host:port"; false when it is neither that nor an address. */
static bool split_host(struct config_upstream *u, uint16_t default_port)
{
    static const struct option host_option = {.name = "host"};
    char why[128];
    uint64_t port = default_port;
    size_t len = strcspn(u->text, ":");

    if (u->text[len] == ':' &&
        (units_read_count(u->text + len + 1, UINT16_MAX, &port) != NULL || port == 0))
        return false;
    char *host = strndup(u->text, len);
    if (host == NULL)
        return false;
    /* "1.2.3" and "300.1.1.1" are mistyped addresses, not names. */
    bool ok = host[strspn(host, "0123456789.")] != '\0' &&
              kind_host.read(&host_option, host, &u->host, why, sizeof(why));
    free(host);
    u->addr = (struct addr){.port = (uint16_t)port};
    return ok;
}

static void check_upstream_tls(struct config_faults *f, struct config_upstream *u,
                               const char *key)
{
    if (u->transport == UPSTREAM_TLS) {
        if (u->tls_name == NULL && u->n_pins == 0 && u->host != NULL)
            u->tls_name = strdup(u->host);
        if (u->tls_name == NULL && u->n_pins == 0 && !config_is_given(f, &u->tls_name))
            config_fault_at(f, &u->text, key, "needs a tls-name or a pin with transport: tls");
        return;
    }
    if (u->tls_name != NULL)
        config_fault_at(f, &u->tls_name, key, "is for transport: tls only");
    if (u->ca != NULL)
        config_fault_at(f, &u->ca, key, "is for transport: tls only");
    if (u->n_pins > 0)
        config_fault_at(f, &u->pins, key, "is for transport: tls only");
}

static void check_upstream(struct config_faults *f, struct config_document *d,
                           struct config_upstream *u)
{
    static const char key[] = "upstreams";
    uint16_t port = u->transport == UPSTREAM_TLS ? 853 : 53;

    if (u->text == NULL)
        return;
    bool is_address = addr_parse(&u->addr, u->text, port);
    if ((!is_address && !split_host(u, port)) || u->addr.port == 0) {
        config_fault_at(f, &u->text, key, "\"%s\" is neither an address nor a host name",
                        u->text);
        return;
    }
    if (is_address && is_wildcard(&u->addr))
        config_fault_at(f, &u->text, key, "%s is no address that can be asked", u->text);
    else if (is_address && is_ourselves(d, u))
        config_fault_at(f, &u->text, key, "%s is an address that we listen on ourselves",
                        u->text);
    if (is_address && u->n_bootstrap > 0)
        config_fault_at(f, &u->bootstrap, key, "is for host names only");
    check_upstream_tls(f, u, key);
    if (!config_is_given(f, &u->trust_ad))
        u->trust_ad = u->transport == UPSTREAM_TLS || addr_is_loopback(&u->addr);
}

/* The resolvers of the machine. Ourselves among them is how a machine's resolver is set up, no
 * fault; but somebody else is needed. */
static void default_upstreams(struct config_faults *f, struct config_document *d)
{
    struct config *c = &d->config;
    struct addr servers[8];
    size_t n = resolvconf_read("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf", servers,
                               sizeof(servers) / sizeof(servers[0]));

    c->upstreams = calloc(n == 0 ? 1 : n, sizeof(*c->upstreams));
    if (c->upstreams == NULL) {
        config_fault(f, 0, "upstreams", "do not fit in memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        char text[ADDR_TEXT_SIZE];
        struct config_upstream u = {.addr = servers[i],
                                    .transport = UPSTREAM_UDP,
                                    .trust_ad = addr_is_loopback(&servers[i])};
        if (is_ourselves(d, &u))
            continue;
        u.text = strdup(addr_format(&servers[i], text));
        if (u.text == NULL)
            config_fault(f, 0, "upstreams", "do not fit in memory");
        c->upstreams[c->n_upstreams++] = u;
    }
    if (n > 0 && c->n_upstreams == 0)
        config_fault(f, 0, "upstreams",
                     "none is given, and the nameservers of /etc/resolv.conf are this server");
}

static void check_upstreams(struct config_faults *f, struct config_document *d)
{
    struct config *c = &d->config;
    bool addressed = false;

    if (!config_is_given(f, &c->upstreams)) {
        default_upstreams(f, d);
        return;
    }
    for (size_t i = 0; i < c->n_upstreams; i++) {
        struct config_upstream *u = &c->upstreams[i];
        check_upstream(f, d, u);
        addressed = addressed || u->host == NULL || u->n_bootstrap > 0;
    }
    if (c->n_upstreams > UPSTREAMS_MAX)
        config_fault_at(f, &c->upstreams, "upstreams", "has %zu servers, %d are the most",
                        c->n_upstreams, UPSTREAMS_MAX);
    else if (c->n_upstreams == 0)
        config_fault_at(f, &c->upstreams, "upstreams",
                        "is empty; leave it out for the "
                        "nameservers of /etc/resolv.conf");
    else if (!addressed)
        config_fault_at(f, &c->upstreams, "upstreams",
                        "has only host names, and none with bootstrap addresses to find them");
}

/* ---- all the rest ---- */

static void check_cache(struct config_faults *f, struct config *c)
{
    /* The cache's clock wraps later than this and is swept daily. */
    static const uint64_t life_max_s = 24 * 86400;

    if ((uint64_t)c->max_ttl_s + c->stale_max_age_s > life_max_s) {
        const void *field =
            config_is_given(f, &c->stale_max_age_s) ? &c->stale_max_age_s : &c->max_ttl_s;
        config_fault_at(f, field, "cache",
                        "max-ttl and serve-stale.max-age are over 24d together");
    }
    if (c->min_ttl_s > c->max_ttl_s)
        config_fault_at(f, &c->min_ttl_s, "cache.min-ttl", "is longer than cache.max-ttl");
}

struct local_check {
    struct config_faults *faults;
    const struct config *config;
};

static void on_local_fault(void *arg, size_t line, const char *what)
{
    const struct local_check *check = arg;
    const struct config *c = check->config;

    if (line < c->n_local)
        config_fault_at(check->faults, &c->local[line], "local", "%s: \"%s\"", what,
                        c->local[line]);
    else
        config_fault(check->faults, 0, "local", "%s", what);
}

/* Records and hosts files are read for good by each worker; here, to find what is wrong. */
static void check_local(struct config_faults *f, const struct config *c)
{
    struct local_check check = {.faults = f, .config = c};

    for (size_t i = 0; i < c->n_local; i++) {
        if (c->local[i] == NULL)
            return; /* told already */
    }
    local_destroy(local_create(c, on_local_fault, &check));
}

static void check_user(struct config_faults *f, struct config *c)
{
    /* Only root can become somebody else; for all others the user is of no account. */
    if (c->user != NULL && geteuid() == 0 && getpwnam(c->user) == NULL)
        config_fault_at(f, &c->user, "user", "there is no user \"%s\"", c->user);
}

void config_check(struct config_faults *f, struct config_document *d)
{
    struct config *c = &d->config;

    check_listeners(f, d);
    check_certificates(f, c);
    check_upstreams(f, d);
    check_cache(f, c);
    check_local(f, c);
    check_user(f, c);
    if (c->upstream_deadline_ms < c->upstream_timeout_ms)
        config_fault_at(f, &c->upstream_deadline_ms, "upstream.deadline",
                        "is shorter than upstream.timeout");
    if (c->n_http_paths == 0)
        config_fault_at(f, &c->http_paths, "http.paths", "is empty");
    if (c->rate_burst == 0)
        c->rate_burst = c->rate_queries;
}
