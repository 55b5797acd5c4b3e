/* ticket.h - the keys session tickets are sealed with (RFC 5077 4, RFC 8446 4.6.1).
 *
 * Our own keys belong to the process: all workers and all contexts that a reload makes
 * share them, so a session resumes wherever the client lands. Keys from a file belong to
 * the context that read them and work on every instance that has the same file.
 * Thread: all functions any thread. */
#ifndef PITH_TLS_TICKET_H
#define PITH_TLS_TICKET_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TICKET_KEY_SIZE = 80,      /* in the file: name 16, HMAC key 32, AES key 32 */
    TICKET_KEYS_MAX = 16,      /* newest first */
    TICKET_LIFE_S = 24 * 3600, /* of a session */
    TICKET_ROTATE_S = TICKET_LIFE_S / 2,
};

/*   0        16                  48                  80
 *   +--------+-------------------+-------------------+
 *   | name   | HMAC-SHA256 key   | AES-256-CBC key   |
 *   +--------+-------------------+-------------------+ */
struct ticket_key {
    uint8_t name[16];
    uint8_t hmac[32];
    uint8_t aes[32];
};

struct ticket_keys; /* of a file */

/* From the octets of a file: whole keys, 1 to TICKET_KEYS_MAX. NULL when they are not. */
struct ticket_keys *ticket_keys_create(const uint8_t *data, size_t len);
/* Wipes and frees. */
void ticket_keys_destroy(struct ticket_keys *k);

/* Makes ssl seal and open tickets with these keys, which outlive it; NULL: our own. */
void ticket_install(SSL_CTX *ssl, const struct ticket_keys *k);

#endif
