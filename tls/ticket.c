/* ticket.c - session tickets: which key seals, which keys open.
 *
 * Own keys: a new one seals for TICKET_ROTATE_S, and opens until every session sealed
 * with it has ended. Whoever steals a key later cannot open what was recorded before
 * (TLS 1.2 has no forward secrecy beyond the ticket key's life).
 * Thread: any; own keys are under one mutex, taken once a handshake. */
#include "tls/ticket.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"

_Static_assert(sizeof(struct ticket_key) == TICKET_KEY_SIZE, "key layout is the file's");

struct ticket_keys {
    size_t n;
    struct ticket_key key[];
};

/* One that seals and those before it whose sessions may still live. */
enum { OWN_KEYS = 1 + TICKET_LIFE_S / TICKET_ROTATE_S };

static struct {
    pthread_mutex_t lock;
    struct ticket_key key[OWN_KEYS]; /* newest first */
    uint32_t made_s[OWN_KEYS];
    size_t n;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct ticket_keys *ticket_keys_create(const uint8_t *data, size_t len)
{
    size_t n = len / TICKET_KEY_SIZE;
    if (len % TICKET_KEY_SIZE != 0 || n < 1 || n > TICKET_KEYS_MAX)
        return NULL;
    struct ticket_keys *k = malloc(sizeof *k + len);
    if (!k)
        return NULL;
    k->n = n;
    memcpy(k->key, data, len);
    return k;
}

void ticket_keys_destroy(struct ticket_keys *k)
{
    if (!k)
        return;
    OPENSSL_cleanse(k->key, k->n * sizeof k->key[0]);
    free(k);
}

/* Drops what is too old and makes a new key when it is time. Under the lock. */
static bool own_rotate(uint32_t now_s)
{
    while (own.n > 0 && now_s - own.made_s[own.n - 1] > TICKET_ROTATE_S + TICKET_LIFE_S) {
        own.n--;
        OPENSSL_cleanse(&own.key[own.n], sizeof own.key[0]);
    }
    if (own.n > 0 && now_s - own.made_s[0] < TICKET_ROTATE_S)
        return true;
    struct ticket_key fresh;
    if (RAND_priv_bytes((unsigned char *)&fresh, sizeof fresh) != 1)
        return false;
    size_t keep = own.n < OWN_KEYS ? own.n : OWN_KEYS - 1;
    memmove(&own.key[1], &own.key[0], keep * sizeof own.key[0]);
    memmove(&own.made_s[1], &own.made_s[0], keep * sizeof own.made_s[0]);
    own.key[0] = fresh;
    own.made_s[0] = now_s;
    own.n = keep + 1;
    OPENSSL_cleanse(&fresh, sizeof fresh);
    return true;
}

static int key_find(const struct ticket_key *key, size_t n, const unsigned char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(key[i].name, name, sizeof key[i].name) == 0)
            return (int)i;
    }
    return -1;
}

/* Copies the key to seal with (name NULL) or the one of that name. Returns its age: 0 for
 * the newest, -1 when there is none. */
static int key_get(const struct ticket_keys *k, const unsigned char *name,
                   struct ticket_key *out)
{
    if (k) {
        int i = name ? key_find(k->key, k->n, name) : 0;
        if (i >= 0)
            *out = k->key[i];
        return i;
    }
    pthread_mutex_lock(&own.lock);
    int i = -1;
    if (own_rotate(clock_now_s())) {
        i = name ? key_find(own.key, own.n, name) : 0;
        if (i >= 0)
            *out = own.key[i];
    }
    pthread_mutex_unlock(&own.lock);
    return i;
}

static bool key_use(const struct ticket_key *key, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                    EVP_MAC_CTX *mac, int seal)
{
    char digest[] = "SHA256";
    uint8_t hmac[sizeof key->hmac];
    memcpy(hmac, key->hmac, sizeof hmac);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, hmac, sizeof hmac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    bool ok = EVP_MAC_CTX_set_params(mac, params) == 1 &&
              EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->aes, iv, seal) == 1;
    OPENSSL_cleanse(hmac, sizeof hmac);
    return ok;
}

static int ex_keys = -1;
static pthread_once_t ex_once = PTHREAD_ONCE_INIT;

static void ex_make(void)
{
    ex_keys = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

/* As OpenSSL wants it: -1 error, 0 no such key (a full handshake), 1 fine, 2 fine and
 * send a new ticket. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int seal)
{
    const struct ticket_keys *k = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), ex_keys);
    struct ticket_key key;
    int age = key_get(k, seal ? NULL : name, &key);
    if (age < 0)
        return seal ? -1 : 0;
    int result;
    if (seal) {
        memcpy(name, key.name, sizeof key.name);
        bool ok = RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
                  key_use(&key, iv, cipher, mac, 1);
        result = ok ? 1 : -1;
    } else if (!key_use(&key, iv, cipher, mac, 0)) {
        result = -1;
    } else {
        /* A TLS 1.3 client uses a ticket once (RFC 8446 C.4): it needs a new one. */
        result = age > 0 || SSL_version(ssl) >= TLS1_3_VERSION ? 2 : 1;
    }
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}

void ticket_install(SSL_CTX *ssl, const struct ticket_keys *k)
{
    pthread_once(&ex_once, ex_make);
    SSL_CTX_set_ex_data(ssl, ex_keys, (void *)(uintptr_t)k);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, on_ticket);
    SSL_CTX_set_timeout(ssl, TICKET_LIFE_S);
    SSL_CTX_set_num_tickets(ssl, 1);
}
