/* io.h - bytes of one connection, TLS or clear: the same calls for both.
 *
 * Owner: the connection that embeds it. Nothing blocks. */
#ifndef PITH_TLS_IO_H
#define PITH_TLS_IO_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

#include "tls/context.h"

struct tls_io {
    int fd;
    SSL *ssl;                    /* NULL: clear text */
    struct tls_context *context; /* referenced: OpenSSL's callbacks use it */
    const struct tls_alpn *alpn;
    bool drained; /* the last recv(2) took all there was; the loop tells when there is more */
};

enum tls_io_result {
    TLS_IO_OK,
    TLS_IO_WANT_READ,
    TLS_IO_WANT_WRITE,
    TLS_IO_EOF,   /* close_notify, or FIN with or without it */
    TLS_IO_ERROR, /* the connection is of no more use */
};

/* Takes fd. */
void tls_io_init(struct tls_io *io, int fd, const struct tls_alpn *alpn);
/* Makes it TLS from the next octet on. False when memory is out. */
bool tls_io_start_tls(struct tls_io *io, struct tls_context *t);
/* Frees the TLS state, closes the descriptor. */
void tls_io_deinit(struct tls_io *io);

/* To be called before the calls below, once a wake-up: errors that others left in the
 * thread's OpenSSL queue are not ours, and there may be something to read again. */
void tls_io_begin(struct tls_io *io);

enum tls_io_result tls_io_handshake(struct tls_io *io);
/* One record, or one read(2). *got is set only on TLS_IO_OK. */
enum tls_io_result tls_io_read(struct tls_io *io, void *buf, size_t size, size_t *got);
/* True when another tls_io_read() would not have to ask the kernel. */
bool tls_io_pending(const struct tls_io *io);
/* Writes as much as goes now; *put may be less than len on TLS_IO_OK and is 0 on others. */
enum tls_io_result tls_io_write(struct tls_io *io, const void *data, size_t len, size_t *put);
/* Sends close_notify (TLS) and FIN. */
void tls_io_shutdown(struct tls_io *io);

/* After a socket call that failed: errno says to try later. */
bool tls_io_would_block(void);

/* What ALPN chose; NULL: the client sent none, or clear text. */
const unsigned char *tls_io_alpn(const struct tls_io *io, size_t *len);
bool tls_io_resumed(const struct tls_io *io);

#endif
