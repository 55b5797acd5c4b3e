/* upstream_fake.h - a scripted upstream in a thread: UDP and TCP on one port, or TLS; well or
 * badly behaved in many ways. For tests. */
#ifndef PITH_TEST_UPSTREAM_FAKE_H
#define PITH_TEST_UPSTREAM_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fake_transport { FAKE_UDP, FAKE_TCP, FAKE_TLS };

#define FAKE_MODES(X)                                                                          \
    X(OK, "well")                                                                              \
    X(SILENT, "black hole")                                                                    \
    X(SLOW, "slow")                                                                            \
    X(FIN, "FIN after each answer")                                                            \
    X(RST_MID, "RST in mid-message")                                                           \
    X(RST, "RST on a query")                                                                   \
    X(COALESCE, "answers in one record")                                                       \
    X(TC, "TC")                                                                                \
    X(OVERSIZE, "oversize datagram")                                                           \
    X(WRONG_QUESTION, "wrong question")                                                        \
    X(WRONG_ID, "wrong ID")                                                                    \
    X(WRONG_SOURCE, "wrong source")                                                            \
    X(SERVFAIL, "SERVFAIL")                                                                    \
    X(REFUSED, "REFUSED")                                                                      \
    X(GARBAGE, "garbage")                                                                      \
    X(LOOP, "pointer loop")                                                                    \
    X(LOSS, "30 % loss")                                                                       \
    X(LOWER, "lower case")                                                                     \
    X(DRIBBLE, "slow bytes")                                                                   \
    X(WRONG_SUBNET, "wrong client subnet")                                                     \
    X(UNKNOWN, "answers nobody asked for")                                                     \
    X(NO_EDNS, "no EDNS")                                                                      \
    X(MUTATED, "mutated replies")

enum fake_mode {
#define FAKE_ENUM(symbol, text) FAKE_##symbol,
    FAKE_MODES(FAKE_ENUM)
#undef FAKE_ENUM
        FAKE_MODE_COUNT
};

const char *fake_mode_text(enum fake_mode m);

struct fake;

/* Certificates are self-signed for dot.test; each number is another key. */
enum { FAKE_CERTIFICATES = 2 };
/* PEM file of a certificate, made on first use, as the CA file of a client. */
const char *fake_certificate(unsigned number);
/* SHA-256 of its SubjectPublicKeyInfo. */
void fake_pin(unsigned number, uint8_t pin[32]);
/* Removes the files. */
void fake_cleanup(void);

/* port 0: any. NULL when it cannot listen. */
struct fake *fake_start(enum fake_transport transport, uint16_t port);
uint16_t fake_port(const struct fake *f);
void fake_set(struct fake *f, enum fake_mode mode);
void fake_set_slow_ms(struct fake *f, unsigned ms);
/* Only in place of the port: nothing listens any more, connections are reset. */
void fake_stop(struct fake *f);
/* Answers with 127.0.0.last instead of 192.0.2.1; 0: not any more. */
void fake_answer_loopback(struct fake *f, unsigned last);
void fake_use_certificate(struct fake *f, unsigned number);
/* Ends all connections in good order. */
void fake_close_connections(struct fake *f);

/* Seed of MUTATED. */
void fake_seed(struct fake *f, unsigned seed);

/* Counters. */
unsigned fake_queries(const struct fake *f);
unsigned fake_connections(const struct fake *f);
/* The latest query, as received: its length. */
size_t fake_last_query(struct fake *f, uint8_t *out, size_t size);

#endif
