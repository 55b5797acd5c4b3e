/* encode.c - from a reply to a record: the form is chosen and whatever is implied left out. */
#include "cache/encode.h"

#include <string.h>

#include "cache/record.h"
#include "dns/build.h"
#include "dns/name.h"
#include "dns/rrtype.h"

/* Bounded output; `full` sticks. */
struct writer {
    uint8_t *pos, *end;
    bool full;
};

static inline uint8_t *claim(struct writer *w, size_t n)
{
    uint8_t *at = w->pos;
    if ((size_t)(w->end - at) < n) {
        w->full = true;
        return NULL;
    }
    w->pos += n;
    return at;
}

static inline void put(struct writer *w, const void *data, size_t n)
{
    uint8_t *at = claim(w, n);
    if (at != NULL && n > 0)
        memcpy(at, data, n);
}

static inline void put8(struct writer *w, unsigned v)
{
    uint8_t *at = claim(w, 1);
    if (at != NULL)
        *at = (uint8_t)v;
}

static inline void put16(struct writer *w, unsigned v)
{
    uint16_t v16 = (uint16_t)v;
    put(w, &v16, sizeof v16);
}

static void put_varint(struct writer *w, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        put8(w, (v & 0x7f) | 0x80);
    put8(w, v);
}

/* Whether an rdata shows where it ends; else its length stands before it. */
static inline bool length_implied(uint16_t type)
{
    return type == RR_A || type == RR_AAAA;
}

static void put_length(struct writer *w, size_t n)
{
    put8(w, n < 255 ? (unsigned)n : 255);
    if (n >= 255)
        put16(w, (unsigned)n);
}

/* The rdata with its names expanded, and its length before it unless told otherwise. */
static void put_rdata(struct writer *w, const struct dns_reply *r, const struct dns_rr *rr,
                      bool length)
{
    if (rrtype_layout(rr->type)->names == 0) {
        if (length)
            put_length(w, rr->rdlength);
        put(w, r->msg + rr->rdata, rr->rdlength);
        return;
    }
    /* names: at most 2 (SOA, MINFO, RP, PX) and their fixed parts grow by little, so an rdata
     * in a record of the message's size at most is enough for all that may grow */
    size_t room = (size_t)(w->end - w->pos);
    uint8_t *at = w->pos, *data = at + (length ? 3 : 0);
    if (room < 3) {
        w->full = true;
        return;
    }
    size_t n = rdata_expand(r, rr, data, room - 3);
    if (n == SIZE_MAX || n > UINT16_MAX) {
        w->full = true;
        return;
    }
    if (length) {
        put_length(w, n);
        memmove(w->pos, data, n);
    }
    w->pos += n;
}

static inline uint32_t ttl_of(const struct dns_rr *rr)
{
    return rr->ttl > INT32_MAX ? INT32_MAX : rr->ttl; /* RFC 8767 4: huge */
}

/* Head of a record and its extension. */
static void put_head(struct writer *w, const struct dns_reply *reply,
                     const struct cache_put_options *o, uint8_t flags, unsigned form,
                     unsigned count, unsigned what, uint16_t epoch)
{
    uint16_t type = reply->qtype;
    bool is_long = type == 0 || type >= RECORD_TYPE_LONG;
    uint32_t word = cache_record_word(o->now_s, o->life_s);
    uint8_t *at = claim(w, RECORD_HEAD);
    if (at == NULL)
        return;
    at[0] = (uint8_t)(flags | (o->authentic ? RECORD_AD : 0) |
                      (o->failure ? RECORD_FAILURE : 0) | (what != 0 ? RECORD_EXT : 0));
    at[1] = is_long ? RECORD_TYPE_LONG : (uint8_t)type;
    memcpy(at + 2, &word, sizeof word);
    at[6] = (uint8_t)(form << 5 | count);
    if (is_long)
        put16(w, type);
    if (what == 0)
        return;
    put8(w, what);
    if (what & EXT_RCODE)
        put16(w, reply->rcode);
    if (what & EXT_EDE)
        put16(w, o->ede);
    if (what & EXT_TEXT) {
        size_t n = strnlen(o->ede_text, RECORD_TEXT_MAX);
        put8(w, (unsigned)n);
        put(w, o->ede_text, n);
    }
    if (what & EXT_EPOCH)
        put16(w, epoch);
}

static unsigned extension(const struct dns_reply *reply, const struct cache_put_options *o,
                          unsigned form, bool v6)
{
    unsigned what = 0;
    if (reply->rcode != (form == FORM_NXDOMAIN ? DNS_RCODE_NXDOMAIN : DNS_RCODE_NOERROR))
        what |= EXT_RCODE;
    if (o->ede != DNS_EDE_NONE)
        what |= EXT_EDE | (o->ede_text != NULL && o->ede_text[0] != 0 ? EXT_TEXT : 0u);
    if (o->failure)
        what |= EXT_EPOCH;
    return what | (v6 ? EXT_V6 : 0u);
}

static inline bool owner_is_qname(const struct dns_reply *r, const struct dns_rr *rr)
{
    const uint8_t *p = r->msg + rr->pos;
    if (p[0] == 0xc0 && p[1] == DNS_HEADER_SIZE)
        return true;
    uint8_t name[DNS_NAME_MAX];
    size_t pos = rr->pos, n = name_expand(r->msg, r->len, &pos, name);
    return n == r->qname_len && memcmp(name, r->qname, n) == 0;
}

/* UNIFORM or STRINGS, when every RR is as the form wants it; else FORM_GENERAL. */
static unsigned uniform_form(const struct dns_reply *r, const struct cache_put_options *o)
{
    unsigned n = r->count[DNS_ANSWER];
    bool strings = r->qtype == RR_TXT;
    struct dns_walk walk;
    struct dns_rr rr;

    if (n == 0 || n > RECORD_COUNT_MAX || r->count[DNS_AUTHORITY] != 0 ||
        r->count[DNS_ADDITIONAL] != (r->has_opt ? 1 : 0))
        return FORM_GENERAL;
    walk_start(&walk, r);
    while (n-- > 0 && walk_next(&walk, &rr)) {
        if (rr.type != r->qtype || ttl_of(&rr) != o->life_s || !owner_is_qname(r, &rr))
            return FORM_GENERAL;
        strings = strings && rr.rdlength > 0 && 1 + (unsigned)r->msg[rr.rdata] == rr.rdlength;
    }
    return strings ? FORM_STRINGS : FORM_UNIFORM;
}

static void put_uniform(struct writer *w, const struct dns_reply *r, unsigned form)
{
    bool length = form == FORM_UNIFORM && !length_implied(r->qtype);
    struct dns_walk walk;
    struct dns_rr rr;

    walk_start(&walk, r);
    for (unsigned n = r->count[DNS_ANSWER]; n > 0 && walk_next(&walk, &rr); n--)
        put_rdata(w, r, &rr, length);
}

/* What the RR before was like. */
struct before {
    uint8_t owner[DNS_NAME_MAX], target[DNS_NAME_MAX];
    size_t owner_len, target_len; /* 0: none */
    uint16_t type;
    int32_t ttl_diff;
};

static bool name_is(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

static bool is_lower(const uint8_t *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] >= 'A' && name[i] <= 'Z')
            return false;
    }
    return true;
}

/* Labels to take off the qname to get the name; 0 when it is no proper suffix, or has capitals
 * (the qname will be written as it is asked then). The root is written faster as a name. */
static unsigned suffix_labels(const struct dns_reply *r, const uint8_t *name, size_t len)
{
    unsigned labels = 0;
    const uint8_t *q = r->qname;
    size_t left = r->qname_len;
    while (left > len) {
        left -= 1 + (size_t)q[0];
        q += 1 + (size_t)q[0];
        labels++;
    }
    return len > 1 && name_is(q, left, name, len) && is_lower(name, len) ? labels : 0;
}

static unsigned owner_kind(const struct dns_reply *r, const struct before *b,
                           const uint8_t *owner, size_t len, unsigned *labels)
{
    if (name_is(owner, len, r->qname, r->qname_len))
        return OWNER_QNAME;
    if (name_is(owner, len, b->owner, b->owner_len))
        return OWNER_SAME;
    if (name_is(owner, len, b->target, b->target_len))
        return OWNER_TARGET;
    *labels = suffix_labels(r, owner, len);
    return *labels > 0 ? OWNER_SUFFIX : OWNER_NAME;
}

static unsigned type_kind(const struct dns_reply *r, const struct before *b, uint16_t type)
{
    if (type == b->type)
        return TYPE_SAME;
    if (type == r->qtype)
        return TYPE_QTYPE;
    switch (type) {
    case RR_CNAME:
        return TYPE_CNAME;
    case RR_SOA:
        return TYPE_SOA;
    case RR_NS:
        return TYPE_NS;
    case RR_RRSIG:
        return TYPE_RRSIG;
    case RR_DS:
        return TYPE_DS;
    default:
        return TYPE_OTHER;
    }
}

/* One RR of a list. */
static void put_rr(struct writer *w, const struct dns_reply *r, const struct dns_rr *rr,
                   struct before *b, uint32_t life_s)
{
    uint8_t owner[DNS_NAME_MAX];
    size_t pos = rr->pos, owner_len = name_expand(r->msg, r->len, &pos, owner);
    unsigned labels = 0, okind = owner_kind(r, b, owner, owner_len, &labels);
    unsigned tkind = type_kind(r, b, rr->type);
    int32_t diff = (int32_t)((int64_t)ttl_of(rr) - life_s);
    unsigned ttl = diff == 0 ? TTL_LIFE : diff == b->ttl_diff ? TTL_SAME : TTL_DIFF;

    put8(w, ttl << 6 | tkind << 3 | okind);
    if (okind == OWNER_SUFFIX)
        put8(w, labels);
    else if (okind == OWNER_NAME)
        put(w, owner, owner_len);
    if (tkind == TYPE_OTHER)
        put16(w, rr->type);
    if (ttl == TTL_DIFF)
        put_varint(w, (uint32_t)diff << 1 ^ (uint32_t)(diff >> 31));
    const uint8_t *rdata = w->pos;
    put_rdata(w, r, rr, !length_implied(rr->type) && rr->type != RR_CNAME);

    memcpy(b->owner, owner, owner_len);
    b->owner_len = owner_len;
    b->type = rr->type;
    b->ttl_diff = diff;
    b->target_len = 0;
    if (rr->type == RR_CNAME && !w->full) {
        b->target_len = (size_t)(w->pos - rdata);
        memcpy(b->target, rdata, b->target_len);
    }
}

static void put_list(struct writer *w, const struct dns_reply *r, uint32_t life_s)
{
    struct before b = {.type = r->qtype};
    struct dns_walk walk;
    struct dns_rr rr;

    walk_start(&walk, r);
    while (!w->full && walk_next(&walk, &rr)) {
        if (rr.type != RR_OPT)
            put_rr(w, r, &rr, &b, life_s);
    }
}

/* The form of a list and, when its head holds that, its count. */
static unsigned list_form(const struct dns_reply *r, unsigned *count)
{
    unsigned an = r->count[DNS_ANSWER], ns = r->count[DNS_AUTHORITY];
    if (r->count[DNS_ADDITIONAL] == (r->has_opt ? 1 : 0)) {
        if (an == 0 && ns <= RECORD_COUNT_MAX) {
            *count = ns;
            return r->rcode == DNS_RCODE_NXDOMAIN ? FORM_NXDOMAIN : FORM_NODATA;
        }
        if (ns == 0 && an <= RECORD_COUNT_MAX) {
            *count = an;
            return FORM_LIST;
        }
    }
    *count = 0;
    return FORM_GENERAL;
}

/* Most replies: all RRs owned by the question, by a pointer to it, of its type and with the TTL
 * that is the life. One pass over such; false, with w to be begun anew, at the first that is
 * otherwise. */
static bool put_plain(struct writer *w, const struct dns_reply *r, uint32_t life_s)
{
    const bool addresses = length_implied(r->qtype);
    const uint8_t *p = r->msg + r->section[DNS_ANSWER];
    uint8_t head[10] = {0xc0, DNS_HEADER_SIZE};
    dns_write16(head + 2, r->qtype);
    dns_write16(head + 4, DNS_CLASS_IN);
    dns_write32(head + 6, life_s);
    for (unsigned n = r->count[DNS_ANSWER]; n > 0; n--) {
        if ((size_t)(r->msg + r->len - p) < sizeof head + 2 ||
            memcmp(p, head, sizeof head) != 0)
            return false;
        size_t rdlength = dns_read16(p + sizeof head);
        p += sizeof head + 2;
        /* reply_parse() has seen to it that the rdata is there, and of the right length for its
         * type; a TXT that is one string shows its length itself */
        if (!addresses && (rdlength == 0 || 1 + (size_t)p[0] != rdlength))
            return false;
        put(w, p, rdlength);
        p += rdlength;
    }
    return true;
}

/* Whether put_plain() is to be tried, and for what form. */
static bool is_plain(const struct dns_reply *r, unsigned *form)
{
    *form = r->qtype == RR_TXT ? FORM_STRINGS : FORM_UNIFORM;
    return (length_implied(r->qtype) || r->qtype == RR_TXT) && r->count[DNS_ANSWER] > 0 &&
           r->count[DNS_ANSWER] <= RECORD_COUNT_MAX && r->count[DNS_AUTHORITY] == 0 &&
           r->count[DNS_ADDITIONAL] == (r->has_opt ? 1 : 0);
}

size_t cache_encode(uint8_t *out, size_t size, const struct dns_reply *reply,
                    const struct cache_put_options *options, uint8_t flags, bool v6,
                    uint16_t epoch)
{
    struct writer w = {.pos = out, .end = out + size};
    unsigned form, count = reply->count[DNS_ANSWER];

    if (is_plain(reply, &form)) {
        put_head(&w, reply, options, flags, form, count, extension(reply, options, form, v6),
                 epoch);
        if (put_plain(&w, reply, options->life_s))
            return w.full ? 0 : (size_t)(w.pos - out);
        w = (struct writer){.pos = out, .end = out + size};
    }
    form = uniform_form(reply, options);
    bool is_list = form == FORM_GENERAL;
    if (is_list)
        form = list_form(reply, &count);
    put_head(&w, reply, options, flags, form, count, extension(reply, options, form, v6),
             epoch);
    if (form == FORM_GENERAL) {
        put_varint(&w, reply->count[DNS_ANSWER]);
        put_varint(&w, reply->count[DNS_AUTHORITY]);
        put_varint(&w, (uint32_t)(reply->count[DNS_ADDITIONAL] - reply->has_opt));
    }
    if (is_list)
        put_list(&w, reply, options->life_s);
    else
        put_uniform(&w, reply, form);
    return w.full ? 0 : (size_t)(w.pos - out);
}
