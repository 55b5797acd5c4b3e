/* answer.h - from a record to an answer.
 *
 * Addresses and strings, which most answers are, are written by what stands here, so that it
 * becomes a part of cache_get(); all else by answer.c. */
#ifndef PITH_CACHE_ANSWER_H
#define PITH_CACHE_ANSWER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/octets.h"
#include "cache/record.h"
#include "dns/rrtype.h"

/* Writes the answer to the key's question from a record that is whole: r was read from it, the
 * record ends at end or before, and OCTETS_LOT octets can be read behind that. left_s is what
 * cache_record_left() says: above 0 the RRs' TTLs are what is left of them, else stale_ttl_s.
 * Returns the message's length, 0 when it does not fit; what is in out behind it may be changed
 * as well. Sets *max_age_s as struct cache_answer has it. */
static inline size_t cache_answer_write(uint8_t *out, size_t size, const struct cache_key *key,
                                        const struct cache_record *r, const uint8_t *end,
                                        int32_t left_s, uint32_t stale_ttl_s,
                                        uint32_t *max_age_s);

/* The same for addresses and strings alone, with this TTL: 0 for all else. */
static inline size_t cache_answer_simple(uint8_t *out, size_t size, const struct cache_key *key,
                                         const struct cache_record *r, const uint8_t *end,
                                         uint32_t ttl);

/* The same for any form, and nothing behind the message is touched. */
size_t cache_answer_list(uint8_t *out, size_t size, const struct cache_key *key,
                         const struct cache_record *r, const uint8_t *end, int32_t left_s,
                         uint32_t stale_ttl_s, uint32_t *max_age_s);

/* ---- inside */

/* What may be written behind the end of an answer, and read behind that of a record, so that
 * there are no branches on how many RRs there are: that is as random as the name, and would be
 * guessed wrong. */
enum {
    ANSWER_AT_ONCE = 4,
    ANSWER_RR = 2 + DNS_RR_FIXED, /* up to the rdata, with a pointer as its owner */
    ANSWER_AHEAD = ANSWER_AT_ONCE * (ANSWER_RR + 16),
};
_Static_assert(ANSWER_AT_ONCE * 16 <= OCTETS_LOT && 32 <= OCTETS_LOT, "as much can be read");

/* Copies a name. Those of usual length without a branch on it. */
static inline void answer_name(uint8_t *to, const uint8_t *name, size_t len)
{
    size_t last = len - 8;
    if (__builtin_expect(last > 32 - 8, 0)) {
        memcpy(to, name, len);
        return;
    }
    size_t second = last < 8 ? last : 8, third = last < 16 ? last : 16;
    memcpy(to, name, 8);
    memcpy(to + second, name + second, 8);
    memcpy(to + third, name + third, 8);
    memcpy(to + last, name + last, 8);
}

/* Header and question; returns behind them. */
static inline uint8_t *answer_start(uint8_t *out, const struct cache_key *key,
                                    const struct cache_record *r)
{
    uint8_t *p = out + DNS_HEADER_SIZE;
    dns_write64(out, (uint64_t)(DNS_QR | DNS_RA | (r->rcode & DNS_RCODE)) << 32 |
                         (uint64_t)1 << 16 | r->count);
    dns_write32(out + 8, 0);
    answer_name(p, key->qname, key->qname_len);
    p += key->qname_len;
    dns_write32(p, (uint32_t)key->qtype << 16 | DNS_CLASS_IN);
    return p + 4;
}

/* An RR owned by the question, up to the rdata. */
static inline void answer_rr(uint8_t *p, uint16_t type, uint32_t ttl, size_t rdlength)
{
    const uint64_t start = (uint64_t)(0xc000 | DNS_HEADER_SIZE) << 48 | (uint64_t)DNS_CLASS_IN
                                                                            << 16;
    dns_write64(p, start | (uint64_t)type << 32 | ttl >> 16);
    dns_write32(p + 8, ttl << 16 | (uint16_t)rdlength);
}

__attribute__((always_inline)) static inline void
answer_address(uint8_t *p, const uint8_t *rdata, uint16_t type, uint32_t ttl, size_t size)
{
    answer_rr(p, type, ttl, size);
    memcpy(p + ANSWER_RR, rdata, size);
}

/* A and AAAA: rdata of one size each. */
__attribute__((always_inline)) static inline uint8_t *
answer_addresses(uint8_t *p, const struct cache_record *r, uint32_t ttl, size_t size)
{
    const size_t each = ANSWER_RR + size;
    const uint8_t *rdata = r->body;
    unsigned left = r->count;
    for (;;
         left -= ANSWER_AT_ONCE, p += ANSWER_AT_ONCE * each, rdata += ANSWER_AT_ONCE * size) {
        answer_address(p, rdata, r->type, ttl, size);
        answer_address(p + each, rdata + size, r->type, ttl, size);
        answer_address(p + 2 * each, rdata + 2 * size, r->type, ttl, size);
        answer_address(p + 3 * each, rdata + 3 * size, r->type, ttl, size);
        if (__builtin_expect(left <= ANSWER_AT_ONCE, 1))
            return p + left * each;
    }
}

/* Each rdata is one character-string. */
static inline uint8_t *answer_strings(uint8_t *p, const struct cache_record *r, uint32_t ttl)
{
    const uint8_t *s = r->body;
    for (unsigned i = 0; i < r->count; i++) {
        size_t n = 1 + (size_t)*s;
        answer_rr(p, r->type, ttl, n);
        p += ANSWER_RR;
        for (size_t at = 0; at < n; at += 32)
            memcpy(p + at, s + at, 32);
        p += n;
        s += n;
    }
    return p;
}

static inline size_t cache_answer_simple(uint8_t *out, size_t size, const struct cache_key *key,
                                         const struct cache_record *r, const uint8_t *end,
                                         uint32_t ttl)
{
    size_t most = DNS_HEADER_SIZE + key->qname_len + 4 + r->count * (size_t)(ANSWER_RR + 16) +
                  (size_t)(end - r->body) + ANSWER_AHEAD;
    unsigned is_a = r->type == RR_A, is_aaaa = r->type == RR_AAAA;
    unsigned is_simple =
        ((r->form == FORM_UNIFORM) & (is_a | is_aaaa)) | (r->form == FORM_STRINGS);
    if (__builtin_expect(!(is_simple & (size >= most)), 0))
        return 0;
    uint8_t *p = answer_start(out, key, r);
    p = is_a      ? answer_addresses(p, r, ttl, 4)
        : is_aaaa ? answer_addresses(p, r, ttl, 16)
                  : answer_strings(p, r, ttl);
    return (size_t)(p - out);
}

static inline size_t cache_answer_write(uint8_t *out, size_t size, const struct cache_key *key,
                                        const struct cache_record *r, const uint8_t *end,
                                        int32_t left_s, uint32_t stale_ttl_s,
                                        uint32_t *max_age_s)
{
    uint32_t ttl = left_s > 0 ? (uint32_t)left_s : stale_ttl_s;
    size_t len = cache_answer_simple(out, size, key, r, end, ttl);
    *max_age_s = ttl;
    if (__builtin_expect(len > 0, 1))
        return len;
    const struct cache_record copy = *r; /* so that r can be in registers */
    return cache_answer_list(out, size, key, &copy, end, left_s, stale_ttl_s, max_age_s);
}

#endif
