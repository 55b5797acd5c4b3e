/* upstream_client.h - an upstream set with a loop and scripted upstreams, for tests: ask and
 * wait. */
#ifndef PITH_TEST_UPSTREAM_CLIENT_H
#define PITH_TEST_UPSTREAM_CLIENT_H

#include <ev.h>

#include "upstream.h"
#include "upstream_fake.h"

struct client {
    struct ev_loop *loop;
    struct config *config;
    struct upstream_set *set;
};

/* What came of a question. */
struct outcome {
    struct client *client;
    bool done, answered, trust_ad, network_failure;
    uint16_t rcode, ede;
    uint8_t msg[4096];
    size_t len;
    char text[128]; /* of the EDE */
    uint64_t ms;    /* from ask to answer */
    uint64_t started_us;
    unsigned *open; /* counted down */
};

/* yaml: the configuration. Aborts when it does not load. */
struct config *client_config(const char *yaml);
/* A line of `upstreams:` for a scripted upstream. more: further keys, with their comma. */
const char *client_line(char *out, size_t size, enum fake_transport t, uint16_t port,
                        const char *more);

void client_open(struct client *c, const char *yaml);
void client_close(struct client *c);

/* Asks for NAME A. */
struct upstream_ask *client_ask(struct client *c, struct outcome *o, const char *name);
/* Runs the loop until *open is 0 or ms have passed. */
void client_run(struct client *c, const unsigned *open, unsigned ms);
/* Asks and waits, at most 10 s. */
void client_resolve(struct client *c, struct outcome *o, const char *name);

/* How long a thread that only sleeps 5 ms at a time was kept from running, at the worst, since
 * the last call: what the machine did to time-outs. The first call starts the thread. */
uint64_t client_stall_ms(void);

#endif
