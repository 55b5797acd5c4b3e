/* client.c - see client.h. */
#include "tls/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

enum {
    ALPN_SIZE = 64,
    SECONDS_A_DAY = 86400,
    RENEW_SOON_DAYS = 10,
    APPLE_DAYS_MAX = 825, /* longer lives are refused (support.apple.com/103769) */
};

struct tls_client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
    uint64_t deadline_ms;
};

/* --- telling ---------------------------------------------------------------------------------
 */

__attribute__((format(printf, 2, 3))) static void fault(struct tls_client_report *r,
                                                        const char *fmt, ...)
{
    va_list args;

    if (r->n_faults == TLS_CLIENT_FAULTS)
        return;
    va_start(args, fmt);
    vsnprintf(r->faults[r->n_faults++], TLS_CLIENT_TEXT, fmt, args);
    va_end(args);
}

static bool is_address(const char *host)
{
    unsigned char ip[16];

    return inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1;
}

/* "a.example b.example 192.0.2.1", cut where it does not fit. */
static void list_names(X509 *leaf, char *out, size_t size)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    size_t len = 0;

    out[0] = '\0';
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && len < size; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *space = len == 0 ? "" : " ";
        char text[INET6_ADDRSTRLEN];
        if (name->type == GEN_DNS) {
            const ASN1_STRING *s = name->d.dNSName;
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", space,
                                    ASN1_STRING_length(s), ASN1_STRING_get0_data(s));
        } else if (name->type == GEN_IPADD) {
            const ASN1_STRING *s = name->d.iPAddress;
            int family = ASN1_STRING_length(s) == 4 ? AF_INET : AF_INET6;
            if (inet_ntop(family, ASN1_STRING_get0_data(s), text, sizeof text) != NULL)
                len += (size_t)snprintf(out + len, size - len, "%s%s", space, text);
        }
    }
    GENERAL_NAMES_free(names);
    for (char *p = out; *p != '\0'; p++) {
        if (*p < ' ' || *p > '~')
            *p = '?';
    }
}

/* --- what a strict client looks at -----------------------------------------------------------
 */

static void check_name(X509 *leaf, const char *host, struct tls_client_report *r)
{
    bool address = is_address(host);
    int fits = address
                   ? X509_check_ip_asc(leaf, host, 0)
                   : X509_check_host(leaf, host, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL);

    if (fits == 1)
        return;
    if (r->subject[0] == '\0')
        fault(r,
              "the certificate has no subject alternative name at all, so it is for nobody; "
              "have one made for %s",
              host);
    else
        fault(r, "wrong name: the certificate is for %s, not for %s%s", r->subject, host,
              address ? " (an address has to be in it as an IP address)" : "");
}

/* The end of the first to end, among what was sent. */
static void check_dates(const STACK_OF(X509) * chain, struct tls_client_report *r)
{
    for (int i = 0; i < sk_X509_num(chain); i++) {
        int days, seconds;
        if (ASN1_TIME_diff(&days, &seconds, NULL,
                           X509_get0_notAfter(sk_X509_value(chain, i))) != 1)
            continue;
        if (days < 0 || (days == 0 && seconds < 0))
            days = days < 0 ? days : -1;
        if (i == 0 || days < r->days_left)
            r->days_left = days;
    }
}

static void check_life(X509 *leaf, struct tls_client_report *r)
{
    int days, seconds;

    if (r->days_left >= 0 && r->days_left < RENEW_SOON_DAYS)
        snprintf(r->hint, sizeof r->hint, "the certificate ends in %ld days", r->days_left);
    else if (ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(leaf),
                            X509_get0_notAfter(leaf)) == 1 &&
             days > APPLE_DAYS_MAX)
        snprintf(r->hint, sizeof r->hint,
                 "the certificate is good for %d days; iOS and macOS take %d at most", days,
                 APPLE_DAYS_MAX);
}

static void check_chain(const SSL *ssl, X509 *leaf, struct tls_client_report *r)
{
    long result = SSL_get_verify_result(ssl);
    bool own = X509_NAME_cmp(X509_get_subject_name(leaf), X509_get_issuer_name(leaf)) == 0;

    switch (result) {
    case X509_V_OK:
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        fault(r, "a certificate of the chain has expired, or the clock here is wrong");
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        fault(r, "a certificate of the chain is not valid yet, or the clock here is wrong");
        return;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        fault(r, "the certificate is signed by itself, which no client trusts");
        return;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
        if (r->n_sent == 1 && !own)
            fault(r,
                  "the server sends its own certificate alone, without the chain to its "
                  "authority, or the authority is not known here; phones drop such a server: "
                  "put the chain after the certificate in tls.certificates (fullchain.pem)");
        else
            fault(r, "the chain does not end at an authority that is trusted here");
        return;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        fault(r, "the chain ends at an authority that is not trusted here");
        return;
    case X509_V_ERR_INVALID_PURPOSE:
        fault(r, "the certificate, or one of the chain, is not made for servers");
        return;
    default:
        fault(r, "the chain is not good: %s", X509_verify_cert_error_string(result));
    }
}

static void look_at(const SSL *ssl, const char *host, struct tls_client_report *r)
{
    const unsigned char *alpn;
    unsigned alpn_len;
    const STACK_OF(X509) *chain = SSL_get_peer_cert_chain(ssl);
    X509 *leaf = SSL_get0_peer_certificate(ssl);

    snprintf(r->version, sizeof r->version, "%s", SSL_get_version(ssl));
    SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    if (alpn_len < sizeof r->alpn)
        memcpy(r->alpn, alpn, alpn_len);
    if (leaf == NULL) {
        fault(r, "the server has no certificate");
        return;
    }
    r->n_sent = (size_t)sk_X509_num(chain);
    list_names(leaf, r->subject, sizeof r->subject);
    check_dates(chain, r);
    check_chain(ssl, leaf, r);
    check_name(leaf, host, r);
    check_life(leaf, r);
}

/* --- connection ------------------------------------------------------------------------------
 */

/* Waits for what the last call wanted. False when it failed for good. */
static bool wait_for(struct tls_client *c, int result)
{
    int reason = SSL_get_error(c->ssl, result);
    struct pollfd p = {.fd = c->fd};
    uint64_t now = clock_now_ms();

    if (reason == SSL_ERROR_WANT_READ)
        p.events = POLLIN;
    else if (reason == SSL_ERROR_WANT_WRITE)
        p.events = POLLOUT;
    else
        return false;
    if (now >= c->deadline_ms)
        return false;
    int n = poll(&p, 1, (int)(c->deadline_ms - now));
    return n > 0 || (n < 0 && errno == EINTR);
}

static void tell_handshake(const struct tls_client *c, struct tls_client_report *r)
{
    unsigned long code = ERR_peek_last_error();
    int reason = ERR_GET_REASON(code);

    if (code == 0 && clock_now_ms() >= c->deadline_ms)
        fault(
            r,
            "the TLS handshake does not come to an end in time; does TLS answer there at all?");
    else if (code == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        fault(r, "the connection is closed in the middle of the TLS handshake");
    else if (reason == SSL_R_WRONG_VERSION_NUMBER)
        fault(r, "what answers there does not speak TLS");
    else if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION ||
             reason == SSL_R_UNSUPPORTED_PROTOCOL)
        fault(r, "the server has neither TLS 1.2 nor TLS 1.3");
    else if (reason == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL)
        fault(r, "ALPN: the server speaks another protocol on this port");
    else
        fault(r, "the TLS handshake fails: %s", ERR_reason_error_string(code));
}

/* "h2 http/1.1" as on the wire (RFC 7301 3.1). */
static size_t write_alpn(const char *words, unsigned char *wire)
{
    size_t len = 0;

    while (*words != '\0') {
        size_t n = strcspn(words, " ");
        if (n == 0 || len + 1 + n > ALPN_SIZE)
            return 0;
        wire[len++] = (unsigned char)n;
        memcpy(wire + len, words, n);
        len += n;
        words += n + strspn(words + n, " ");
    }
    return len;
}

static bool set_up(struct tls_client *c, const struct tls_client_options *o,
                   struct tls_client_report *r)
{
    unsigned char alpn[ALPN_SIZE];

    c->context = SSL_CTX_new(TLS_client_method());
    if (c->context == NULL || SSL_CTX_set_min_proto_version(c->context, TLS1_2_VERSION) != 1)
        return false;
    int loaded = o->ca != NULL ? SSL_CTX_load_verify_locations(c->context, o->ca, NULL)
                               : SSL_CTX_set_default_verify_paths(c->context);
    if (loaded != 1) {
        fault(r, "the authorities of %s cannot be read", o->ca != NULL ? o->ca : "the system");
        return false;
    }
    /* The chain is looked at all the same; see SSL_get_verify_result(). */
    SSL_CTX_set_verify(c->context, SSL_VERIFY_NONE, NULL);
    c->ssl = SSL_new(c->context);
    if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1)
        return false;
    if (!is_address(o->host) && SSL_set_tlsext_host_name(c->ssl, o->host) != 1)
        return false;
    size_t len = o->alpn != NULL ? write_alpn(o->alpn, alpn) : 0;
    return len == 0 || SSL_set_alpn_protos(c->ssl, alpn, (unsigned)len) == 0;
}

struct tls_client *tls_client_open(int fd, const struct tls_client_options *options,
                                   struct tls_client_report *report)
{
    struct tls_client *c = calloc(1, sizeof *c);

    memset(report, 0, sizeof *report);
    if (c == NULL) {
        fault(report, "memory is out");
        return NULL;
    }
    c->fd = fd;
    c->deadline_ms = options->deadline_ms;
    ERR_clear_error();
    if (!set_up(c, options, report)) {
        if (report->n_faults == 0)
            fault(report, "memory is out");
        goto failed;
    }
    int result;
    do {
        ERR_clear_error();
        result = SSL_connect(c->ssl);
    } while (result != 1 && wait_for(c, result));
    if (result != 1) {
        tell_handshake(c, report);
        goto failed;
    }
    look_at(c->ssl, options->host, report);
    return c;
failed:
    ERR_clear_error();
    tls_client_close(c);
    return NULL;
}

void tls_client_close(struct tls_client *c)
{
    if (c == NULL)
        return;
    if (c->ssl != NULL && SSL_is_init_finished(c->ssl))
        SSL_shutdown(c->ssl);
    ERR_clear_error();
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    free(c);
}

bool tls_client_write(struct tls_client *c, const void *data, size_t len)
{
    size_t sent;
    int result;

    if (len == 0)
        return true;
    do {
        ERR_clear_error();
        result = SSL_write_ex(c->ssl, data, len, &sent);
    } while (result != 1 && wait_for(c, result));
    return result == 1; /* without partial writes it is all or nothing */
}

ssize_t tls_client_read(struct tls_client *c, void *data, size_t size)
{
    size_t got;
    int result;

    do {
        ERR_clear_error();
        result = SSL_read_ex(c->ssl, data, size, &got);
        if (result == 1)
            return (ssize_t)got;
        if (SSL_get_error(c->ssl, result) == SSL_ERROR_ZERO_RETURN)
            return 0;
    } while (wait_for(c, result));
    return -1;
}
