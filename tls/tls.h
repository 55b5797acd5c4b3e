/* tls.h - TLS contexts: certificates, SNI, ALPN, tickets. The only home of OpenSSL is this
 * folder.
 *
 * A tls_context is made by the main thread and shared by all workers; a reload makes a new one
 * and connections keep theirs (reference counted). Thread: all functions any thread. */
#ifndef PITH_TLS_TLS_H
#define PITH_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct tls_context;

struct tls_certificate_files {
    const char *certificate; /* PEM: leaf, then the chain */
    const char *key;
};

struct tls_options {
    const struct tls_certificate_files
        *certificates; /* the first is the default; RSA and ECDSA may share names */
    size_t n_certificates;
    int min_version;         /* 0x0303 or 0x0304 */
    const char *ticket_keys; /* file of 80-byte keys, newest first; NULL: own keys, rotated */
};

/* NULL with one clear line in error (naming the file) when something is unusable. */
struct tls_context *tls_context_create(const struct tls_options *options, char *error,
                                       size_t error_size);
struct tls_context *tls_context_ref(struct tls_context *t);
void tls_context_unref(struct tls_context *t);
/* Files changed since they were read (mtime, size, inode). */
bool tls_context_changed(const struct tls_context *t);

#endif
