/* test_tls.c - contexts: certificates by name and kind, versions, ALPN, tickets. Real
 * handshakes over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <unistd.h>

#include "certs.h"
#include "core/clock.h"
#include "core/metrics.h"
#include "net_fixture.h"
#include "tls/ticket.h"

static struct certs certs;

struct fixture {
    struct net net;
    struct tls_context *context;
};

static int group_setup(void **state)
{
    (void)state;
    certs_init(&certs);
    certs_leaf(&certs, "a-ec", "DNS:a.test,DNS:*.wild.test,IP:127.0.0.1", false);
    certs_leaf(&certs, "a-rsa", "DNS:A.test", true);
    certs_leaf(&certs, "b", "DNS:b.test,DNS:one.wild.test", false);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    certs_deinit(&certs);
    return 0;
}

/* A context of the named leaves; ticket_keys names a file of the folder, or is NULL. */
static struct tls_context *make(const char *const *names, size_t n, const char *ticket_keys,
                                int min_version, char *error, size_t size)
{
    char cert[4][CERTS_PATH], key[4][CERTS_PATH], tickets[CERTS_PATH], file[64];
    struct tls_certificate_files files[4];
    for (size_t i = 0; i < n; i++) {
        snprintf(file, sizeof file, "%s.pem", names[i]);
        files[i].certificate = certs_path(&certs, file, cert[i]);
        snprintf(file, sizeof file, "%s.key", names[i]);
        files[i].key = certs_path(&certs, file, key[i]);
    }
    struct tls_options o = {.certificates = files,
                            .n_certificates = n,
                            .min_version = min_version,
                            .ticket_keys =
                                ticket_keys ? certs_path(&certs, ticket_keys, tickets) : NULL};
    return tls_context_create(&o, error, size);
}

static struct tls_context *make_or_fail(const char *const *names, size_t n,
                                        const char *ticket_keys, int min_version)
{
    char error[256] = "";
    struct tls_context *t = make(names, n, ticket_keys, min_version, error, sizeof error);
    if (!t)
        fail_msg("%s", error);
    return t;
}

static void use(struct fixture *f, struct tls_context *t)
{
    tls_context_unref(f->context);
    f->context = t;
    f->net.options.tls = t;
    net_listen(&f->net);
}

static int setup(void **state)
{
    static const char *const names[] = {"a-ec", "a-rsa", "b"};
    struct fixture *f = calloc(1, sizeof *f);
    net_init(&f->net);
    use(f, make_or_fail(names, 3, NULL, TLS1_2_VERSION));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    net_deinit(&f->net);
    tls_context_unref(f->context);
    free(f);
    return 0;
}

/* ---- certificates ---- */

static void leaf_name(SSL *ssl, char out[64])
{
    X509 *x = SSL_get1_peer_certificate(ssl);
    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, out, 64);
    X509_free(x);
}

/* The certificate that a client with these options gets; an answer has to come too. */
static void expect_leaf(struct fixture *f, const struct client_tls *o, const char *name)
{
    struct client c;
    char got[64];
    client_open(&c, &f->net);
    assert_true(client_tls(&c, o, NULL));
    leaf_name(c.ssl, got);
    assert_string_equal(got, name);
    client_query(&c, 5);
    assert_int_equal(client_answer(&c, 10000), 5);
    client_close(&c);
}

static void row_32_certificate_by_name(void **state)
{
    static const struct {
        const char *host, *sigalgs, *leaf;
    } rows[] = {
        {"a.test", NULL, "a-ec"},
        {"A.TEST", NULL, "a-ec"},
        {"a.test.", NULL, "a-ec"},
        {"a.test", "RSA-PSS+SHA256:RSA+SHA256", "a-rsa"},
        {"b.test", NULL, "b"},
        {"x.wild.test", NULL, "a-ec"},
        {"one.wild.test", NULL, "b"},    /* exact before wildcard */
        {"x.y.wild.test", NULL, "a-ec"}, /* no name fits: the default */
        {"unknown.example", NULL, "a-ec"},
        {"unknown.example", "RSA-PSS+SHA256:RSA+SHA256", "a-rsa"},
        {NULL, NULL, "a-ec"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
            struct client_tls o = {
                .host = rows[i].host, .sigalgs = rows[i].sigalgs, .version = version};
            expect_leaf(*state, &o, rows[i].leaf);
        }
    }
}

static void row_32_chain_is_complete(void **state)
{
    struct fixture *f = *state;
    struct client_tls o = {.host = "a.test", .trust = certs.root};
    expect_leaf(f, &o, "a-ec");
    o.host = "b.test";
    expect_leaf(f, &o, "b");
    o.sigalgs = "RSA-PSS+SHA256:ECDSA+SHA256:RSA+SHA256";
    o.host = "a.test";
    o.version = TLS1_2_VERSION;
    expect_leaf(f, &o, "a-ec");
}

static void faults_name_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *cert, *key, *text;
    } rows[] = {
        {"none.pem", "a-ec.key", "No such file"},
        {"a-ec.pem", "none.key", "No such file"},
        {"a-ec.pem", "b.key", "is not the key of the certificate"},
        {"a-ec.pem", "a-rsa.key", "is not the key of the certificate"},
        {"a-ec.key", "a-ec.key", "no PEM certificate chain"},
        {"a-ec.pem", "a-ec.pem", "no usable PEM private key"},
        {"empty", "a-ec.key", "no PEM certificate chain"},
        {"broken.pem", "a-ec.key", "no PEM certificate chain"},
        {"a-ec.pem", "locked.key", "no usable PEM private key"},
        {"", "a-ec.key", "not a file"},
    };
    char path[CERTS_PATH];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *locked = fopen(certs_path(&certs, "locked.key", path), "w");
    char password[] = "secret";
    assert_true(PEM_write_PrivateKey(locked, key, EVP_aes_128_cbc(), (unsigned char *)password,
                                     6, NULL, NULL));
    fclose(locked);
    EVP_PKEY_free(key);
    certs_file(&certs, "empty", "", 0);
    const char broken[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    certs_file(&certs, "broken.pem", broken, sizeof broken - 1);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char error[256] = "", cert_path[CERTS_PATH], key_path[CERTS_PATH];
        struct tls_certificate_files file = {certs_path(&certs, rows[i].cert, cert_path),
                                             certs_path(&certs, rows[i].key, key_path)};
        struct tls_options o = {.certificates = &file, .n_certificates = 1};
        assert_null(tls_context_create(&o, error, sizeof error));
        if (!strstr(error, rows[i].text) || strncmp(error, certs.dir, strlen(certs.dir)) != 0 ||
            strchr(error, '\n'))
            fail_msg("%zu: %s", i, error);
    }
}

static void ticket_file_faults(void **state)
{
    (void)state;
    static const char *const names[] = {"b"};
    static const size_t sizes[] = {0, 48, 79, 81, 17 * 80};
    static const uint8_t zeros[17 * 80];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char error[256] = "";
        certs_file(&certs, "tickets", zeros, sizes[i]);
        assert_null(make(names, 1, "tickets", 0, error, sizeof error));
        assert_non_null(strstr(error, "tickets: not"));
    }
}

/* ---- versions, ALPN, renegotiation ---- */

static void row_31_versions(void **state)
{
    static const char *const names[] = {"b"};
    struct fixture *f = *state;
    struct client c;
    int alert = -1;
    client_open(&c, &f->net);
    assert_false(client_tls(&c, &(struct client_tls){.version = TLS1_1_VERSION}, &alert));
    assert_int_equal(alert, SSL_AD_PROTOCOL_VERSION);
    client_close(&c);

    use(f, make_or_fail(names, 1, NULL, TLS1_3_VERSION));
    client_open(&c, &f->net);
    assert_false(client_tls(&c, &(struct client_tls){.version = TLS1_2_VERSION}, &alert));
    assert_int_equal(alert, SSL_AD_PROTOCOL_VERSION);
    client_close(&c);
    expect_leaf(f, &(struct client_tls){.version = TLS1_3_VERSION}, "b");
}

static void row_13_alpn(void **state)
{
    static const struct {
        const char *alpn, *chosen; /* NULL: refused */
    } rows[] = {
        {NULL, ""}, {"dot", "dot"}, {"h2,dot", "dot"}, {"h2", NULL}, {"bogus", NULL},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct client c;
        int alert = 0;
        const unsigned char *name = NULL;
        unsigned len = 0;
        client_open(&c, &f->net);
        bool ok = client_tls(&c, &(struct client_tls){.alpn = rows[i].alpn}, &alert);
        assert_int_equal(ok, rows[i].chosen != NULL);
        if (ok) {
            SSL_get0_alpn_selected(c.ssl, &name, &len);
            assert_int_equal(len, strlen(rows[i].chosen));
            assert_memory_equal(name ? (const char *)name : "", rows[i].chosen, len);
            client_query(&c, 3);
            assert_int_equal(client_answer(&c, 10000), 3);
        } else {
            assert_int_equal(alert, SSL_AD_NO_APPLICATION_PROTOCOL);
        }
        client_close(&c);
    }
}

static void row_31_renegotiation_is_refused(void **state)
{
    struct fixture *f = *state;
    struct client c;
    uint64_t before = metrics_sum(M_TLS_HANDSHAKES), since = 0;
    client_open(&c, &f->net);
    assert_true(client_tls(&c, &(struct client_tls){.version = TLS1_2_VERSION}, NULL));
    assert_int_equal(SSL_renegotiate(c.ssl), 1);
    int n = -1;
    while (n <= 0 && net_run(&f->net, &since, 300))
        n = SSL_do_handshake(c.ssl);
    assert_true(n <= 0);
    assert_int_equal(metrics_sum(M_TLS_HANDSHAKES), before + 1);
    client_close(&c);
    expect_leaf(f, NULL, "a-ec");
}

/* ---- tickets ---- */

static SSL_SESSION *first_session(struct fixture *f, const char *host, int version)
{
    struct client c;
    client_open(&c, &f->net);
    assert_true(client_tls(&c, &(struct client_tls){.host = host, .version = version}, NULL));
    assert_false(SSL_session_reused(c.ssl));
    SSL_SESSION *s = client_session(&c);
    client_close(&c);
    assert_true(SSL_SESSION_has_ticket(s));
    return s;
}

/* True when the session resumed; the right certificate's answers come either way. */
static bool resumes(struct fixture *f, SSL_SESSION *s, const char *host)
{
    struct client c;
    char leaf[64];
    int version = SSL_SESSION_get_protocol_version(s);
    SSL_SESSION *copy = SSL_SESSION_dup(s); /* OpenSSL marks what it used */
    struct client_tls o = {.host = host, .version = version, .session = copy};
    client_open(&c, &f->net);
    assert_true(client_tls(&c, &o, NULL));
    bool reused = SSL_session_reused(c.ssl);
    if (!reused && host) {
        leaf_name(c.ssl, leaf);
        assert_string_equal(leaf, strcmp(host, "b.test") == 0 ? "b" : "a-ec");
    }
    client_query(&c, 9);
    assert_int_equal(client_answer(&c, 10000), 9);
    client_close(&c);
    SSL_SESSION_free(copy);
    return reused;
}

static void row_31_resumption_keeps_the_name(void **state)
{
    struct fixture *f = *state;
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        SSL_SESSION *s = first_session(f, "a.test", version);
        uint64_t before = metrics_sum(M_TLS_RESUMED);
        assert_true(resumes(f, s, "a.test"));
        assert_int_equal(metrics_sum(M_TLS_RESUMED), before + 1);
        assert_false(resumes(f, s, "b.test"));
        assert_false(resumes(f, s, "x.wild.test"));
        assert_true(resumes(f, s, "A.test"));
        SSL_SESSION_free(s);
        s = first_session(f, NULL, version);
        assert_true(resumes(f, s, NULL));
        assert_false(resumes(f, s, "b.test"));
        SSL_SESSION_free(s);
    }
}

static void row_31_no_early_data(void **state)
{
    SSL_SESSION *s = first_session(*state, "a.test", TLS1_3_VERSION);
    assert_int_equal(SSL_SESSION_get_max_early_data(s), 0);
    SSL_SESSION_free(s);
}

/* A resumed session of TLS 1.3 gets a new ticket, since the old one is used up. */
static void resumed_gets_a_new_ticket(void **state)
{
    struct fixture *f = *state;
    SSL_SESSION *s = first_session(f, "a.test", TLS1_3_VERSION);
    for (int i = 0; i < 3; i++) {
        struct client c;
        client_open(&c, &f->net);
        assert_true(client_tls(&c, &(struct client_tls){.host = "a.test", .session = s}, NULL));
        assert_true(SSL_session_reused(c.ssl));
        SSL_SESSION *next = client_session(&c);
        assert_ptr_not_equal(next, s);
        assert_true(SSL_SESSION_has_ticket(next));
        client_close(&c);
        SSL_SESSION_free(s);
        s = next;
    }
    SSL_SESSION_free(s);
}

static void row_31_instances_share_a_key_file(void **state)
{
    static const char *const names[] = {"a-ec", "b"};
    struct fixture *f = *state;
    uint8_t keys[3 * TICKET_KEY_SIZE];
    for (size_t i = 0; i < sizeof keys; i++)
        keys[i] = (uint8_t)(i * 7 + i / TICKET_KEY_SIZE);
    certs_file(&certs, "tickets-1", keys, TICKET_KEY_SIZE);
    certs_file(&certs, "tickets-2", keys + TICKET_KEY_SIZE, TICKET_KEY_SIZE);
    /* a newer one before it */
    memcpy(keys + 2 * TICKET_KEY_SIZE, keys, TICKET_KEY_SIZE);
    certs_file(&certs, "tickets-1b", keys + TICKET_KEY_SIZE, 2 * TICKET_KEY_SIZE);

    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        use(f, make_or_fail(names, 2, "tickets-1", 0));
        SSL_SESSION *s = first_session(f, "b.test", version);
        use(f, make_or_fail(names, 2, "tickets-1", 0));
        assert_true(resumes(f, s, "b.test"));
        use(f, make_or_fail(names, 2, "tickets-2", 0));
        assert_false(resumes(f, s, "b.test"));
        use(f, make_or_fail(names, 2, "tickets-1b", 0));
        assert_true(resumes(f, s, "b.test"));
        use(f, make_or_fail(names, 2, NULL, 0));
        assert_false(resumes(f, s, "b.test"));
        SSL_SESSION_free(s);
    }
}

static void own_keys_rotate_and_outlive_a_reload(void **state)
{
    static const char *const names[] = {"a-ec", "b"};
    struct fixture *f = *state;
    SSL_SESSION *s = first_session(f, "b.test", TLS1_3_VERSION);
    use(f, make_or_fail(names, 2, NULL, 0));
    assert_true(resumes(f, s, "b.test"));
    clock_advance((uint64_t)TICKET_ROTATE_S * 1000 + 1000);
    assert_true(resumes(f, s, "b.test"));
    SSL_SESSION *newer = first_session(f, "b.test", TLS1_3_VERSION);
    clock_advance((uint64_t)TICKET_LIFE_S * 1000 + 1000);
    assert_false(resumes(f, s, "b.test")); /* its key is gone */
    assert_true(resumes(f, newer, "b.test"));
    clock_advance((uint64_t)TICKET_LIFE_S * 1000);
    assert_false(resumes(f, newer, "b.test"));
    SSL_SESSION_free(newer);
    SSL_SESSION_free(s);
}

/* ---- reload ---- */

static void reload_keeps_connections(void **state)
{
    static const char *const names[] = {"b"};
    struct fixture *f = *state;
    struct client old, half;
    client_open(&old, &f->net);
    assert_true(client_tls(&old, NULL, NULL));
    client_open(&half, &f->net); /* accepted, and then the context changes */
    net_until(&f->net, listener_connections(f->net.listener) == 2);

    struct tls_context *next = make_or_fail(names, 1, NULL, 0);
    listener_set_tls(f->net.listener, next);
    tls_context_unref(f->context);
    f->context = next;

    client_query(&old, 1);
    assert_int_equal(client_answer(&old, 10000), 1);
    assert_true(client_tls(&half, NULL, NULL));
    client_query(&half, 2);
    assert_int_equal(client_answer(&half, 10000), 2);
    expect_leaf(f, &(struct client_tls){.host = "a.test"}, "b");
    client_close(&old);
    client_close(&half);
}

static void changes_of_files_are_seen(void **state)
{
    (void)state;
    static const char *const names[] = {"c"};
    static const uint8_t keys[2 * TICKET_KEY_SIZE];
    char path[CERTS_PATH];
    certs_leaf(&certs, "c", "DNS:c.test", false);
    certs_file(&certs, "tickets-c", keys, TICKET_KEY_SIZE);
    struct tls_context *t = make_or_fail(names, 1, "tickets-c", 0);
    assert_false(tls_context_changed(t));
    certs_file(&certs, "tickets-c", keys, 2 * TICKET_KEY_SIZE);
    assert_true(tls_context_changed(t));
    tls_context_unref(t);

    t = make_or_fail(names, 1, "tickets-c", 0);
    assert_false(tls_context_changed(t));
    certs_leaf(&certs, "d", "DNS:d.test", false); /* another file */
    assert_false(tls_context_changed(t));
    assert_int_equal(unlink(certs_path(&certs, "c.pem", path)), 0);
    assert_false(tls_context_changed(t)); /* gone for the moment: nothing to load */
    certs_leaf(&certs, "c", "DNS:c.test", false);
    assert_true(tls_context_changed(t));
    tls_context_unref(t);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(row_32_certificate_by_name),
        T(row_32_chain_is_complete),
        cmocka_unit_test(faults_name_the_file),
        cmocka_unit_test(ticket_file_faults),
        T(row_31_versions),
        T(row_13_alpn),
        T(row_31_renegotiation_is_refused),
        T(row_31_resumption_keeps_the_name),
        T(row_31_no_early_data),
        T(resumed_gets_a_new_ticket),
        T(row_31_instances_share_a_key_file),
        T(own_keys_rotate_and_outlive_a_reload),
        T(reload_keeps_connections),
        cmocka_unit_test(changes_of_files_are_seen),
    };
#undef T
    return cmocka_run_group_tests_name("tls", tests, group_setup, group_teardown);
}
