/* workload.c - see workload.h. */
#include "workload.h"

#include <math.h>
#include <string.h>

#include "dns/rrtype.h"
#include "dns/wire.h"

static const char *const mix_names[WORKLOAD_MIXES] = {
    [WORKLOAD_W] = "w",
    [WORKLOAD_W_REALISTIC] = "w-realistic",
    [WORKLOAD_NAMES] = "names",
    [WORKLOAD_ECS] = "ecs",
    [WORKLOAD_NEGATIVE] = "negative",
    [WORKLOAD_LARGE] = "large",
    [WORKLOAD_LONE_A] = "lone-a",
};

bool workload_mix_from_text(enum workload_mix *mix, const char *text)
{
    for (int k = 0; k < WORKLOAD_MIXES; k++) {
        if (strcmp(mix_names[k], text) == 0) {
            *mix = (enum workload_mix)k;
            return true;
        }
    }
    return false;
}

const char *workload_mix_to_text(enum workload_mix mix)
{
    return mix_names[mix];
}

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void random_seed(struct random *r, uint64_t seed)
{
    for (size_t k = 0; k < 4; k++)
        r->s[k] = splitmix(&seed);
}

static inline uint64_t rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t random_next(struct random *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* A Feistel network over the next power of four, walked until it lands inside. */
uint64_t workload_shuffle(uint64_t i, uint64_t n, uint64_t seed)
{
    unsigned half = 1;
    while (half < 32 && (UINT64_C(1) << (2 * half)) < n)
        half++;
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t x = right ^ seed ^ round << 56;
            uint64_t next = left ^ (splitmix(&x) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

/* Independent streams for the name and for the rdata of an entry. */
static void seed_for(struct random *r, const struct workload *w, uint64_t number,
                     uint64_t stream)
{
    random_seed(r, (number * 4 + stream) * UINT64_C(0x9e3779b97f4a7c15) ^ w->seed);
}

static uint8_t *put_letters(uint8_t *p, struct random *r, size_t n)
{
    /* Weighted about as in host names. */
    static const char letters[] = "eeeeeeeaaaaaaiiiiiooooontttttnnnnssssrrrrllllccc"
                                  "dddmmmuuuppphhggbbffyywwkkvvxzjq0123456789-";
    *p++ = (uint8_t)n;
    for (size_t k = 0; k < n; k++)
        *p++ = (uint8_t)letters[random_below(r, k > 0 && k + 1 < n ? sizeof letters - 1
                                                                   : sizeof letters - 2)];
    return p;
}

static uint8_t *put_uniform(uint8_t *p, struct random *r, size_t n)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    *p++ = (uint8_t)n;
    for (size_t k = 0; k < n; k++)
        *p++ = (uint8_t)alphabet[random_below(r, 36)];
    return p;
}

/* Two labels of about equal length, `len` octets with the root. */
static void uniform_name(struct workload_key *key, struct random *r, size_t len)
{
    size_t first = (len - 3) / 2 + random_below(r, 3) - 1;
    uint8_t *p = put_uniform(key->qname, r, first);
    p = put_uniform(p, r, len - 3 - first);
    *p++ = 0;
    key->qname_len = (uint8_t)(p - key->qname);
}

static const char *const hosts[] = {"\3www",  "\3api", "\3cdn", "\3img",
                                    "\4mail", "\1m",   "\3app"};
static const char *const suffixes[] = {"\3com", "\3com", "\3com", "\3net",
                                       "\3org", "\2io",  "\2de",  "\2co\2uk"};
enum { UNIQUE_LETTERS = 5, UNIQUE_BITS = 5 * UNIQUE_LETTERS };

/* Five letters that no other number has: words alone would repeat in millions of names. */
static void put_unique(uint8_t *p, uint64_t number)
{
    static const char letters[32] = "etaoinsrlcdmupghbfywkvxzjq012345";
    uint64_t code = workload_shuffle(number & ((1u << UNIQUE_BITS) - 1), 1u << UNIQUE_BITS, 0);
    for (size_t k = 0; k < UNIQUE_LETTERS; k++, code >>= 5)
        p[k] = (uint8_t)letters[code & 31];
}

/* A host, a domain and a public suffix: 20..26 octets. */
static void realistic_name(struct workload_key *key, struct random *r, uint64_t number)
{
    size_t len = 20 + random_below(r, 7);
    const char *suffix = suffixes[random_below(r, sizeof suffixes / sizeof *suffixes)];
    size_t suffix_len = strlen(suffix);
    const char *host = hosts[random_below(r, sizeof hosts / sizeof *hosts)];
    uint8_t *p = key->qname;
    if (number >> UNIQUE_BITS)
        host = "\4miss";
    if (random_below(r, 100) < 60 || number >> UNIQUE_BITS) {
        memcpy(p, host, strlen(host));
        p += strlen(host);
    } else {
        p = put_letters(p, r, 2 + random_below(r, 5));
    }
    uint8_t *domain = p;
    p = put_letters(p, r, len - 2 - suffix_len - (size_t)(p - key->qname));
    put_unique(domain + 1, number);
    memcpy(p, suffix, suffix_len);
    p += suffix_len;
    *p++ = 0;
    key->qname_len = (uint8_t)(p - key->qname);
}

static uint16_t w_type(struct random *r)
{
    uint32_t t = random_below(r, 100);
    return t < 56 ? RR_A : t < 81 ? RR_AAAA : RR_TXT;
}

enum { ECS_SUBNETS = 16, ECS_SUBNETS_V4 = 14 };

static void set_subnet(struct workload_key *key, struct random *r, uint64_t j)
{
    key->scoped = true;
    bool v4 = j < ECS_SUBNETS_V4;
    key->subnet.family = v4 ? ADDR_V4 : ADDR_V6;
    key->subnet.source = v4 ? 24 : 48;
    uint64_t bits = random_next(r) * 2 + 1;
    memcpy(key->subnet.ip, &bits, v4 ? 3 : 6);
    key->subnet.ip[0] = (uint8_t)(v4 ? 100 + j : 0x20);
    key->subnet.ip[1] = (uint8_t)(v4 ? key->subnet.ip[1] : j);
}

void workload_key(const struct workload *w, uint64_t i, struct workload_key *key)
{
    struct random r;
    memset(key, 0, sizeof *key);
    uint64_t number = w->mix == WORKLOAD_NAMES ? i / 3
                      : w->mix == WORKLOAD_ECS ? i / ECS_SUBNETS
                                               : i;
    seed_for(&r, w, number, 0);
    switch (w->mix) {
    case WORKLOAD_NAMES:
        realistic_name(key, &r, number);
        key->qtype = (uint16_t[]){RR_A, RR_AAAA, RR_HTTPS}[i % 3];
        break;
    case WORKLOAD_ECS:
        realistic_name(key, &r, number);
        key->qtype = RR_A;
        seed_for(&r, w, i, 1);
        set_subnet(key, &r, i % ECS_SUBNETS);
        break;
    case WORKLOAD_NEGATIVE:
        key->qtype = (uint16_t[]){RR_A, RR_AAAA, RR_A, RR_HTTPS}[i % 4];
        realistic_name(key, &r, number);
        break;
    case WORKLOAD_LARGE:
        key->qtype = RR_TXT;
        realistic_name(key, &r, number);
        break;
    case WORKLOAD_LONE_A:
        key->qtype = RR_A;
        uniform_name(key, &r, 20);
        break;
    default:
        key->qtype = w_type(&r);
        if (w->mix == WORKLOAD_W_REALISTIC)
            realistic_name(key, &r, number);
        else
            uniform_name(key, &r, 12 + random_below(&r, 13));
    }
}

/* ---- replies */

struct writer {
    uint8_t *start, *p;
    uint32_t ttl_s;
    size_t raw;
};

static void write_header(struct writer *x, const struct workload_key *key, uint16_t flags)
{
    memset(x->start, 0, DNS_HEADER_SIZE);
    dns_write16(x->start + 2, (uint16_t)(DNS_QR | DNS_RD | DNS_RA | flags));
    dns_write16(x->start + 4, 1);
    x->p = x->start + DNS_HEADER_SIZE;
    memcpy(x->p, key->qname, key->qname_len);
    x->p += key->qname_len;
    dns_write16(x->p, key->qtype);
    dns_write16(x->p + 2, DNS_CLASS_IN);
    x->p += 4;
    x->raw = key->qname_len;
}

/* A record whose owner is the name at `owner` in the message; the rdata follows at x->p. */
static void write_record(struct writer *x, size_t owner, uint16_t type, size_t rdata_len)
{
    dns_write16(x->p, (uint16_t)(0xc000 | owner));
    dns_write16(x->p + 2, type);
    dns_write16(x->p + 4, DNS_CLASS_IN);
    dns_write32(x->p + 6, x->ttl_s);
    dns_write16(x->p + 10, (uint16_t)rdata_len);
    x->p += 12;
}

static void write_random(struct writer *x, struct random *r, size_t n)
{
    for (size_t k = 0; k < n; k += 8) {
        uint64_t v = random_next(r);
        memcpy(x->p + k, &v, 8);
    }
    x->p += n;
    x->raw += n;
}

static void write_set(struct writer *x, struct random *r, uint16_t type, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        size_t n = type == RR_A ? 4 : type == RR_AAAA ? 16 : 64 + random_below(r, 161);
        write_record(x, DNS_HEADER_SIZE, type, n);
        write_random(x, r, n);
        if (type == RR_TXT)
            x->p[-(ptrdiff_t)n] = (uint8_t)(n - 1);
    }
    dns_write16(x->start + 6, (uint16_t)count);
}

/* Priority 1, target ".", ALPN, address hints (RFC 9460). */
static void write_https(struct writer *x, struct random *r)
{
    static const uint8_t alpn[] = {0, 1, 0, 0, 1, 0, 6, 2, 'h', '3', 2, 'h', '2'};
    bool full = random_below(r, 2);
    size_t n = sizeof alpn + (full ? 4 + 8 + 4 + 32 : 4 + 4);
    write_record(x, DNS_HEADER_SIZE, RR_HTTPS, n);
    memcpy(x->p, alpn, sizeof alpn);
    x->p += sizeof alpn;
    memcpy(x->p, full ? "\0\4\0\10" : "\0\4\0\4", 4);
    x->p += 4;
    write_random(x, r, full ? 8 : 4);
    if (full) {
        memcpy(x->p, "\0\6\0\40", 4);
        x->p += 4;
        write_random(x, r, 32);
    }
    x->raw = x->raw - (full ? 40 : 4) + n;
    dns_write16(x->start + 6, 1);
}

/* The zone is the qname without its first label; both names of the SOA lie below it. */
static void write_soa(struct writer *x, struct random *r, const struct workload_key *key)
{
    size_t zone = (size_t)DNS_HEADER_SIZE + 1 + key->qname[0];
    size_t zone_len = key->qname_len - 1u - key->qname[0];
    write_record(x, zone, RR_SOA, 6 + 13 + 20);
    memcpy(x->p, "\3ns1\xc0", 5);
    x->p[5] = (uint8_t)zone;
    memcpy(x->p + 6, "\12hostmaster\xc0", 12);
    x->p[18] = (uint8_t)zone;
    x->p += 19;
    dns_write32(x->p, random_below(r, 1u << 31));
    for (size_t k = 0; k < 4; k++)
        dns_write32(x->p + 4 + 4 * k, (uint32_t[]){7200, 3600, 1209600, 300}[k]);
    x->p += 20;
    x->raw += zone_len + 4 + zone_len + 11 + zone_len + 20;
    dns_write16(x->start + 8, 1);
}

static void write_large(struct writer *x, struct random *r)
{
    size_t want = (size_t)exp2(10 + 5 * random_unit(r)), count = 0;
    while (x->raw + 224 < want || count == 0) {
        size_t n = 64 + random_below(r, 161);
        write_record(x, DNS_HEADER_SIZE, RR_TXT, n);
        write_random(x, r, n);
        x->p[-(ptrdiff_t)n] = (uint8_t)(n - 1);
        count++;
    }
    dns_write16(x->start + 6, (uint16_t)count);
}

void workload_reply(const struct workload *w, uint64_t i, const struct workload_key *key,
                    uint8_t *out, struct workload_reply *reply)
{
    struct random r;
    seed_for(&r, w, i, 2);
    struct writer x = {.start = out, .ttl_s = w->ttl_s ? w->ttl_s : 300 + (uint32_t)(i & 1023)};
    bool nxdomain = w->mix == WORKLOAD_NEGATIVE && key->qtype == RR_A;
    write_header(&x, key, nxdomain ? DNS_RCODE_NXDOMAIN : DNS_RCODE_NOERROR);
    if (w->mix == WORKLOAD_NEGATIVE)
        write_soa(&x, &r, key);
    else if (w->mix == WORKLOAD_LARGE)
        write_large(&x, &r);
    else if (key->qtype == RR_HTTPS)
        write_https(&x, &r);
    else
        write_set(
            &x, &r, key->qtype,
            w->mix == WORKLOAD_ECS || w->mix == WORKLOAD_LONE_A ? 1 : 1 + random_below(&r, 4));
    reply->len = (size_t)(x.p - out);
    reply->raw = x.raw;
    reply->ttl_s = x.ttl_s;
    reply->scope = key->scoped ? key->subnet.source : 0;
}
