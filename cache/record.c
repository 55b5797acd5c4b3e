/* record.c - reading records. Everything is checked, for snapshots come from a file. */
#include "cache/record.h"

#include <string.h>

#include "cache/ecs.h"
#include "cache/large.h"
#include "dns/name.h"
#include "dns/rrtype.h"

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

uint32_t cache_record_life_code(uint32_t life_s)
{
    if (life_s >= RECORD_LIFE_MAX)
        return 1023;
    if (life_s < 64)
        return life_s;
    unsigned shift = (unsigned)(31 - __builtin_clz(life_s)) - 6;
    uint32_t mantissa = (life_s + ((1u << shift) - 1)) >> shift; /* 64..128 */
    if (mantissa == 128)
        mantissa = 64, shift++;
    return (shift + 1) << 6 | (mantissa & 63);
}

/* Takes n octets; NULL when they are not there. */
static inline const uint8_t *take(const uint8_t **p, const uint8_t *end, size_t n)
{
    const uint8_t *at = *p;
    if ((size_t)(end - at) < n)
        return NULL;
    *p += n;
    return at;
}

static bool take16(const uint8_t **p, const uint8_t *end, uint16_t *out)
{
    const uint8_t *at = take(p, end, 2);
    if (at != NULL)
        *out = load16(at);
    return at != NULL;
}

static bool extension_read(struct cache_record *r, const uint8_t **p, const uint8_t *end)
{
    const uint8_t *what = take(p, end, 1);
    if (what == NULL || (*what & ~EXT_ALL))
        return false;
    r->what = *what;
    if ((r->what & EXT_RCODE) && (!take16(p, end, &r->rcode) || r->rcode > 0xfff))
        return false;
    if ((r->what & EXT_EDE) && !take16(p, end, &r->ede))
        return false;
    if (r->what & EXT_TEXT) {
        const uint8_t *len = take(p, end, 1);
        if (len == NULL || *len > RECORD_TEXT_MAX)
            return false;
        r->text_len = *len;
        r->text = take(p, end, *len);
        if (r->text == NULL)
            return false;
    }
    return !(r->what & EXT_EPOCH) || take16(p, end, &r->epoch);
}

bool cache_record_read_more(struct cache_record *r, const uint8_t *end)
{
    const uint8_t *p = r->body;
    if (r->type == RECORD_TYPE_LONG) {
        if (!take16(&p, end, &r->type) || (r->type != 0 && r->type < RECORD_TYPE_LONG) ||
            r->form == FORM_SUBNETS)
            return false;
    } else if ((r->type == RECORD_TYPE_SUBNETS) != (r->form == FORM_SUBNETS)) {
        return false;
    }
    if ((r->flags & RECORD_EXT) && !extension_read(r, &p, end))
        return false;
    r->body = p;
    return true;
}

static bool varint(const uint8_t **p, const uint8_t *end, uint32_t *out)
{
    uint32_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        const uint8_t *at = take(p, end, 1);
        if (at == NULL)
            return false;
        v |= (uint32_t)(*at & 0x7f) << shift;
        if (*at < 0x80) {
            *out = v;
            return true;
        }
    }
    return false;
}

bool cache_walk_start(struct cache_walk *w, const struct cache_record *r, const uint8_t *end)
{
    w->pos = r->body;
    w->end = end;
    w->qtype = r->type;
    w->form = r->form;
    w->bad = false;
    w->section = DNS_ANSWER;
    memset(w->left, 0, sizeof w->left);
    w->before = (struct cache_rr){.owner = OWNER_QNAME, .type = r->type};
    if (r->form == FORM_NODATA || r->form == FORM_NXDOMAIN) {
        w->left[DNS_AUTHORITY] = r->count;
    } else if (r->form != FORM_GENERAL) {
        w->left[DNS_ANSWER] = r->count;
    } else {
        for (unsigned i = 0; i < DNS_SECTIONS; i++) {
            if (!varint(&w->pos, end, &w->left[i]) || w->left[i] > UINT16_MAX)
                return false;
        }
    }
    return true;
}

/* Rdata of a type that does not tell its length: an octet, or 255 and two. */
static bool rdata_sized(struct cache_walk *w, struct cache_rr *rr)
{
    const uint8_t *len = take(&w->pos, w->end, 1);
    uint16_t n;
    if (len == NULL)
        return false;
    n = *len;
    if (n == 255 && !take16(&w->pos, w->end, &n))
        return false;
    rr->rdata_len = n;
    rr->rdata = take(&w->pos, w->end, n);
    return rr->rdata != NULL;
}

static bool rdata_name(struct cache_walk *w, struct cache_rr *rr)
{
    rr->rdata_len = name_wire_len(w->pos, (size_t)(w->end - w->pos));
    rr->rdata = take(&w->pos, w->end, rr->rdata_len);
    return rr->rdata_len > 0;
}

static inline bool rdata_read(struct cache_walk *w, struct cache_rr *rr)
{
    if (rr->type == RR_A || rr->type == RR_AAAA) {
        rr->rdata_len = rr->type == RR_A ? 4 : 16;
        rr->rdata = take(&w->pos, w->end, rr->rdata_len);
        return rr->rdata != NULL;
    }
    if (w->form == FORM_STRINGS) {
        if (w->pos >= w->end)
            return false;
        rr->rdata_len = 1 + (size_t)*w->pos;
        rr->rdata = take(&w->pos, w->end, rr->rdata_len);
        return rr->rdata != NULL;
    }
    if (rr->type == RR_CNAME && w->form != FORM_UNIFORM)
        return rdata_name(w, rr);
    return rdata_sized(w, rr);
}

static bool owner_read(struct cache_walk *w, struct cache_rr *rr, unsigned kind)
{
    const uint8_t *at;
    rr->owner = (enum cache_owner)kind;
    switch (kind) {
    case OWNER_QNAME:
        return true;
    case OWNER_SAME: /* resolved to what the owner before was, its rdata left aside */
        *rr = (struct cache_rr){.owner = w->before.owner,
                                .skip = w->before.skip,
                                .name = w->before.name,
                                .name_len = w->before.name_len,
                                .section = rr->section};
        return true;
    case OWNER_TARGET: /* the name stays where it is: in the rdata before */
        rr->owner = OWNER_NAME;
        rr->name = w->before.rdata;
        rr->name_len = w->before.rdata_len;
        return w->before.type == RR_CNAME && w->before.rdata_len > 0;
    case OWNER_SUFFIX:
        at = take(&w->pos, w->end, 1);
        if (at == NULL || *at == 0 || *at > DNS_NAME_MAX / 2)
            return false;
        rr->skip = *at;
        return true;
    case OWNER_NAME:
        rr->name_len = name_wire_len(w->pos, (size_t)(w->end - w->pos));
        rr->name = take(&w->pos, w->end, rr->name_len);
        return rr->name_len > 0;
    default:
        return false;
    }
}

static bool type_read(struct cache_walk *w, struct cache_rr *rr, unsigned kind)
{
    static const uint16_t known[] = {
        [TYPE_CNAME] = RR_CNAME, [TYPE_SOA] = RR_SOA, [TYPE_NS] = RR_NS,
        [TYPE_RRSIG] = RR_RRSIG, [TYPE_DS] = RR_DS,
    };
    if (kind == TYPE_OTHER)
        return take16(&w->pos, w->end, &rr->type) && !rrtype_is_meta(rr->type);
    rr->type = kind == TYPE_SAME ? w->before.type : kind == TYPE_QTYPE ? w->qtype : known[kind];
    return true;
}

static bool ttl_read(struct cache_walk *w, struct cache_rr *rr, unsigned kind)
{
    uint32_t v;
    if (kind == TTL_LIFE)
        rr->ttl_diff = 0;
    else if (kind == TTL_SAME)
        rr->ttl_diff = w->before.ttl_diff;
    else if (kind == TTL_DIFF && varint(&w->pos, w->end, &v))
        rr->ttl_diff = (int32_t)(v >> 1 ^ (0 - (v & 1)));
    else
        return false;
    return true;
}

bool cache_walk_next(struct cache_walk *w, struct cache_rr *rr)
{
    while (w->left[w->section] == 0) {
        if (w->section == DNS_ADDITIONAL)
            return false;
        w->section++;
    }
    w->left[w->section]--;
    *rr = (struct cache_rr){.owner = OWNER_QNAME, .type = w->qtype, .section = w->section};
    if (w->form == FORM_UNIFORM || w->form == FORM_STRINGS) {
        w->bad = !rdata_read(w, rr);
        return !w->bad;
    }
    const uint8_t *head = take(&w->pos, w->end, 1);
    w->bad = head == NULL || !owner_read(w, rr, *head & 7) ||
             !type_read(w, rr, *head >> 3 & 7) || !ttl_read(w, rr, *head >> 6) ||
             !rdata_read(w, rr);
    w->before = *rr;
    return !w->bad;
}

size_t cache_record_size(const struct cache_record *r, size_t left)
{
    const uint8_t *end = r->start + left;
    size_t head = (size_t)(r->body - r->start);
    struct cache_walk w;
    struct cache_rr rr;

    switch (r->form) {
    case FORM_LARGE:
        return left - head >= LARGE_STUB ? head + LARGE_STUB : 0;
    case FORM_SUBNETS: {
        size_t n = cache_ecs_head_len(r->count);
        return left - head >= n ? head + n : 0;
    }
    case FORM_UNIFORM:
        if (r->type == RR_A || r->type == RR_AAAA) {
            size_t n = r->count * (size_t)(r->type == RR_A ? 4 : 16);
            return left - head >= n ? head + n : 0;
        }
        break;
    default:
        break;
    }
    if (!cache_walk_start(&w, r, end))
        return 0;
    while (cache_walk_next(&w, &rr))
        ;
    return w.bad ? 0 : (size_t)(w.pos - r->start);
}

const uint8_t *cache_record_seek(const uint8_t *p, size_t left, struct cache_sought s)
{
    for (;;) {
        struct cache_record r;
        if (left < RECORD_HEAD)
            return NULL;
        if (p[1] == s.code && (p[0] & s.mask) == s.flags &&
            (s.code != RECORD_TYPE_LONG ||
             (left >= RECORD_HEAD + 2 && load16(p + RECORD_HEAD) == s.type)))
            return p;
        if (!(p[0] & RECORD_MORE))
            return NULL;
        size_t n = cache_record_read(&r, p, left) ? cache_record_size(&r, left) : 0;
        if (n == 0)
            return NULL;
        p += n;
        left -= n;
    }
}
