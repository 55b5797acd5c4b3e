/* upstream_loop.h - the event loop that getdns sees: its extension interface over libev.
 *
 * One a getdns context, which has one upstream and one transport. Besides events it holds cures
 * for faults of getdns 1.6.0 that can be had nowhere else:
 *  - a UDP socket is connected to its upstream, so only that address is heard and a closed port
 * is an error at once instead of a time-out; every datagram is looked at before getdns may
 * parse it;
 *  - a UDP query is sent at once, without waiting for a writable socket, and has no timer here
 * (who asks has one, and cancels);
 *  - stream reads go on until the socket is dry, since TLS hides further replies of the same
 * record;
 *  - a new connection gets TCP_NODELAY and TCP_USER_TIMEOUT; an idle one is kept as long as we
 * say;
 *  - the end of a connection is reported, since getdns has to forget what it knows of it.
 * Owner: the context. Thread: the worker's. */
#ifndef PITH_UPSTREAM_LOOP_H
#define PITH_UPSTREAM_LOOP_H

#include <ev.h>
#include <getdns/getdns_extra.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum upstream_datagram {
    DATAGRAM_PASS, /* getdns may read it (it still compares the ID) */
    DATAGRAM_DROP, /* it was taken off the socket */
    DATAGRAM_GONE, /* the query was ended; its event is no more */
};

struct upstream_loop;

struct upstream_loop_hooks {
    /* UDP: something waits on fd for this query. */
    enum upstream_datagram (*on_datagram)(struct upstream_loop *l, void *query, int fd);
    /* UDP: a datagram was passed, and getdns did not take it (its ID is not ours). */
    void (*on_foreign)(struct upstream_loop *l, void *query);
    /* The stream's connection is open (setup) or has ended. */
    void (*on_connection)(struct upstream_loop *l, bool open);
    /* The last thing of every event: nothing of getdns is on the stack any more. */
    void (*on_tail)(struct upstream_loop *l);
};

struct upstream_watcher;

struct upstream_loop {
    getdns_eventloop base; /* has to be first: getdns hands it back */
    struct ev_loop *ev;
    const struct upstream_loop_hooks *hooks;
    bool stream;
    struct sockaddr_storage peer;
    socklen_t peer_len;
    uint32_t idle_ms; /* how long an idle stream is kept */

    /* the rest is this file's, but for what the context sets and reads around a send */
    void *sending;    /* the query that is handed to getdns right now */
    size_t in_flight; /* queries that getdns holds */
    bool scheduled;   /* getdns made an event for it: else it waits for a descriptor */
    getdns_eventloop_event *handled;      /* UDP: the event whose callback runs, */
    void *handled_query;                  /* and its query */
    getdns_eventloop_event *stream_event; /* the connection's event while it is scheduled */
    uint64_t completions; /* counted by the context: callbacks that getdns made */
    struct upstream_watcher *free;
    size_t active;
};

void upstream_loop_init(struct upstream_loop *l, struct ev_loop *ev, bool stream,
                        const struct upstream_loop_hooks *hooks);
/* After the getdns context is destroyed. */
void upstream_loop_deinit(struct upstream_loop *l);

#endif
