/* io.c - reading and writing TLS or clear text through one door. */
#include "tls/io.h"

#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- OpenSSL's way to the socket ----
 *
 * OpenSSL's own socket BIO writes with write(2), which raises SIGPIPE. */

bool tls_io_would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static int bio_result(BIO *bio, ssize_t n, int flag)
{
    BIO_clear_retry_flags(bio);
    if (n < 0 && tls_io_would_block())
        BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
    return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
    const struct tls_io *io = BIO_get_data(bio);
    ssize_t n = send(io->fd, data, (size_t)len, MSG_NOSIGNAL);
    return bio_result(bio, n, BIO_FLAGS_WRITE);
}

/* OpenSSL asks once more when it has sent its part of a handshake. That the answer is there by
 * then is rare, and a call that is made while packets come in waits for them. */
static int bio_read(BIO *bio, char *out, int size)
{
    struct tls_io *io = BIO_get_data(bio);
    if (io->drained) {
        errno = EAGAIN;
        return bio_result(bio, -1, BIO_FLAGS_READ);
    }
    ssize_t n = recv(io->fd, out, (size_t)size, 0);
    io->drained = n > 0 && n < size;
    if (n == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return bio_result(bio, n, BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    (void)num, (void)ptr;
    switch (cmd) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

static BIO_METHOD *bio_method;
static pthread_once_t bio_once = PTHREAD_ONCE_INIT;

static void bio_make(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls_io");
    if (!m)
        return;
    BIO_meth_set_write(m, bio_write);
    BIO_meth_set_read(m, bio_read);
    BIO_meth_set_ctrl(m, bio_ctrl);
    bio_method = m;
}

/* ---- one connection ---- */

void tls_io_init(struct tls_io *io, int fd, const struct tls_alpn *alpn)
{
    *io = (struct tls_io){.fd = fd, .alpn = alpn};
}

bool tls_io_start_tls(struct tls_io *io, struct tls_context *t)
{
    pthread_once(&bio_once, bio_make);
    BIO *bio = bio_method ? BIO_new(bio_method) : NULL;
    io->ssl = bio ? tls_context_accept(t) : NULL;
    if (!io->ssl) {
        BIO_free(bio);
        return false;
    }
    io->context = tls_context_ref(t);
    BIO_set_data(bio, io);
    BIO_set_init(bio, 1);
    SSL_set_bio(io->ssl, bio, bio);
    return true;
}

void tls_io_deinit(struct tls_io *io)
{
    SSL_free(io->ssl);
    io->ssl = NULL;
    tls_context_unref(io->context);
    io->context = NULL;
    if (io->fd >= 0)
        close(io->fd);
    io->fd = -1;
}

void tls_io_begin(struct tls_io *io)
{
    io->drained = false;
    if (io->ssl)
        ERR_clear_error();
}

static enum tls_io_result ssl_result(struct tls_io *io, int n)
{
    switch (SSL_get_error(io->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        return TLS_IO_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_IO_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return TLS_IO_EOF;
    default:
        ERR_clear_error();
        return TLS_IO_ERROR;
    }
}

static enum tls_io_result errno_result(enum tls_io_result want)
{
    return tls_io_would_block() ? want : TLS_IO_ERROR;
}

enum tls_io_result tls_io_handshake(struct tls_io *io)
{
    int n = SSL_do_handshake(io->ssl);
    return n == 1 ? TLS_IO_OK : ssl_result(io, n);
}

enum tls_io_result tls_io_read(struct tls_io *io, void *buf, size_t size, size_t *got)
{
    if (io->ssl) {
        int n = SSL_read_ex(io->ssl, buf, size, got);
        return n == 1 ? TLS_IO_OK : ssl_result(io, n);
    }
    ssize_t n = recv(io->fd, buf, size, 0);
    if (n < 0)
        return errno_result(TLS_IO_WANT_READ);
    *got = (size_t)n;
    return n == 0 ? TLS_IO_EOF : TLS_IO_OK;
}

bool tls_io_pending(const struct tls_io *io)
{
    return io->ssl && SSL_has_pending(io->ssl);
}

enum tls_io_result tls_io_write(struct tls_io *io, const void *data, size_t len, size_t *put)
{
    *put = 0;
    if (io->ssl) {
        int n = SSL_write_ex(io->ssl, data, len, put);
        return n == 1 ? TLS_IO_OK : ssl_result(io, n);
    }
    ssize_t n = send(io->fd, data, len, MSG_NOSIGNAL);
    if (n < 0)
        return errno_result(TLS_IO_WANT_WRITE);
    *put = (size_t)n;
    return TLS_IO_OK;
}

void tls_io_shutdown(struct tls_io *io)
{
    if (io->ssl && SSL_is_init_finished(io->ssl)) {
        SSL_shutdown(io->ssl);
        ERR_clear_error();
    }
    shutdown(io->fd, SHUT_WR);
}

const unsigned char *tls_io_alpn(const struct tls_io *io, size_t *len)
{
    const unsigned char *name = NULL;
    unsigned n = 0;
    if (io->ssl)
        SSL_get0_alpn_selected(io->ssl, &name, &n);
    *len = n;
    return name;
}

bool tls_io_resumed(const struct tls_io *io)
{
    return io->ssl && SSL_session_reused(io->ssl);
}
