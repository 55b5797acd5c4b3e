/* cookie.c - server cookies (RFC 7873, RFC 9018).
 *
 * pith gives cookies so that clients can tell its answers from forged ones; it does not ask for
 * them back, so the secret need not be shared or survive a restart. */
#include <pthread.h>
#include <string.h>

#include "asker.h"
#include "core/hash.h"

static struct hash_key secret;
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

static void make_secret(void)
{
    secret = hash_key_random();
}

/*   0        8   9        12          16      24
 *   | client | 1 | reserved | time (s) | hash |     hash over all before and the client's IP */
void cookie_write(uint8_t out[COOKIE_SIZE], const uint8_t client_cookie[COOKIE_CLIENT_SIZE],
                  const struct addr *client, uint32_t wall_s)
{
    uint8_t input[16 + 16];
    size_t ip_len = addr_ip_len(client->family);
    uint64_t hash;

    pthread_once(&secret_once, make_secret);
    memcpy(out, client_cookie, COOKIE_CLIENT_SIZE);
    out[8] = 1;
    memset(out + 9, 0, 3);
    dns_write32(out + 12, wall_s);
    memcpy(input, out, 16);
    memcpy(input + 16, client->ip, ip_len);
    hash = hash_sip(&secret, input, 16 + ip_len);
    memcpy(out + 16, &hash, sizeof hash);
}
