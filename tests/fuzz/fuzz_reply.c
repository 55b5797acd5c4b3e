/* fuzz_reply.c - replies: the walk sees what was checked, names come out as a plain expander
 * gives them, and what is built from the records, or cut, says the same. */
#include <string.h>

#include "dns/build.h"
#include "dns/edns.h"
#include "dns/message.h"
#include "dns/name.h"
#include "fuzz.h"

/* Reads a name octet by octet, as the RFC tells it; not by the code under test. Returns its
 * length, 0 when malformed. */
static size_t plain_expand(const uint8_t *msg, size_t len, size_t at, uint8_t *out, size_t *end)
{
    size_t n = 0, lowest = at, top = len, pointers = 0;
    bool jumped = false;
    while (at < top) {
        unsigned c = msg[at++];
        if (c >= 0xc0) {
            if (at >= top)
                return 0;
            size_t to = (c - 0xc0) * 256 + msg[at++];
            if (!jumped)
                *end = at;
            jumped = true;
            if (to >= lowest || to < 12 || ++pointers == 128)
                return 0;
            top = lowest;
            at = lowest = to;
            continue;
        }
        if (c >= 64 || n + 1 + c > 255 || (c > 0 && n + 1 + c > 254))
            return 0;
        out[n++] = (uint8_t)c;
        if (c == 0) {
            if (!jumped)
                *end = at;
            return n;
        }
        for (; c > 0; c--) {
            if (at >= top)
                return 0;
            out[n++] = msg[at++];
        }
    }
    return 0;
}

static void check_name_at(const uint8_t *msg, size_t len, size_t at)
{
    uint8_t want[DNS_NAME_MAX], got[DNS_NAME_MAX];
    size_t end = 0, pos = at, skip = at;
    size_t n = plain_expand(msg, len, at, want, &end);
    CHECK(name_expand(msg, len, &pos, got) == n);
    CHECK(name_skip(msg, len, &skip) == (n > 0));
    CHECK(pos == (n > 0 ? end : at) && skip == pos);
    CHECK(memcmp(got, want, n) == 0);
    if (n > 0)
        CHECK(name_wire_len(got, n) == n);
    size_t whole = name_wire_len(msg + at, len - at);
    CHECK(whole == 0 || (whole == n && end - at == n));
}

/* The walk goes from one record to the next without a gap, to the end. */
static void check_walk(const struct dns_reply *r)
{
    struct dns_walk w;
    struct dns_rr rr;
    unsigned count[DNS_SECTIONS] = {0};
    size_t pos = r->section[DNS_ANSWER];
    walk_start(&w, r);
    while (walk_next(&w, &rr)) {
        CHECK(rr.pos == pos && rr.fixed > rr.pos);
        CHECK(rr.rdata == rr.fixed + DNS_RR_FIXED && rr.end == rr.rdata + rr.rdlength);
        if (count[rr.section] == 0)
            CHECK(r->section[rr.section] == pos);
        CHECK((rr.type == RR_OPT) == (r->has_opt && rr.pos == r->opt_pos));
        count[rr.section]++;
        pos = rr.end;
    }
    CHECK(pos == r->len);
    for (size_t i = 0; i < DNS_SECTIONS; i++)
        CHECK(count[i] == r->count[i]);
}

/* Two records say the same, whatever their compression. */
static void check_same(const struct dns_reply *r, const struct dns_rr *x,
                       const struct dns_reply *s, const struct dns_rr *y)
{
    static uint8_t a[DNS_MESSAGE_MAX], b[DNS_MESSAGE_MAX];
    size_t x_pos = x->pos, y_pos = y->pos;
    size_t n = name_expand(r->msg, r->len, &x_pos, a);
    CHECK(n > 0 && name_expand(s->msg, s->len, &y_pos, b) == n && memcmp(a, b, n) == 0);
    CHECK(x->type == y->type && x->rclass == y->rclass && x->ttl == y->ttl);
    CHECK(x->section == y->section);
    n = rdata_expand(r, x, a, sizeof a);
    CHECK(n <= sizeof a && rdata_expand(s, y, b, sizeof b) == n && memcmp(a, b, n) == 0);
}

/* Takes the reply apart and builds it anew. Names that may not be compressed when sent can
 * make it outgrow a message: then the records so far have to be a sound reply. */
static void check_rebuild(const struct dns_reply *r)
{
    static uint8_t out[DNS_MESSAGE_MAX], rdata[DNS_MESSAGE_MAX];
    struct dns_builder b;
    struct dns_reply s;
    struct dns_walk w, v;
    struct dns_rr x, y;
    uint8_t owner[DNS_NAME_MAX];

    CHECK(build_start(&b, out, sizeof out, r->id, r->flags, r->qname, r->qname_len, r->qtype,
                      r->qclass));
    walk_start(&w, r);
    while (walk_next(&w, &x)) {
        size_t pos = x.pos, n = name_expand(r->msg, r->len, &pos, owner);
        size_t rdata_len = rdata_expand(r, &x, rdata, sizeof rdata);
        CHECK(rdata_len <= sizeof rdata);
        if (!build_rr(&b, x.section, owner, n, x.type, x.rclass, x.ttl, rdata, rdata_len))
            break;
    }
    size_t len = build_finish(&b);
    CHECK(reply_parse(&s, out, len));
    walk_start(&w, r);
    walk_start(&v, &s);
    while (walk_next(&v, &y)) {
        CHECK(walk_next(&w, &x));
        check_same(r, &x, &s, &y);
    }
    if (b.overflow)
        return;
    CHECK(!walk_next(&w, &x));
    CHECK(s.rcode == r->rcode && s.has_opt == r->has_opt && s.options_len == r->options_len);
    CHECK(reply_matches(&s, r->qname, r->qname_len, r->qtype, true) ==
          (r->qclass == DNS_CLASS_IN));
    CHECK(reply_answer_ttl(&s) == reply_answer_ttl(r));
}

static bool same_rrset(const struct dns_reply *r, const struct dns_rr *a,
                       const struct dns_rr *b)
{
    uint8_t x[DNS_NAME_MAX], y[DNS_NAME_MAX];
    size_t end;
    size_t n = plain_expand(r->msg, r->len, a->pos, x, &end);
    size_t m = plain_expand(r->msg, r->len, b->pos, y, &end);
    return a->section == b->section && a->type == b->type && a->rclass == b->rclass &&
           name_equal(x, n, y, m);
}

static void check_cut(const struct dns_reply *r, size_t limit)
{
    static uint8_t cut[DNS_MESSAGE_MAX];
    struct dns_reply s;
    memcpy(cut, r->msg, r->len);
    size_t len = message_truncate(cut, r->len, limit);
    CHECK(len <= limit);
    if (limit < r->section[DNS_ANSWER]) {
        CHECK(len == (limit < DNS_HEADER_SIZE ? 0 : DNS_HEADER_SIZE));
        return;
    }
    CHECK(reply_parse(&s, cut, len));
    CHECK(memcmp(cut + DNS_HEADER_SIZE, r->msg + DNS_HEADER_SIZE, len - DNS_HEADER_SIZE) == 0);

    /* the record behind the cut begins an RRset, which would not have fitted */
    struct dns_walk w;
    struct dns_rr last = {0}, next, end;
    walk_start(&w, r);
    bool more = walk_next(&w, &next);
    while (more && next.pos < len) {
        last = next;
        more = walk_next(&w, &next);
    }
    CHECK(more == (len < r->len));
    bool lost = s.count[DNS_ANSWER] < r->count[DNS_ANSWER] ||
                s.count[DNS_AUTHORITY] < r->count[DNS_AUTHORITY];
    CHECK((s.flags & DNS_TC) == ((r->flags & DNS_TC) | (lost ? DNS_TC : 0)));
    if (!more)
        return;
    CHECK(last.end == 0 || !same_rrset(r, &last, &next));
    end = next;
    while (walk_next(&w, &last) && same_rrset(r, &end, &last))
        end = last;
    CHECK(end.end > limit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size && at < 600; at++)
        check_name_at(data, size, at);

    struct dns_reply r;
    if (!reply_parse(&r, data, size))
        return 0;
    CHECK(r.len == size && r.qname_len > 0 && (r.flags & DNS_QR));
    check_walk(&r);
    check_rebuild(&r);
    uint32_t ttl;
    CHECK(!reply_negative_ttl(&r, &ttl) || ttl <= INT32_MAX);
    for (size_t limit = 0; limit <= size; limit += 1 + size / 64)
        check_cut(&r, limit);
    check_cut(&r, size - 1);
    return 0;
}
