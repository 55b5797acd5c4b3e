/* plain.c - see plain.h. */
#include "plain.h"

#include <stdlib.h>
#include <string.h>

struct cursor {
    const uint8_t *msg;
    size_t len, pos;
};

static bool take(struct cursor *c, size_t n, unsigned long *value)
{
    if (n > c->len - c->pos)
        return false;
    *value = 0;
    while (n-- > 0)
        *value = *value << 8 | c->msg[c->pos++];
    return true;
}

static size_t take16(struct cursor *c, bool *ok)
{
    unsigned long v = 0;
    *ok = *ok && take(c, 2, &v);
    return v;
}

/* Follows at most 128 pointers, anywhere before the name. 0 when malformed. */
static size_t take_name(struct cursor *c, uint8_t *out)
{
    size_t pos = c->pos, n = 0;
    bool jumped = false;
    for (int pointers = 0; pointers < 128;) {
        if (pos >= c->len)
            return 0;
        size_t label = c->msg[pos];
        if (label >= 0xc0) {
            if (pos + 1 >= c->len)
                return 0;
            size_t target = (label & 0x3f) << 8 | c->msg[pos + 1];
            if (!jumped)
                c->pos = pos + 2;
            jumped = true;
            if (target >= pos)
                return 0;
            pos = target;
            pointers++;
            continue;
        }
        if (label > 63 || label + 1 > c->len - pos || n + label + 1 > 255)
            return 0;
        memcpy(out + n, c->msg + pos, label + 1);
        n += label + 1;
        pos += label + 1;
        if (label == 0) {
            if (!jumped)
                c->pos = pos;
            return n;
        }
    }
    return 0;
}

/* "2nn4": 2 octets, two names, 4 octets; s: a character-string; *: whatever is left. */
static const char *layout(unsigned type)
{
    switch (type) {
    case 2:
    case 3:
    case 4:
    case 5:
    case 7:
    case 8:
    case 9:
    case 12:
    case 39:
        return "n"; /* NS MD MF CNAME MB MG MR PTR DNAME */
    case 6:
        return "nn44444"; /* SOA */
    case 14:
    case 17:
        return "nn"; /* MINFO RP */
    case 15:
    case 18:
    case 21:
        return "2n"; /* MX AFSDB RT */
    case 26:
        return "2nn"; /* PX */
    case 33:
        return "222n"; /* SRV */
    case 35:
        return "22sssn"; /* NAPTR */
    case 24:
        return "2114442n*"; /* SIG */
    case 30:
        return "n*"; /* NXT */
    default:
        return "*";
    }
}

/* out has room for the rdata and two names more. */
static bool take_rdata(struct cursor *c, size_t end, struct plain_rr *rr, uint8_t *out)
{
    uint8_t *p = out;
    bool ok = true;
    for (const char *f = layout(rr->type); *f != 0 && ok; f++) {
        size_t n;
        if (*f == 'n') {
            uint8_t name[255];
            n = take_name(c, name);
            ok = n > 0 && c->pos <= end;
            if (ok)
                memcpy(p, name, n);
        } else {
            n = *f == '*'   ? end - c->pos
                : *f == 's' ? (c->pos < end ? 1u + c->msg[c->pos] : 1u)
                            : (size_t)(*f - '0');
            ok = n <= end - c->pos;
            if (ok) {
                memcpy(p, c->msg + c->pos, n);
                c->pos += n;
            }
        }
        p += ok ? n : 0;
    }
    rr->rdata_len = (size_t)(p - out);
    rr->rdata = out;
    return ok && c->pos == end;
}

static bool take_rr(struct cursor *c, struct plain_rr *rr, uint8_t *out)
{
    rr->owner_len = take_name(c, rr->owner);
    if (rr->owner_len == 0)
        return false;
    bool ok = true;
    rr->type = (uint16_t)take16(c, &ok);
    rr->rclass = (uint16_t)take16(c, &ok);
    unsigned long ttl = 0;
    ok = ok && take(c, 4, &ttl);
    rr->ttl = (uint32_t)ttl;
    size_t rdlength = take16(c, &ok);
    return ok && rdlength <= c->len - c->pos && take_rdata(c, c->pos + rdlength, rr, out);
}

bool plain_parse(struct plain_message *m, const uint8_t *msg, size_t len)
{
    memset(m, 0, sizeof *m);
    struct cursor c = {.msg = msg, .len = len};
    bool ok = true;
    m->id = (uint16_t)take16(&c, &ok);
    m->flags = (uint16_t)take16(&c, &ok);
    size_t questions = take16(&c, &ok), count[3];
    for (int s = 0; s < 3; s++)
        count[s] = take16(&c, &ok);
    if (!ok || questions != 1 || (m->qname_len = take_name(&c, m->qname)) == 0)
        return false;
    m->qtype = (uint16_t)take16(&c, &ok);
    m->qclass = (uint16_t)take16(&c, &ok);
    /* A record has 11 octets at least: counts beyond that are lies. */
    if (!ok || count[0] + count[1] + count[2] > (len - c.pos) / 11)
        return false;
    size_t records = count[0] + count[1] + count[2];
    m->rr = calloc(records + 1, sizeof *m->rr);
    uint8_t *next = m->bytes = malloc(len + records * 2 * 255);
    if (m->rr == NULL || m->bytes == NULL)
        abort();
    for (int s = 0; s < 3 && ok; s++) {
        for (size_t k = 0; k < count[s] && ok; k++) {
            struct plain_rr *rr = &m->rr[m->n];
            ok = take_rr(&c, rr, next);
            rr->section = s;
            next += rr->rdata_len;
            m->n += rr->type != 41; /* not OPT */
        }
    }
    if (!ok || c.pos != len) {
        plain_free(m);
        return false;
    }
    return true;
}

void plain_free(struct plain_message *m)
{
    free(m->bytes);
    free(m->rr);
    m->bytes = NULL;
    m->rr = NULL;
    m->n = 0;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

bool plain_name_equal(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t k = 0; k < a_len; k++) {
        if (lower(a[k]) != lower(b[k]))
            return false;
    }
    return true;
}

static const char *rr_difference(const struct plain_message *put, const struct plain_rr *a,
                                 const struct plain_rr *b, int64_t ttls)
{
    if (a->section != b->section)
        return "section";
    if (a->type != b->type || a->rclass != b->rclass)
        return "type or class";
    bool own = plain_name_equal(a->owner, a->owner_len, put->qname, put->qname_len);
    if (a->owner_len != b->owner_len ||
        (own ? !plain_name_equal(a->owner, a->owner_len, b->owner, b->owner_len)
             : memcmp(a->owner, b->owner, a->owner_len) != 0))
        return "owner";
    if (a->rdata_len != b->rdata_len || memcmp(a->rdata, b->rdata, a->rdata_len) != 0)
        return "rdata";
    int64_t want = ttls < 0 ? -ttls - 1 : (int64_t)a->ttl - ttls;
    if (ttls >= 0 && want < 1) /* 0 put as 0 may come back as it is */
        return b->ttl == 1 || (a->ttl == 0 && b->ttl == 0) ? NULL : "TTL at its end";
    return b->ttl == want ? NULL : "TTL";
}

const char *plain_difference(const struct plain_message *put, const struct plain_message *got,
                             int64_t ttls)
{
    if (!plain_name_equal(put->qname, put->qname_len, got->qname, got->qname_len) ||
        put->qtype != got->qtype || put->qclass != got->qclass)
        return "question";
    if ((put->flags & 0xf) != (got->flags & 0xf))
        return "RCODE";
    if (put->n != got->n)
        return "number of records";
    for (size_t k = 0; k < put->n; k++) {
        const char *what = rr_difference(put, &put->rr[k], &got->rr[k], ttls);
        if (what != NULL)
            return what;
    }
    return NULL;
}
