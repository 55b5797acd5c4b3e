/* fuzz_build.c - the builder: the input is a script of records. Whatever it says, nothing is
 * written beyond the buffer, and what comes out is a sound reply with the records taken. */
#include <string.h>

#include "dns/build.h"
#include "dns/message.h"
#include "dns/name.h"
#include "dns/rrtype.h"
#include "fuzz.h"

enum { RECORDS = 256, RDATA_SIZE = 700 };

struct script {
    const uint8_t *p;
    size_t left;
};

struct record {
    uint8_t owner[DNS_NAME_MAX];
    size_t owner_len;
    uint8_t rdata[RDATA_SIZE];
    size_t rdata_len;
    uint32_t ttl;
    uint16_t type;
    enum dns_section section;
};

static uint8_t next(struct script *s)
{
    if (s->left == 0)
        return 0;
    s->left--;
    return *s->p++;
}

/* A name out of few labels, so that names share ends. */
static size_t script_name(struct script *s, uint8_t out[DNS_NAME_MAX])
{
    static const char *const words[] = {"com", "net", "example", "a", "A", "ns1", "Example"};
    size_t len = 0;
    for (unsigned labels = next(s) % 8; labels > 0; labels--) {
        uint8_t word = next(s);
        uint8_t label[64] = {word & 63};
        if (word % 8 < 7) {
            label[0] = (uint8_t)strlen(words[word % 8]);
            memcpy(label + 1, words[word % 8], label[0]);
        } else {
            memset(label + 1, word, label[0]);
        }
        if (len + 1 + label[0] + 1 > DNS_NAME_MAX)
            break;
        memcpy(out + len, label, 1u + label[0]);
        len += 1u + label[0];
    }
    out[len] = 0;
    return len + 1;
}

static void script_octets(struct script *s, struct record *r, size_t n)
{
    for (; n > 0 && r->rdata_len < RDATA_SIZE; n--)
        r->rdata[r->rdata_len++] = next(s);
}

/* Rdata as the type's layout wants it. */
static void script_rdata(struct script *s, struct record *r)
{
    const struct rrtype_layout *l = rrtype_layout(r->type);
    script_octets(s, r, l->prefix);
    for (unsigned i = 0; i < l->strings; i++) {
        uint8_t n = next(s) % 16;
        r->rdata[r->rdata_len++] = n;
        script_octets(s, r, n);
    }
    for (unsigned i = 0; i < l->names; i++)
        r->rdata_len += script_name(s, r->rdata + r->rdata_len);
    script_octets(s, r, l->tail_any ? next(s) : l->tail);
}

static void script_record(struct script *s, struct record *r, enum dns_section section)
{
    static const uint16_t types[] = {RR_A,     RR_NS,    RR_CNAME, RR_SOA,   RR_PTR,
                                     RR_MX,    RR_TXT,   RR_MINFO, RR_AAAA,  RR_SRV,
                                     RR_NAPTR, RR_RP,    RR_DNAME, RR_SIG,   RR_PX,
                                     RR_NXT,   RR_RRSIG, RR_DS,    RR_HTTPS, RR_HINFO};
    r->section = section;
    r->type = types[next(s) % (sizeof types / sizeof types[0])];
    r->ttl = (uint32_t)next(s) << 24 | next(s);
    r->owner_len = script_name(s, r->owner);
    r->rdata_len = 0;
    script_rdata(s, r);
}

static bool put(struct dns_builder *b, const struct record *r)
{
    return build_rr(b, r->section, r->owner, r->owner_len, r->type, DNS_CLASS_IN, r->ttl,
                    r->rdata, r->rdata_len);
}

/* The rdata shortened or with an octet changed: taken or not, the reply has to stay sound. */
static bool put_broken(struct dns_builder *b, struct script *s, struct record *r)
{
    if (r->rdata_len > 0 && next(s) % 2 == 0)
        r->rdata_len -= 1 + next(s) % r->rdata_len;
    else if (r->rdata_len > 0)
        r->rdata[next(s) % r->rdata_len] ^= next(s);
    if (next(s) % 4 == 0)
        r->owner[next(s) % r->owner_len] ^= next(s);
    return put(b, r);
}

static void check_records(const uint8_t *msg, size_t len, const struct record *want, size_t n)
{
    struct dns_reply r;
    struct dns_walk w;
    struct dns_rr rr;
    CHECK(reply_parse(&r, msg, len));
    walk_start(&w, &r);
    for (size_t i = 0; i < n; i++) {
        uint8_t owner[DNS_NAME_MAX], rdata[RDATA_SIZE];
        CHECK(walk_next(&w, &rr));
        size_t pos = rr.pos;
        CHECK(name_expand(msg, len, &pos, owner) == want[i].owner_len);
        CHECK(memcmp(owner, want[i].owner, want[i].owner_len) == 0);
        CHECK(rr.type == want[i].type && rr.ttl == want[i].ttl);
        CHECK(rr.rclass == DNS_CLASS_IN && rr.section == want[i].section);
        CHECK(rdata_expand(&r, &rr, rdata, sizeof rdata) == want[i].rdata_len);
        CHECK(memcmp(rdata, want[i].rdata, want[i].rdata_len) == 0);
        CHECK(rr.rdlength == want[i].rdata_len || rrtype_layout(rr.type)->compress);
    }
    CHECK(!walk_next(&w, &rr));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct record records[RECORDS];
    struct script s = {data, size};
    struct dns_builder b;
    uint8_t qname[DNS_NAME_MAX];
    size_t out_size = (size_t)next(&s) << 8 | next(&s);
    uint8_t *out = malloc(out_size > 0 ? out_size : 1);
    CHECK(out != NULL);

    size_t qname_len = script_name(&s, qname);
    bool started =
        build_start(&b, out, out_size, 1, DNS_QR, qname, qname_len, RR_A, DNS_CLASS_IN);
    CHECK(started == (out_size >= DNS_HEADER_SIZE + qname_len + 4));
    size_t n = 0;
    unsigned section = DNS_ANSWER;
    while (started && s.left > 0 && n < RECORDS) {
        uint8_t op = next(&s);
        if (op % 8 == 7 && section < DNS_ADDITIONAL)
            section++;
        script_record(&s, &records[n], (enum dns_section)section);
        size_t before = b.len;
        bool done = op / 8 % 8 == 7 ? put_broken(&b, &s, &records[n]) : put(&b, &records[n]);
        CHECK(b.len <= out_size);
        CHECK(done ? b.len > before : b.len == before && b.overflow);
        n += done;
    }
    if (started)
        check_records(out, build_finish(&b), records, n);
    free(out);
    return 0;
}
