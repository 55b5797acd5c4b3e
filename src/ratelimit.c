/* ratelimit.c - token buckets in a fixed table.
 *
 * A slot is two atomic words; a bucket is changed by one compare-and-swap:
 *
 *      tag     64-bit keyed hash of the client's prefix, 0: free
 *      level   43 bits time of the last change in 1/16 ms | 21 bits tokens in 1/16 */
#include "ratelimit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/hash.h"

enum {
    SETS = 16384,
    WAYS = 4,
    PREFIX6 = 56, /* of IPv6, in bits: what one site has */
    TICKS = 16,   /* a millisecond */
    TOKEN_BITS = 21,
    TOKEN = 16, /* parts a token is counted in */
    TOKENS_MAX = (1 << TOKEN_BITS) - 1,
    IDLE_MS = 1 << 28, /* a bucket this old is full again at any rate */
};

struct slot {
    _Atomic uint64_t tag;
    _Atomic uint64_t level;
};

static struct slot table[SETS][WAYS];
static struct hash_key key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void make_key(void)
{
    key = hash_key_random();
}

static uint64_t client_tag(const struct addr *client)
{
    uint8_t b[17] = {client->family};
    size_t n = client->family == ADDR_V6 ? PREFIX6 / 8 : addr_ip_len(client->family);
    uint64_t tag;

    pthread_once(&key_once, make_key);
    memcpy(b + 1, client->ip, n);
    tag = hash_sip(&key, b, 1 + n);
    return tag ? tag : 1;
}

static uint64_t level_time(uint64_t level)
{
    return level >> TOKEN_BITS;
}

static uint64_t level_make(uint64_t time, uint64_t tokens)
{
    return time << TOKEN_BITS | tokens;
}

/* The client's slot; when it has none, the one that was idle longest, made its own and full. */
static struct slot *find(uint64_t tag, uint64_t now, uint64_t full)
{
    struct slot *set = table[tag % SETS];
    struct slot *oldest = set;

    for (size_t i = 0; i < WAYS; i++) {
        if (atomic_load_explicit(&set[i].tag, memory_order_relaxed) == tag)
            return &set[i];
        if (level_time(atomic_load_explicit(&set[i].level, memory_order_relaxed)) <
            level_time(atomic_load_explicit(&oldest->level, memory_order_relaxed)))
            oldest = &set[i];
    }
    /* Two threads may race for the slot; at worst one bucket starts full once more. */
    atomic_store_explicit(&oldest->level, level_make(now, full), memory_order_relaxed);
    atomic_store_explicit(&oldest->tag, tag, memory_order_relaxed);
    return oldest;
}

bool ratelimit_take(const struct addr *client, uint32_t per_s, uint32_t burst, uint64_t now_ms)
{
    uint64_t full = (uint64_t)(burst ? burst : per_s) * TOKEN;
    uint64_t rate = (uint64_t)per_s * TOKEN; /* parts a second */
    uint64_t now = now_ms * TICKS;
    struct slot *s;
    uint64_t old, next;
    bool taken;

    if (full > TOKENS_MAX)
        full = TOKENS_MAX;
    if (rate > TOKENS_MAX)
        rate = TOKENS_MAX;
    s = find(client_tag(client), now, full);
    old = atomic_load_explicit(&s->level, memory_order_relaxed);
    do {
        uint64_t tokens = old & TOKENS_MAX;
        uint64_t then = level_time(old);
        uint64_t passed = now > then ? now - then : 0;
        uint64_t gained;

        if (passed > (uint64_t)IDLE_MS * TICKS)
            passed = (uint64_t)IDLE_MS * TICKS;
        gained = passed * rate / (1000 * TICKS);
        tokens += gained;
        if (tokens >= full) {
            tokens = full;
            then = now > then ? now : then;
        } else { /* what was too short for a part of a token counts the next time */
            then += (gained * 1000 * TICKS + rate - 1) / rate;
        }
        taken = tokens >= TOKEN;
        next = level_make(then, taken ? tokens - TOKEN : tokens);
    } while (!atomic_compare_exchange_weak_explicit(&s->level, &old, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return taken;
}
