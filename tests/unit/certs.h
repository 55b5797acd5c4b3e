/* certs.h - keys and certificates made while a test runs, in a folder of its own. */
#ifndef PITH_TESTS_CERTS_H
#define PITH_TESTS_CERTS_H

#include <openssl/x509.h>
#include <stdbool.h>

struct certs {
    char dir[64];
    EVP_PKEY *root_key, *middle_key;
    X509 *root, *middle; /* leaves are signed by middle, middle by root */
};

enum { CERTS_PATH = 128 };

/* Aborts when something goes wrong, as all of these. */
void certs_init(struct certs *c);
/* Removes the folder and what is in it. */
void certs_deinit(struct certs *c);
/* Writes NAME.pem (leaf, then the intermediate) and NAME.key. san as OpenSSL has it:
 * "DNS:a.test,IP:127.0.0.1". */
void certs_leaf(const struct certs *c, const char *name, const char *san, bool rsa);
/* Writes octets to a file of the folder, as a whole, by renaming. */
void certs_file(const struct certs *c, const char *name, const void *data, size_t len);
/* DIR/NAME; out has CERTS_PATH octets. Returns out. */
char *certs_path(const struct certs *c, const char *name, char *out);

#endif
