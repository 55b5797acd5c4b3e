/* asker.h - what is kept of a client's query until its answer, and the finishing of answers.
 *
 * A finished answer is the cache's or upstream's message with the asker's ID, flags, question
 * as asked, and OPT with what the asker asked for: DO, extended errors, client subnet,
 * keepalive, cookie, padding. */
#ifndef PITH_ASKER_H
#define PITH_ASKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/query.h"
#include "dns/ecs.h"
#include "dns/message.h"

enum { COOKIE_CLIENT_SIZE = 8 };

struct asker {
    uint16_t id;
    uint16_t flags; /* of the query */
    uint16_t qtype, qclass;
    uint16_t udp_size; /* what the client takes over UDP */
    enum query_transport transport;
    bool has_opt, dnssec_ok;
    bool wants_padding, wants_keepalive, has_cookie, has_ecs;
    bool subnet_from_address; /* the subnet below is the client's address */
    bool has_subnet;          /* subnet is (or would be) sent upstream */
    struct addr client;
    struct ecs ecs;    /* the client's own option, echoed */
    struct ecs subnet; /* what goes upstream */
    uint8_t cookie[COOKIE_CLIENT_SIZE];
    uint8_t qname_len;
    uint8_t qname[DNS_NAME_MAX]; /* case as asked */
};

/* Fills an asker from a parsed query. False: an option is malformed (FORMERR). The qname and
 * all else that was read so far is set then too. */
bool asker_init(struct asker *a, const struct query *q, const struct dns_query *dq);

struct asker_errors {
    uint16_t code[2]; /* DNS_EDE_NONE: none */
    const char *text[2];
};

struct asker_answer {
    uint16_t rcode;     /* 12 bits */
    bool authentic;     /* upstream said AD, and is trusted */
    bool authoritative; /* local data */
    bool scoped;        /* the answer is for a subnet of this many bits: */
    uint8_t scope;
    struct asker_errors errors;
};

/* Finishes the message of *len octets in msg (room: size, at least DNS_MESSAGE_MAX + 512): no
 * OPT in it, its question has the asker's name in any case. Cuts it to what the asker takes.
 * keepalive_ms is our idle time-out. Returns the new length; *truncated tells whether TC was
 * set. */
size_t asker_finish(const struct asker *a, const struct asker_answer *answer, uint8_t *msg,
                    size_t len, size_t size, uint32_t keepalive_ms, bool *truncated);

/* The server cookie for this client and moment (RFC 9018 4), client cookie first: 24 octets. */
enum { COOKIE_SIZE = 24 };
void cookie_write(uint8_t out[COOKIE_SIZE], const uint8_t client_cookie[COOKIE_CLIENT_SIZE],
                  const struct addr *client, uint32_t wall_s);

#endif
