/* client.h - the TLS side of a strict client: what phones and browsers would say to a server.
 *
 * For checks from the command line (src/check.c), not for the service: it blocks, up to a
 * deadline. The handshake goes on where a real client would stop, so that all that is wrong is
 * told at once. Thread: any, one at a time. */
#ifndef PITH_TLS_CLIENT_H
#define PITH_TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_client;

struct tls_client_options {
    const char *host; /* a name, or an IP address as text: then no SNI, and the IP SAN counts */
    const char *ca;   /* PEM file of the authorities to believe; NULL: the system's */
    const char *alpn; /* with blanks between, "h2 http/1.1"; NULL: none is offered */
    uint64_t deadline_ms; /* of clock_now_ms() */
};

enum { TLS_CLIENT_FAULTS = 4, TLS_CLIENT_TEXT = 512 };

/* What there is to say about the server. A fault is a sentence without a full stop; a hint is
 * one for what still works. */
struct tls_client_report {
    char faults[TLS_CLIENT_FAULTS][TLS_CLIENT_TEXT];
    size_t n_faults;
    char hint[TLS_CLIENT_TEXT];    /* "" when there is none */
    char version[16];              /* "TLSv1.3" */
    char alpn[32];                 /* what the server chose; "" for none */
    char subject[TLS_CLIENT_TEXT]; /* the names that the certificate is for, with blanks between
                                    */
    size_t n_sent;                 /* certificates that the server sent */
    long days_left;                /* until the first of them ends; negative: over */
};

/* Shakes hands over a connected, non-blocking socket, which stays the caller's. NULL when there
 * is no connection to speak over; the report then has the reason as its last fault. */
struct tls_client *tls_client_open(int fd, const struct tls_client_options *options,
                                   struct tls_client_report *report);
void tls_client_close(struct tls_client *c);

/* Sends all of it. False when the deadline passed or the connection ended. */
bool tls_client_write(struct tls_client *c, const void *data, size_t len);
/* Waits for some octets, at most size: their number, 0 at the end of the stream, -1 when the
 * deadline passed or the connection broke. */
ssize_t tls_client_read(struct tls_client *c, void *data, size_t size);

#endif
