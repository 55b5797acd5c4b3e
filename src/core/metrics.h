/* metrics.h - counters, one table of rows.
 *
 * A row is X(SYMBOL, "name", "help"). Each thread counts in a set of its own
 * (metrics_self), so counting is one plain add; readers sum over all sets and
 * may see a value that is a moment old. Sets live as long as the process. */
#ifndef PITH_CORE_METRICS_H
#define PITH_CORE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define METRICS_TABLE(X)                                                                       \
    X(QUERIES_UDP, "queries_udp_total", "Queries that came over UDP")                          \
    X(QUERIES_TCP, "queries_tcp_total", "Queries that came over TCP")                          \
    X(QUERIES_DOT, "queries_dot_total", "Queries that came over TLS")                          \
    X(QUERIES_DOH, "queries_doh_total", "Queries that came over HTTPS")                        \
    X(QUERIES_MALFORMED, "queries_malformed_total", "Messages that no DNS answer is due to")   \
    X(QUERIES_FORMERR, "queries_formerr_total", "Queries answered FORMERR")                    \
    X(QUERIES_REFUSED, "queries_refused_total", "Queries answered REFUSED by policy")          \
    X(QUERIES_LIMITED, "queries_limited_total", "Queries over the client's rate")              \
    X(QUERIES_LOCAL, "queries_local_total", "Queries answered from local data")                \
    X(QUERIES_COALESCED, "queries_coalesced_total", "Queries that joined an ask in flight")    \
    X(QUERIES_OVERLOAD, "queries_overload_total", "Queries over the cap of outstanding asks")  \
    X(CACHE_HITS, "cache_hits_total", "Queries answered from the cache")                       \
    X(CACHE_MISSES, "cache_misses_total", "Queries that the cache did not have")               \
    X(CACHE_STALE, "cache_stale_total", "Queries answered with a stale answer")                \
    X(CACHE_PREFETCH, "cache_prefetch_total", "Entries refreshed before their end")            \
    X(ANSWERS_SERVFAIL, "answers_servfail_total", "Queries answered SERVFAIL")                 \
    X(ANSWERS_TRUNCATED, "answers_truncated_total", "Answers sent with TC")                    \
    X(UPSTREAM_ASKS, "upstream_asks_total", "Questions sent upstream, each try")               \
    X(UPSTREAM_RETRIES, "upstream_retries_total", "Tries after the first")                     \
    X(UPSTREAM_TIMEOUTS, "upstream_timeouts_total", "Tries that ran out of time")              \
    X(UPSTREAM_ERRORS, "upstream_errors_total", "Tries that failed in transport")              \
    X(UPSTREAM_BAD, "upstream_bad_replies_total", "Replies dropped as not fitting")            \
    X(UPSTREAM_TRUNCATED, "upstream_truncated_total", "UDP replies that went on to TCP")       \
    X(CONNS_ACCEPTED, "connections_accepted_total", "Connections accepted")                    \
    X(CONNS_CLOSED, "connections_closed_total", "Connections ended")                           \
    X(CONNS_REFUSED, "connections_refused_total", "Connections over a cap")                    \
    X(CONNS_TIMEOUT, "connections_timeout_total", "Connections ended by a time-out")           \
    X(TLS_HANDSHAKES, "tls_handshakes_total", "TLS handshakes done")                           \
    X(TLS_RESUMED, "tls_resumed_total", "TLS handshakes that resumed a session")               \
    X(TLS_FAILED, "tls_failed_total", "TLS handshakes that failed")                            \
    X(HTTP_REQUESTS, "http_requests_total", "HTTP requests")                                   \
    X(HTTP_ERRORS, "http_errors_total", "HTTP requests answered 4xx or 5xx")                   \
    X(HTTP_ABUSE, "http_abuse_total", "HTTP connections ended for abuse")                      \
    X(STREAM_ERRORS, "stream_errors_total", "Streams ended for malformed framing")             \
    X(UDP_DROPPED, "udp_dropped_total", "Datagrams not answered")                              \
    X(UDP_SEND_ERRORS, "udp_send_errors_total", "Datagrams the system did not take")

enum metric {
#define METRICS_ROW(symbol, name, help) M_##symbol,
    METRICS_TABLE(METRICS_ROW)
#undef METRICS_ROW
        METRIC_COUNT
};

struct metrics {
    _Atomic uint64_t value[METRIC_COUNT];
};

/* The calling thread's set; a shared one until metrics_attach(). */
extern _Thread_local struct metrics *metrics_self;

/* Gives the calling thread a set of its own, kept for the process's life. */
void metrics_attach(void);

static inline void metrics_add(enum metric m, uint64_t n)
{
    _Atomic uint64_t *v = &metrics_self->value[m];
    atomic_store_explicit(v, atomic_load_explicit(v, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static inline void metrics_count(enum metric m)
{
    metrics_add(m, 1);
}

/* Sum over all threads. */
uint64_t metrics_sum(enum metric m);
const char *metrics_name(enum metric m);
const char *metrics_help(enum metric m);

#endif
