/* proxy.h - the query path: parse, policy, client subnet, local data, cache, upstream, answer.
 *
 * One a worker; it is the query_handler of all front ends of that worker. It never branches on
 * transport except through fields of struct query. Owner and thread: the worker. */
#ifndef PITH_PROXY_H
#define PITH_PROXY_H

#include "cache/cache.h"
#include "config.h"
#include "core/query.h"

struct proxy;
struct upstream_set;
struct ev_loop;

/* Borrowed: cache and upstreams outlive the proxy. config is referenced. NULL when memory is
 * out. */
struct proxy *proxy_create(struct ev_loop *loop, struct config *config, struct cache *cache,
                           struct upstream_set *upstreams);
void proxy_destroy(struct proxy *p); /* queries in flight get no reply */
struct query_handler *proxy_handler(struct proxy *p);
bool proxy_reload(struct proxy *p, struct config *config);
/* Queries not yet answered. */
size_t proxy_in_flight(const struct proxy *p);

#endif
