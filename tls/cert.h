/* cert.h - certificates with their chains and keys, and the names they are for. */
#ifndef PITH_TLS_CERT_H
#define PITH_TLS_CERT_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "tls/tls.h"

/* What a file was when it was read. */
struct file_mark {
    char *path;
    struct timespec mtime;
    off_t size;
    ino_t inode;
};

/* Reads a whole file of at most max octets and marks it. NULL with a line in error. The
 * caller frees the octets, which may be secret, with file_free(). */
unsigned char *file_read(const char *path, size_t max, size_t *len, struct file_mark *mark,
                         char *error, size_t error_size);
void file_free(unsigned char *data, size_t len);
/* True when the path now names something else, or something written to since. */
bool file_mark_changed(const struct file_mark *m);
void file_mark_clear(struct file_mark *m);

struct cert {
    X509 *leaf;
    STACK_OF(X509) * chain; /* without the leaf; may be empty */
    EVP_PKEY *key;
    char **names; /* lower case; "*.example" as it stands; addresses as text */
    size_t n_names;
    struct file_mark cert_mark, key_mark;
};

/* Reads PEM (leaf first, then the chain) and the key, and checks that they belong
 * together. False with a line in error; the certificate is then still to be cleared. */
bool cert_load(struct cert *c, const struct tls_certificate_files *files, char *error,
               size_t error_size);
void cert_clear(struct cert *c);

/* How well a host name (lower case, without final dot) fits: 0 not, 1 by wildcard (one
 * label, RFC 6125 6.4.3), 2 exactly. */
int cert_match(const struct cert *c, const char *host);

#endif
