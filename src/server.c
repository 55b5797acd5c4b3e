/* server.c - see server.h. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/log.h"
#include "privileges.h"
#include "sandbox.h"
#include "sockets.h"
#include "tls/listener.h"
#include "tls/tls.h"
#include "worker.h"

enum { ERROR_TEXT_SIZE = 512 };

struct server {
    struct config *config;
    struct tls_context *tls; /* NULL when no listener has TLS */
    struct cache *cache;
    struct conn_limits *limits;
    struct worker **workers;
    size_t n_workers;
    size_t n_running;
    char tls_error[ERROR_TEXT_SIZE]; /* told already */
};

static bool fail(char *error, size_t error_size, const char *what)
{
    snprintf(error, error_size, "%s", what);
    return false;
}

/* ---- what a configuration needs ---- */

static bool wants_tls(const struct config *c)
{
    for (size_t i = 0; i < c->n_listeners; i++) {
        if (c->listeners[i].tls)
            return true;
    }
    return false;
}

/* *out is NULL when no listener wants TLS. */
static bool create_tls(const struct config *c, struct tls_context **out, char *error,
                       size_t error_size)
{
    *out = NULL;
    if (!wants_tls(c))
        return true;
    struct tls_certificate_files *files = calloc(c->n_certificates, sizeof(*files));
    if (files == NULL)
        return fail(error, error_size, "tls: out of memory");
    for (size_t i = 0; i < c->n_certificates; i++)
        files[i] = (struct tls_certificate_files){.certificate = c->certificates[i].certificate,
                                                  .key = c->certificates[i].key};
    const struct tls_options options = {.certificates = files,
                                        .n_certificates = c->n_certificates,
                                        .min_version = c->tls_min_version,
                                        .ticket_keys = c->ticket_keys};
    *out = tls_context_create(&options, error, error_size);
    free(files);
    return *out != NULL;
}

static void close_sockets(struct socket_set *sockets, size_t n)
{
    for (size_t i = 0; sockets != NULL && i < n; i++)
        sockets_close(&sockets[i]);
    free(sockets);
}

/* All are probed before one is opened, for ours may overlap ([::]:53 and 127.0.0.1:53). NULL
 * with a line in error when one cannot be had. */
static struct socket_set *open_sockets(const struct config *c, size_t n_workers, char *error,
                                       size_t error_size)
{
    struct socket_set *sockets = calloc(c->n_listeners, sizeof(*sockets));
    bool ok = sockets != NULL;

    if (!ok)
        fail(error, error_size, "listen: out of memory");
    for (size_t i = 0; ok && i < c->n_listeners; i++)
        ok = sockets_probe(&c->listeners[i], error, error_size);
    for (size_t i = 0; ok && i < c->n_listeners; i++)
        ok = sockets_open(&sockets[i], &c->listeners[i], n_workers, error, error_size);
    if (ok)
        return sockets;
    close_sockets(sockets, c->n_listeners);
    return NULL;
}

/* ---- start ---- */

static bool create_cache(struct server *s, void (*crowded)(void *arg), void *arg, char *error,
                         size_t error_size)
{
    const struct config *c = s->config;

    s->cache = cache_create_growing((size_t)c->cache_memory_bytes, crowded, arg);
    if (s->cache == NULL)
        return fail(error, error_size, "cache.memory: cannot be had");
    if (c->snapshot == NULL)
        return true;
    enum err e = cache_restore(s->cache, c->snapshot, clock_now_s(), clock_wall_s());
    struct cache_stats stats;
    cache_stats(s->cache, &stats);
    if (e == ERR_OK)
        log_info("cache: %llu answers from %s", (unsigned long long)stats.entries, c->snapshot);
    else if (e != ERR_MISSING)
        log_warning("cache: %s is no snapshot that can be used", c->snapshot);
    return true;
}

static bool start_workers(struct server *s, struct socket_set *sockets)
{
    const struct worker_setup setup = {
        .config = s->config, .tls = s->tls, .cache = s->cache, .limits = s->limits};

    s->workers = calloc(s->config->workers, sizeof(struct worker *));
    if (s->workers == NULL)
        return false;
    s->n_workers = s->config->workers;
    /* All loops before the first thread: libev's first loop sets up what all share. */
    for (size_t i = 0; i < s->n_workers; i++) {
        s->workers[i] = worker_create(i, &setup);
        if (s->workers[i] == NULL)
            return false;
    }
    for (; s->n_running < s->n_workers; s->n_running++) {
        if (!worker_start(s->workers[s->n_running], sockets))
            return false;
    }
    return true;
}

static void log_ready(const struct config *c, const struct socket_set *sockets)
{
    char address[ADDR_TEXT_SIZE], line[1024] = "";
    size_t len = 0;

    for (size_t i = 0; i < c->n_listeners && len < sizeof(line); i++) {
        const struct config_listener *l = &c->listeners[i];
        const char *clear = l->kind == LISTENER_DOH && !l->tls ? " (clear text)" : "";
        len += (size_t)snprintf(line + len, sizeof(line) - len, "%s %s %s%s", i == 0 ? "" : ",",
                                listener_kind_name(l->kind),
                                addr_format(&sockets[i].address, address), clear);
    }
    log_info("ready:%s", line);
}

struct server *server_start(struct config *config, void (*crowded)(void *arg), void *arg,
                            char *error, size_t error_size)
{
    struct server *s = calloc(1, sizeof(*s));
    struct socket_set *sockets = NULL;

    if (s == NULL) {
        fail(error, error_size, "out of memory");
        return NULL;
    }
    s->config = config_ref(config);
    if (!create_tls(config, &s->tls, error, error_size))
        goto out;
    sockets = open_sockets(config, config->workers, error, error_size);
    if (sockets == NULL || !privileges_drop(config->user, error, error_size) ||
        !create_cache(s, crowded, arg, error, error_size))
        goto out;
    if (config->seccomp && !sandbox_start(error, error_size))
        goto out;
    s->limits = conn_limits_create();
    if (s->limits == NULL || !start_workers(s, sockets)) {
        fail(error, error_size, "workers: memory or another resource is out");
        goto out;
    }
    log_ready(config, sockets);
    close_sockets(sockets, config->n_listeners);
    return s;
out:
    close_sockets(sockets, config->n_listeners);
    server_stop(s, 0);
    return NULL;
}

void server_grow_cache(struct server *s)
{
    if (cache_grow(s->cache, clock_now_s()) != ERR_OK)
        log_warning("cache: no memory to grow; it goes on as it is");
    else
        log_debug("cache: has all of its memory now");
}

/* ---- reload ---- */

static bool same_cidrs(const struct cidr_list *a, const struct cidr_list *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct cidr *x = &a->list[i], *y = &b->list[i];
        if (x->family != y->family || x->prefix != y->prefix || memcmp(x->ip, y->ip, 16) != 0)
            return false;
    }
    return true;
}

/* What a listener was opened with, and cannot change on its way. */
static bool same_listener(const struct config_listener *a, const struct config_listener *b)
{
    return a->kind == b->kind && a->tls == b->tls && a->address.port == b->address.port &&
           a->address.scope_id == b->address.scope_id &&
           addr_ip_equal(&a->address, &b->address) &&
           same_cidrs(&a->trusted_proxies, &b->trusted_proxies) &&
           same_cidrs(&a->proxy_protocol, &b->proxy_protocol);
}

/* Ours on that port may overlap, and would look like somebody else's. */
static bool is_port_ours(const struct config *c, uint16_t port)
{
    for (size_t i = 0; i < c->n_listeners; i++) {
        if (c->listeners[i].address.port == port)
            return true;
    }
    return false;
}

struct plan {
    struct worker_listener *listeners; /* one for each of the new configuration */
    struct socket_set *sockets;        /* likewise; empty for those that are kept */
    size_t n;
};

static void release_plan(struct plan *p)
{
    close_sockets(p->sockets, p->n);
    free(p->listeners);
}

/* Each old listener goes on as at most one new one. */
static void match_listeners(const struct config *old, const struct config *new, struct plan *p,
                            bool *used)
{
    for (size_t i = 0; i < new->n_listeners; i++) {
        p->listeners[i] = (struct worker_listener){.sockets = &p->sockets[i]};
        for (size_t k = 0; k < old->n_listeners && !p->listeners[i].kept; k++) {
            if (used[k] || !same_listener(&old->listeners[k], &new->listeners[i]))
                continue;
            used[k] = true;
            p->listeners[i] = (struct worker_listener){.kept = true, .before = k};
        }
    }
}

static bool make_plan(struct server *s, const struct config *c, struct plan *p, char *error,
                      size_t error_size)
{
    bool *used = calloc(s->config->n_listeners, sizeof(*used));

    p->n = c->n_listeners;
    p->listeners = calloc(p->n, sizeof(*p->listeners));
    p->sockets = calloc(p->n, sizeof(*p->sockets));
    bool ok = used != NULL && p->listeners != NULL && p->sockets != NULL;
    if (!ok)
        fail(error, error_size, "out of memory");
    else
        match_listeners(s->config, c, p, used);
    free(used);
    for (size_t i = 0; ok && i < p->n; i++) {
        const struct config_listener *l = &c->listeners[i];
        if (p->listeners[i].kept)
            continue;
        ok = is_port_ours(s->config, l->address.port) || sockets_probe(l, error, error_size);
        ok = ok && sockets_open(&p->sockets[i], l, s->n_workers, error, error_size);
    }
    return ok;
}

static bool resize_cache(struct server *s, const struct config *c, char *error,
                         size_t error_size)
{
    if (c->cache_memory_bytes == s->config->cache_memory_bytes ||
        cache_resize(s->cache, (size_t)c->cache_memory_bytes, clock_now_s()) == ERR_OK)
        return true;
    return fail(error, error_size, "cache.memory: cannot be had");
}

/* From here on nothing can fail but for want of memory. */
static void reload_workers(struct server *s, struct config *c, struct tls_context *tls,
                           const struct plan *p)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        if (!worker_reload(s->workers[i], c, tls, p->listeners))
            log_error("reload: worker %zu ran out of memory, part of it is as before", i);
    }
    tls_context_unref(s->tls);
    s->tls = tls;
    s->tls_error[0] = '\0';
    if (c->workers != s->config->workers)
        log_warning("reload: workers: takes a restart to change");
    if (c->user != NULL && (s->config->user == NULL || strcmp(c->user, s->config->user) != 0))
        log_warning("reload: user: takes a restart to change");
    if (c->seccomp != s->config->seccomp)
        log_warning("reload: seccomp: takes a restart to change");
    config_unref(s->config);
    s->config = config_ref(c);
}

bool server_reload(struct server *s, struct config *config, char *error, size_t error_size)
{
    struct tls_context *tls = NULL;
    struct plan plan = {.n = 0};
    bool ok = create_tls(config, &tls, error, error_size) &&
              make_plan(s, config, &plan, error, error_size) &&
              resize_cache(s, config, error, error_size);

    if (ok)
        reload_workers(s, config, tls, &plan);
    else
        tls_context_unref(tls);
    release_plan(&plan);
    return ok;
}

void server_check_certificates(struct server *s)
{
    char error[ERROR_TEXT_SIZE];
    struct tls_context *tls;

    if (s->tls == NULL || !tls_context_changed(s->tls))
        return;
    if (!create_tls(s->config, &tls, error, sizeof(error))) {
        /* It may stay like that for long, or be half way through a renewal. */
        if (strcmp(error, s->tls_error) != 0)
            log_warning("%s; the certificates in use stay", error);
        snprintf(s->tls_error, sizeof(s->tls_error), "%s", error);
        return;
    }
    for (size_t i = 0; i < s->n_workers; i++)
        worker_set_tls(s->workers[i], tls);
    tls_context_unref(s->tls);
    s->tls = tls;
    s->tls_error[0] = '\0';
    log_info("tls: certificates changed and were loaded");
}

/* ---- stop ---- */

static void save_cache(struct server *s)
{
    const char *path = s->config->snapshot;

    if (path == NULL)
        return;
    if (cache_save(s->cache, path, clock_now_s(), clock_wall_s()) == ERR_OK)
        log_info("cache: saved to %s", path);
    else
        log_warning("cache: could not be saved to %s", path);
}

void server_stop(struct server *s, unsigned drain_ms)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_running; i++)
        worker_drain(s->workers[i], drain_ms);
    for (size_t i = 0; i < s->n_running; i++)
        worker_join(s->workers[i]);
    for (size_t i = 0; i < s->n_workers; i++)
        worker_destroy(s->workers[i]);
    if (s->n_running > 0)
        save_cache(s);
    free(s->workers);
    conn_limits_destroy(s->limits);
    cache_destroy(s->cache);
    tls_context_unref(s->tls);
    config_unref(s->config);
    free(s);
}
