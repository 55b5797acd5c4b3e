/* cert.c - reading certificates and keys from PEM files. */
#include "tls/cert.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

enum { PEM_MAX = 1024 * 1024 };

static bool fail(char *error, size_t size, const char *path, const char *what)
{
    snprintf(error, size, "%s: %s", path, what);
    return false;
}

/* What OpenSSL says last, in its own words. */
static bool fail_openssl(char *error, size_t size, const char *path, const char *what)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(error, size, "%s: %s%s%s", path, what, reason ? ": " : "", reason ? reason : "");
    ERR_clear_error();
    return false;
}

static unsigned char *read_fd(int fd, size_t size, size_t *len)
{
    unsigned char *data = malloc(size + 1);
    if (!data)
        return NULL;
    *len = 0;
    while (*len < size) {
        ssize_t n = read(fd, data + *len, size - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            file_free(data, *len);
            return NULL;
        }
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    return data;
}

unsigned char *file_read(const char *path, size_t max, size_t *len, struct file_mark *mark,
                         char *error, size_t error_size)
{
    unsigned char *data = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        fail(error, error_size, path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size < 0 || (size_t)st.st_size > max) {
        fail(error, error_size, path, "not a file, or too large");
        goto out;
    }
    mark->path = strdup(path);
    mark->mtime = st.st_mtim;
    mark->size = st.st_size;
    mark->inode = st.st_ino;
    data = mark->path ? read_fd(fd, (size_t)st.st_size, len) : NULL;
    if (!data)
        fail(error, error_size, path, strerror(errno));
out:
    if (fd >= 0)
        close(fd);
    return data;
}

void file_free(unsigned char *data, size_t len)
{
    if (!data)
        return;
    OPENSSL_cleanse(data, len);
    free(data);
}

bool file_mark_changed(const struct file_mark *m)
{
    struct stat st;
    if (!m->path)
        return false;
    if (stat(m->path, &st) != 0)
        return false; /* half way through a replacement: not yet */
    return st.st_mtim.tv_sec != m->mtime.tv_sec || st.st_mtim.tv_nsec != m->mtime.tv_nsec ||
           st.st_size != m->size || st.st_ino != m->inode;
}

void file_mark_clear(struct file_mark *m)
{
    free(m->path);
    m->path = NULL;
}

static bool add_name(struct cert *c, const char *text, size_t len)
{
    if (len == 0 || memchr(text, 0, len))
        return true; /* not a name that a client could ask for */
    char **names = realloc(c->names, (c->n_names + 1) * sizeof *names);
    if (!names)
        return false;
    c->names = names;
    char *name = malloc(len + 1);
    if (!name)
        return false;
    for (size_t i = 0; i < len; i++)
        name[i] = (char)tolower((unsigned char)text[i]);
    name[len] = '\0';
    c->names[c->n_names++] = name;
    return true;
}

static bool add_address(struct cert *c, const ASN1_OCTET_STRING *ip)
{
    char text[INET6_ADDRSTRLEN];
    int len = ASN1_STRING_length(ip);
    if (len != 4 && len != 16)
        return true;
    inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip), text, sizeof text);
    return add_name(c, text, strlen(text));
}

/* The subject's common name counts only where there is no alternative name at all. */
static bool add_common_name(struct cert *c)
{
    const X509_NAME *subject = X509_get_subject_name(c->leaf);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0)
        return true;
    const ASN1_STRING *cn = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    return add_name(c, (const char *)ASN1_STRING_get0_data(cn), (size_t)ASN1_STRING_length(cn));
}

static bool load_names(struct cert *c)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(c->leaf, NID_subject_alt_name, NULL, NULL);
    if (!names)
        return add_common_name(c);
    bool ok = true;
    for (int i = 0; ok && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            ok = add_name(c, (const char *)ASN1_STRING_get0_data(name->d.dNSName),
                          (size_t)ASN1_STRING_length(name->d.dNSName));
        else if (name->type == GEN_IPADD)
            ok = add_address(c, name->d.iPAddress);
    }
    GENERAL_NAMES_free(names);
    return ok;
}

static bool load_chain(struct cert *c, BIO *pem)
{
    c->leaf = PEM_read_bio_X509(pem, NULL, NULL, NULL);
    c->chain = sk_X509_new_null();
    if (!c->leaf || !c->chain)
        return false;
    X509 *next;
    while ((next = PEM_read_bio_X509(pem, NULL, NULL, NULL))) {
        if (sk_X509_push(c->chain, next) == 0) {
            X509_free(next);
            return false;
        }
    }
    /* The end of the file is the only right reason to stop. */
    unsigned long code = ERR_peek_last_error();
    bool end = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    if (end)
        ERR_clear_error();
    return end;
}

/* Clients will refuse it; but which certificate is served is the operator's to say. */
static void warn_of_dates(const X509 *leaf, const char *path)
{
    if (X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0)
        log_warning("%s: the certificate has expired", path);
    else if (X509_cmp_current_time(X509_get0_notBefore(leaf)) > 0)
        log_warning("%s: the certificate is not valid yet", path);
}

/* Never ask at a terminal: an encrypted key is an error. */
static int no_password(char *buf, int size, int rwflag, void *arg)
{
    (void)buf, (void)size, (void)rwflag, (void)arg;
    return -1;
}

bool cert_load(struct cert *c, const struct tls_certificate_files *files, char *error,
               size_t error_size)
{
    unsigned char *pem = NULL, *key = NULL;
    size_t pem_len = 0, key_len = 0;
    BIO *bio = NULL;
    bool ok = false;

    ERR_clear_error();
    pem = file_read(files->certificate, PEM_MAX, &pem_len, &c->cert_mark, error, error_size);
    if (!pem)
        goto out;
    key = file_read(files->key, PEM_MAX, &key_len, &c->key_mark, error, error_size);
    if (!key)
        goto out;
    bio = BIO_new_mem_buf(pem, (int)pem_len);
    if (!bio || !load_chain(c, bio)) {
        fail_openssl(error, error_size, files->certificate, "no PEM certificate chain");
        goto out;
    }
    BIO_free(bio);
    bio = BIO_new_mem_buf(key, (int)key_len);
    c->key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    if (!c->key) {
        fail_openssl(error, error_size, files->key, "no usable PEM private key");
        goto out;
    }
    if (X509_check_private_key(c->leaf, c->key) != 1) {
        ERR_clear_error();
        fail(error, error_size, files->key, "is not the key of the certificate");
        goto out;
    }
    warn_of_dates(c->leaf, files->certificate);
    ok = load_names(c) || fail(error, error_size, files->certificate, "out of memory");
out:
    BIO_free(bio);
    file_free(pem, pem_len);
    file_free(key, key_len);
    return ok;
}

void cert_clear(struct cert *c)
{
    X509_free(c->leaf);
    sk_X509_pop_free(c->chain, X509_free);
    EVP_PKEY_free(c->key);
    for (size_t i = 0; i < c->n_names; i++)
        free(c->names[i]);
    free(c->names);
    file_mark_clear(&c->cert_mark);
    file_mark_clear(&c->key_mark);
    memset(c, 0, sizeof *c);
}

int cert_match(const struct cert *c, const char *host)
{
    const char *dot = strchr(host, '.');
    int best = 0;
    for (size_t i = 0; i < c->n_names; i++) {
        const char *name = c->names[i];
        if (strcmp(name, host) == 0)
            return 2;
        if (dot && dot > host && name[0] == '*' && strcmp(name + 1, dot) == 0)
            best = 1;
    }
    return best;
}
