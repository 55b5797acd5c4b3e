/* upstream_getdns.h - parts of upstream_context.c that need nothing of it: how a getdns context
 * is set up, and how a message is judged. Thread: pure, or the worker's. */
#ifndef PITH_UPSTREAM_GETDNS_H
#define PITH_UPSTREAM_GETDNS_H

#include <getdns/getdns.h>
#include <getdns/getdns_extra.h>

#include "upstream_context.h"

enum {
    GETDNS_TIMEOUT_MS = 10000, /* UDP: never reached, whoever asks cancels before */
    GETDNS_IDLE_MS = 30000, /* an idle connection is kept this long, or what the server says */
};

/* A stub with one transport and one upstream, on an event loop of ours; log gets its errors. */
bool upstream_getdns_set_up(getdns_context *c, const struct upstream_target *t,
                            getdns_eventloop *loop, getdns_logfunc_type log, void *log_arg);
/* Sets the upstream (again): connection and all that getdns believes of it are forgotten. */
bool upstream_getdns_set_upstream(getdns_context *c, const struct upstream_target *t);

/* Extension dicts that are changed in place for each query: RD and AD set, OPT with DO and, the
 * second, one client subnet option; the third has no OPT. NULL when memory is out. */
enum upstream_extensions { EXTENSIONS_USUAL, EXTENSIONS_SUBNET, EXTENSIONS_PLAIN };
getdns_dict *upstream_getdns_extensions(enum upstream_extensions kind);

/* Sets outcome, reply, octets and other_case to what this message is to q. datagram: it came
 * over UDP, where TC, a length over what we said and another case mean OUTCOME_TRUNCATED. */
void upstream_judge(struct upstream_query *q, uint8_t *msg, size_t len, bool datagram);

#endif
