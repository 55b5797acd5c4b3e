/* certs.c - keys and certificates made while a test runs. */
#include "certs.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "certs: %s failed\n", what);
    abort();
}

char *certs_path(const struct certs *c, const char *name, char *out)
{
    snprintf(out, CERTS_PATH, "%s/%s", c->dir, name);
    return out;
}

static void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    must(e && X509_add_ext(x, e, -1), value);
    X509_EXTENSION_free(e);
}

static X509 *issue(const char *cn, EVP_PKEY *key, X509 *issuer, EVP_PKEY *issuer_key,
                   const char *san)
{
    static long serial = 1;
    X509 *x = X509_new();
    must(x, "X509_new");
    X509_set_version(x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 24 * 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               (const unsigned char *)cn, -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer ? issuer : x));
    X509_set_pubkey(x, key);
    add_extension(x, issuer ? issuer : x, NID_basic_constraints,
                  san ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (san)
        add_extension(x, issuer, NID_subject_alt_name, san);
    must(X509_sign(x, issuer_key, EVP_sha256()) > 0, "X509_sign");
    return x;
}

void certs_init(struct certs *c)
{
    memset(c, 0, sizeof *c);
    snprintf(c->dir, sizeof c->dir, "/tmp/pith-test-XXXXXX");
    must(mkdtemp(c->dir), "mkdtemp");
    c->root_key = EVP_EC_gen("P-256");
    c->middle_key = EVP_EC_gen("P-256");
    must(c->root_key && c->middle_key, "EVP_EC_gen");
    c->root = issue("root", c->root_key, NULL, c->root_key, NULL);
    c->middle = issue("middle", c->middle_key, c->root, c->root_key, NULL);
}

void certs_deinit(struct certs *c)
{
    DIR *dir = opendir(c->dir);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        char path[CERTS_PATH + 256];
        snprintf(path, sizeof path, "%s/%s", c->dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(c->dir);
    EVP_PKEY_free(c->root_key);
    EVP_PKEY_free(c->middle_key);
    X509_free(c->root);
    X509_free(c->middle);
}

static FILE *open_file(const struct certs *c, const char *name, const char *suffix)
{
    char path[CERTS_PATH];
    snprintf(path, sizeof path, "%s/%s%s", c->dir, name, suffix);
    FILE *f = fopen(path, "w");
    must(f, path);
    return f;
}

void certs_leaf(const struct certs *c, const char *name, const char *san, bool rsa)
{
    EVP_PKEY *key = rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
    must(key, "key generation");
    X509 *leaf = issue(name, key, c->middle, c->middle_key, san);
    FILE *f = open_file(c, name, ".pem");
    must(PEM_write_X509(f, leaf) && PEM_write_X509(f, c->middle), "PEM_write_X509");
    fclose(f);
    f = open_file(c, name, ".key");
    must(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), "PEM_write_PrivateKey");
    fclose(f);
    X509_free(leaf);
    EVP_PKEY_free(key);
}

void certs_file(const struct certs *c, const char *name, const void *data, size_t len)
{
    char path[CERTS_PATH], fresh[CERTS_PATH];
    FILE *f = open_file(c, "fresh", "");
    must(fwrite(data, 1, len, f) == len, "fwrite");
    fclose(f);
    must(rename(certs_path(c, "fresh", fresh), certs_path(c, name, path)) == 0, "rename");
}
