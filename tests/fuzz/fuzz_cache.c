/* fuzz_cache.c - replies into the cache and out again, as a plain reader sees them.
 *
 * An input is a row of steps. A step:
 *
 *   0     1     2       3        5
 *   +-----+-----+-------+--------+---------------+
 *   | how | age | scope | length | reply         |
 *   +-----+-----+-------+--------+---------------+
 *
 *   how: 1 DO, 2 CD, 0x0c subnet (none, source 0, IPv4 /24, IPv6 /56), 0x10 forget the name
 *   afterwards, 0x80 extended error
 *
 * A reply that reply_parse() passes and the cache takes has to come out at once, with the same
 * records; when all steps are done, each key has to give its last answer or none. Which of
 * several subnets' answers a client gets is left to the model test. */
#include <string.h>

#include "cache/cache.h"
#include "fuzz.h"
#include "unit/plain.h"

enum { STEPS_MAX = 24, START_S = 1000, TTL_MAX_S = 7 * 86400, STALE_MAX_S = 86400 };

struct step {
    struct cache_key key;
    struct ecs subnet;
    struct plain_message put;
    uint8_t *msg;
    uint32_t put_s, life_s;
    size_t size;   /* of the answer without compression, roughly */
    bool gone;     /* refused or flushed */
    bool replaced; /* a later step has the same question */
};

static void set_subnet(struct step *s, unsigned how)
{
    s->subnet = (struct ecs){.family = ADDR_V4};
    if (how == 2) {
        s->subnet.source = 24;
        memcpy(s->subnet.ip, "\xc0\0\2", 3);
    } else if (how == 3) {
        s->subnet.family = ADDR_V6;
        s->subnet.source = 56;
        memcpy(s->subnet.ip, "\x20\1\x0d\xb8\0\1\2", 7);
    }
    s->key.subnet = how == 0 ? NULL : &s->subnet;
}

/* The caller of a cache clamps TTLs; returns the smallest. */
static uint32_t clamp_ttls(const struct dns_reply *reply, uint8_t *msg)
{
    struct dns_walk w;
    struct dns_rr rr;
    uint32_t least = TTL_MAX_S;
    walk_start(&w, reply);
    while (walk_next(&w, &rr)) {
        if (rr.type == RR_OPT)
            continue;
        uint32_t ttl = rr.ttl > TTL_MAX_S ? TTL_MAX_S : rr.ttl;
        dns_write32(msg + rr.fixed + 4, ttl);
        least = ttl < least ? ttl : least;
    }
    return least > 0 ? least : 1;
}

static void check_answer(const struct step *s, const uint8_t *out, const struct cache_answer *a,
                         uint32_t now_s, bool stale)
{
    struct plain_message got;
    CHECK(plain_parse(&got, out, a->len));
    CHECK(got.id == 0 && (got.flags & 0xfff0) == 0x8080);
    CHECK(got.qname_len == s->key.qname_len);
    CHECK(memcmp(got.qname, s->key.qname, got.qname_len) == 0);
    const char *what =
        plain_difference(&s->put, &got, stale ? PLAIN_FIXED(30) : PLAIN_AGED(now_s - s->put_s));
    if (what != NULL)
        fprintf(stderr, "differs in %s\n", what);
    CHECK(what == NULL);
    plain_free(&got);
}

static bool get(struct cache *c, const struct step *s, uint32_t now_s)
{
    static uint8_t out[DNS_MESSAGE_MAX];
    struct cache_answer a;
    struct cache_get_options o = {
        .now_s = now_s, .stale_max_s = STALE_MAX_S, .stale_ttl_s = 30};
    enum cache_outcome outcome = cache_get(c, &s->key, &o, out, sizeof out, &a);
    if (outcome == CACHE_MISS)
        return false;
    bool stale = now_s >= s->put_s + s->life_s;
    CHECK(!s->gone && outcome == (stale ? CACHE_EXPIRED : CACHE_HIT));
    check_answer(s, out, &a, now_s, stale);
    return true;
}

static bool same_key(const struct step *a, const struct step *b)
{
    return a->key.qtype == b->key.qtype && a->key.dnssec_ok == b->key.dnssec_ok &&
           a->key.checking_disabled == b->key.checking_disabled &&
           plain_name_equal(a->key.qname, a->key.qname_len, b->key.qname, b->key.qname_len);
}

static bool same_name(const struct step *a, const struct step *b)
{
    return plain_name_equal(a->key.qname, a->key.qname_len, b->key.qname, b->key.qname_len);
}

/* Reads the step's reply. False when there is nothing to put. */
static bool read_step(struct step *s, struct dns_reply *reply, const uint8_t *head,
                      const uint8_t *data, size_t len)
{
    memset(s, 0, sizeof *s);
    s->msg = malloc(len + 1);
    CHECK(s->msg != NULL);
    memcpy(s->msg, data, len);
    bool ok = reply_parse(reply, s->msg, len) && reply->qclass == DNS_CLASS_IN &&
              !(reply->flags & DNS_TC);
    if (ok)
        s->life_s = clamp_ttls(reply, s->msg);
    /* Once more: a name may have pointed into a TTL. */
    if (!ok || !reply_parse(reply, s->msg, len)) {
        free(s->msg);
        return false;
    }
    CHECK(plain_parse(&s->put, s->msg, reply->len));
    s->key = (struct cache_key){.qname = reply->qname,
                                .qname_len = reply->qname_len,
                                .qtype = reply->qtype,
                                .dnssec_ok = head[0] & 1,
                                .checking_disabled = head[0] & 2};
    set_subnet(s, head[0] >> 2 & 3);
    for (size_t k = 0; k < s->put.n; k++)
        s->size += 10 + s->put.rr[k].owner_len + s->put.rr[k].rdata_len;
    return true;
}

/* Puts the reply of steps[n] and holds the others against it. */
static void put(struct cache *c, struct step *steps, size_t n, const struct dns_reply *reply,
                const uint8_t *head, uint32_t now_s)
{
    struct step *s = &steps[n];
    struct cache_put_options o = {
        .now_s = now_s,
        .life_s = s->life_s,
        .stale_max_s = STALE_MAX_S,
        .ede = head[0] & 0x80 ? head[2] : DNS_EDE_NONE,
        .ede_text = head[0] & 0x80 ? "of the fuzzer" : NULL,
        .scope = (uint8_t)(s->subnet.source ? head[2] % (s->subnet.source + 1u) : 0),
    };
    bool others = false, same = false;
    for (size_t k = 0; k < n; k++) {
        if (same_key(s, &steps[k])) {
            same = true;
            others = others || steps[k].subnet.source > 0;
            steps[k].replaced = true;
        }
    }
    s->put_s = now_s;
    enum err e = cache_put(c, &s->key, reply, &o);
    CHECK(e == ERR_OK || e == ERR_LIMIT);
    s->gone = e != ERR_OK;
    /* later another one may serve this key: one before that was not replaced, or, once this is
     * stale, a fresh one for more clients */
    s->replaced = same && (others || s->gone || s->key.subnet != NULL);
    if (e == ERR_OK && s->size < 60000 && !others)
        CHECK(get(c, s, now_s));
    if (head[0] & 0x10) {
        cache_flush_name(c, s->key.qname, s->key.qname_len);
        for (size_t k = 0; k <= n; k++)
            steps[k].gone = steps[k].gone || same_name(s, &steps[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct step steps[STEPS_MAX];
    size_t n = 0;
    uint32_t now_s = START_S;
    struct cache *c = cache_create(CACHE_MIN_BYTES);
    CHECK(c != NULL);
    while (size >= 5 && n < STEPS_MAX) {
        const uint8_t *head = data;
        size_t len = (size_t)data[3] << 8 | data[4];
        struct dns_reply reply;
        data += 5;
        size -= 5;
        len = len < size ? len : size;
        now_s += head[1] & 0x80 ? (head[1] & 0x7fu) * 1000u : head[1];
        if (read_step(&steps[n], &reply, head, data, len)) {
            put(c, steps, n, &reply, head, now_s);
            n++;
        }
        data += len;
        size -= len;
    }
    for (size_t k = 0; k < n; k++) {
        if (!steps[k].replaced)
            get(c, &steps[k], now_s + 7);
        plain_free(&steps[k].put);
        free(steps[k].msg);
    }
    cache_destroy(c);
    return 0;
}
