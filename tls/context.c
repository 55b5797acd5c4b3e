/* context.c - TLS contexts: which certificate for which name, ALPN, what TLS may do.
 *
 * Each set of certificates that a name can get (at most one a key type) is an SSL_CTX of
 * its own, made once; the client's hello picks one. OpenSSL then chooses RSA or ECDSA by
 * what the client can verify. */
#include "tls/context.h"

#include <ctype.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/cert.h"
#include "tls/io.h"
#include "tls/ticket.h"

enum {
    CERTIFICATES_MAX = 64, /* a set of them is a bit mask */
    HOST_SIZE = 256,
};

/* TLS 1.2 with forward secrecy and authenticated encryption only (RFC 9113 9.2.2). The
 * 128-bit ciphers first: answers are short, and their hash is the faster one. */
static const char ciphers_12[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                                 "ECDHE+AESGCM:ECDHE+CHACHA20";
static const char ciphers_13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                 "TLS_CHACHA20_POLY1305_SHA256";

struct cert_set {
    uint64_t members; /* bit i: certs[i] */
    SSL_CTX *ssl;
};

struct tls_context {
    atomic_size_t refs;
    struct cert *certs;
    size_t n_certs;
    struct cert_set *sets; /* the first is the default */
    size_t n_sets;
    struct ticket_keys *tickets; /* NULL: the process's own */
    struct file_mark ticket_mark;
    int min_version;
};

/* Which certificates a host gets: of each key type the one that fits best, the first of
 * equals. 0: none fits. */
static uint64_t members_for(const struct tls_context *t, const char *host)
{
    uint64_t members = 0;
    for (size_t i = 0; i < t->n_certs; i++) {
        int fit = cert_match(&t->certs[i], host);
        bool best = fit > 0;
        for (size_t j = 0; best && j < t->n_certs; j++) {
            if (j == i ||
                EVP_PKEY_get_base_id(t->certs[j].key) != EVP_PKEY_get_base_id(t->certs[i].key))
                continue;
            int other = cert_match(&t->certs[j], host);
            best = other < fit || (other == fit && j > i);
        }
        if (best)
            members |= (uint64_t)1 << i;
    }
    return members;
}

static SSL_CTX *set_for(const struct tls_context *t, uint64_t members)
{
    for (size_t i = 0; i < t->n_sets; i++) {
        if (t->sets[i].members == members)
            return t->sets[i].ssl;
    }
    return NULL;
}

/* ---- the client's hello ---- */

/* The host name of the server_name extension (RFC 6066 3), in lower case; false when
 * there is none or it is no name. */
static bool hello_host(SSL *ssl, char host[HOST_SIZE])
{
    /*  list length 2 | type 1 (0: host_name) | length 2 | name */
    const unsigned char *p;
    size_t len;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &len) != 1)
        return false;
    if (len < 5 || p[2] != TLSEXT_NAMETYPE_host_name)
        return false;
    size_t n = (size_t)p[3] << 8 | p[4];
    if (n == 0 || n > len - 5 || n >= HOST_SIZE)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (p[5 + i] == 0)
            return false;
        host[i] = (char)tolower(p[5 + i]);
    }
    if (host[n - 1] == '.')
        n--;
    host[n] = '\0';
    return n > 0;
}

/* A session resumes for the name it was made for and no other, whatever the version of
 * TLS (RFC 6066 3, RFC 8446 4.6.1): the name is part of the session's context. */
static bool bind_session(SSL *ssl, const char *host)
{
    unsigned char id[SHA256_DIGEST_LENGTH];
    return SHA256((const unsigned char *)host, strlen(host), id) &&
           SSL_set_session_id_context(ssl, id, sizeof id) == 1;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
    struct tls_context *t = arg;
    char host[HOST_SIZE];
    if (!hello_host(ssl, host))
        host[0] = '\0';
    SSL_CTX *set = host[0] ? set_for(t, members_for(t, host)) : NULL;
    if (set && set != SSL_get_SSL_CTX(ssl) && !SSL_set_SSL_CTX(ssl, set))
        goto fail;
    if (bind_session(ssl, host))
        return SSL_CLIENT_HELLO_SUCCESS;
fail:
    *alert = SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

/* Says to OpenSSL that the name was looked at, so that it is kept with the session. */
static int on_server_name(SSL *ssl, int *alert, void *arg)
{
    (void)alert, (void)arg;
    return SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) ? SSL_TLSEXT_ERR_OK
                                                              : SSL_TLSEXT_ERR_NOACK;
}

/* The first of ours that the client has too; an alert when there is none (RFC 7301 3.2). */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
    (void)arg;
    const struct tls_io *io = BIO_get_data(SSL_get_rbio(ssl));
    unsigned char *chosen;
    if (!io->alpn || io->alpn->len == 0)
        return SSL_TLSEXT_ERR_NOACK;
    if (SSL_select_next_proto(&chosen, out_len, io->alpn->wire, (unsigned)io->alpn->len, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- making ---- */

static void set_options(SSL_CTX *ssl, const struct tls_context *t)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                 SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* One record a call, also one that holds no data: work a wake-up stays bounded. */
    SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_early_data(ssl, 0); /* a replayed query is not ours to answer */
    SSL_CTX_set_client_hello_cb(ssl, on_client_hello, (void *)(uintptr_t)t);
    SSL_CTX_set_tlsext_servername_callback(ssl, on_server_name);
    SSL_CTX_set_alpn_select_cb(ssl, on_alpn, NULL);
    ticket_install(ssl, t->tickets);
}

static SSL_CTX *make_ssl(const struct tls_context *t, uint64_t members)
{
    SSL_CTX *ssl = SSL_CTX_new(TLS_server_method());
    if (!ssl)
        return NULL;
    set_options(ssl, t);
    bool ok = SSL_CTX_set_min_proto_version(ssl, t->min_version) == 1 &&
              SSL_CTX_set_cipher_list(ssl, ciphers_12) == 1 &&
              SSL_CTX_set_ciphersuites(ssl, ciphers_13) == 1 &&
              SSL_CTX_set1_groups_list(ssl, "X25519:P-256:P-384") == 1;
    for (size_t i = 0; ok && i < t->n_certs; i++) {
        const struct cert *c = &t->certs[i];
        if (members >> i & 1)
            ok = SSL_CTX_use_cert_and_key(ssl, c->leaf, c->key, c->chain, 1) == 1;
    }
    if (ok)
        return ssl;
    SSL_CTX_free(ssl);
    return NULL;
}

static bool add_set(struct tls_context *t, uint64_t members)
{
    if (set_for(t, members))
        return true;
    struct cert_set *sets = realloc(t->sets, (t->n_sets + 1) * sizeof *sets);
    if (!sets)
        return false;
    t->sets = sets;
    SSL_CTX *ssl = make_ssl(t, members);
    if (!ssl)
        return false;
    t->sets[t->n_sets++] = (struct cert_set){.members = members, .ssl = ssl};
    return true;
}

/* The default is the first certificate, with those of other key types for the same name. */
static uint64_t default_members(const struct tls_context *t)
{
    const struct cert *first = &t->certs[0];
    uint64_t members = first->n_names > 0 ? members_for(t, first->names[0]) : 0;
    return members & 1 ? members : 1;
}

/* A host that a wildcard stands for: "*.example" becomes "-.example", a label that no
 * certificate names. */
static bool add_sets(struct tls_context *t)
{
    if (!add_set(t, default_members(t)))
        return false;
    for (size_t i = 0; i < t->n_certs; i++) {
        for (size_t j = 0; j < t->certs[i].n_names; j++) {
            char host[HOST_SIZE];
            snprintf(host, sizeof host, "%s", t->certs[i].names[j]);
            if (host[0] == '*')
                host[0] = '-';
            uint64_t members = members_for(t, host);
            if (members && !add_set(t, members))
                return false;
        }
    }
    return true;
}

static bool load_tickets(struct tls_context *t, const char *path, char *error, size_t size)
{
    size_t len = 0;
    unsigned char *data =
        file_read(path, TICKET_KEY_SIZE * TICKET_KEYS_MAX, &len, &t->ticket_mark, error, size);
    if (!data)
        return false;
    t->tickets = ticket_keys_create(data, len);
    if (!t->tickets)
        snprintf(error, size, "%s: not 1 to %d keys of %d octets", path, TICKET_KEYS_MAX,
                 TICKET_KEY_SIZE);
    file_free(data, len);
    return t->tickets;
}

static bool load(struct tls_context *t, const struct tls_options *o, char *error, size_t size)
{
    if (o->n_certificates < 1 || o->n_certificates > CERTIFICATES_MAX) {
        snprintf(error, size, "tls: 1 to %d certificates are possible", CERTIFICATES_MAX);
        return false;
    }
    t->certs = calloc(o->n_certificates, sizeof *t->certs);
    if (!t->certs) {
        snprintf(error, size, "tls: out of memory");
        return false;
    }
    for (size_t i = 0; i < o->n_certificates; i++) {
        t->n_certs = i + 1;
        if (!cert_load(&t->certs[i], &o->certificates[i], error, size))
            return false;
    }
    if (o->ticket_keys && !load_tickets(t, o->ticket_keys, error, size))
        return false;
    if (!add_sets(t)) {
        unsigned long code = ERR_peek_last_error();
        const char *reason = code ? ERR_reason_error_string(code) : NULL;
        snprintf(error, size, "%s: unusable: %s", o->certificates[0].certificate,
                 reason ? reason : "out of memory");
        ERR_clear_error();
        return false;
    }
    return true;
}

static void destroy(struct tls_context *t)
{
    for (size_t i = 0; i < t->n_sets; i++)
        SSL_CTX_free(t->sets[i].ssl);
    free(t->sets);
    for (size_t i = 0; i < t->n_certs; i++)
        cert_clear(&t->certs[i]);
    free(t->certs);
    ticket_keys_destroy(t->tickets);
    file_mark_clear(&t->ticket_mark);
    free(t);
}

struct tls_context *tls_context_create(const struct tls_options *options, char *error,
                                       size_t error_size)
{
    struct tls_context *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(error, error_size, "tls: out of memory");
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->min_version = options->min_version ? options->min_version : TLS1_2_VERSION;
    if (!load(t, options, error, error_size)) {
        destroy(t);
        return NULL;
    }
    return t;
}

struct tls_context *tls_context_ref(struct tls_context *t)
{
    atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

void tls_context_unref(struct tls_context *t)
{
    if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1)
        destroy(t);
}

bool tls_context_changed(const struct tls_context *t)
{
    if (file_mark_changed(&t->ticket_mark))
        return true;
    for (size_t i = 0; i < t->n_certs; i++) {
        if (file_mark_changed(&t->certs[i].cert_mark) ||
            file_mark_changed(&t->certs[i].key_mark))
            return true;
    }
    return false;
}

SSL *tls_context_accept(struct tls_context *t)
{
    SSL *ssl = SSL_new(t->sets[0].ssl);
    if (ssl)
        SSL_set_accept_state(ssl);
    return ssl;
}
