/* test_build.c - writing, expanding and cutting messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dns/build.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "messages.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* "example.com" stands at 12, "com" at 20; the question ends at 29. */
#define NAME "076578616d706c6503636f6d00"
#define HEADER "00078180" /* ID 7, QR RD RA */
#define QUESTION NAME "00010001"
#define IN                                                                                     \
    "0001"                                                                                     \
    "00000e10" /* class and TTL 3600 */

static bool start(struct dns_builder *b, uint8_t *out, size_t size)
{
    uint8_t qname[DNS_NAME_MAX];
    size_t n = name_from_text(qname, "example.com");
    return build_start(b, out, size, 7, 0x8180, qname, n, RR_A, DNS_CLASS_IN);
}

/* Adds a record whose owner is text (NULL: the qname) and whose rdata is hex. */
static bool add(struct dns_builder *b, enum dns_section section, const char *owner,
                uint16_t type, const char *rdata_hex)
{
    uint8_t name[DNS_NAME_MAX], rdata[512];
    size_t n = owner != NULL ? name_from_text(name, owner) : 0;
    return build_rr(b, section, owner != NULL ? name : NULL, n, type, DNS_CLASS_IN, 3600, rdata,
                    hex_decode(rdata, rdata_hex));
}

static void expect_hex(const uint8_t *msg, size_t len, const char *hex)
{
    uint8_t want[1024];
    size_t n = hex_decode(want, hex);
    assert_int_equal(len, n);
    assert_memory_equal(msg, want, n);
}

static void question_only(void **state)
{
    (void)state;
    uint8_t out[29];
    struct dns_builder b;
    for (size_t size = 0; size < sizeof out; size++) {
        assert_false(start(&b, out, size));
        assert_true(b.overflow);
        assert_int_equal(build_finish(&b), 0);
    }
    assert_true(start(&b, out, sizeof out));
    expect_hex(out, build_finish(&b), HEADER "0001000000000000" QUESTION);

    /* the qname is written as given, never compressed, whatever it repeats */
    uint8_t big[64], qname[DNS_NAME_MAX];
    size_t n = name_from_text(qname, "Com.com.com");
    assert_true(build_start(&b, big, sizeof big, 1, 0, qname, n, 1, 1));
    assert_int_equal(build_finish(&b), 12 + 13 + 4);
    assert_memory_equal(big + 12, qname, n);
    static const uint8_t bad[][5] = {
        {0xc0, 12}, {3, 'a', 'b', 'c', 1}, {1, 'a', 0, 0, 0}, {64}};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(build_start(&b, big, sizeof big, 1, 0, bad[i], 5, 1, 1));
    assert_false(build_start(&b, big, sizeof big, 1, 0, bad[0], 0, 1, 1));
}

/* One record a row: what it looks like in the message. */
static void compression_table(void **state)
{
    (void)state;
    static const struct {
        const char *owner;
        uint16_t type;
        const char *rdata, *want;
    } rows[] = {
        {NULL, RR_A, "c0000201", "c00c0001" IN "0004c0000201"},
        {"example.com", RR_A, "c0000201", "c00c0001" IN "0004c0000201"},
        {"com", RR_A, "c0000201", "c0140001" IN "0004c0000201"},
        {".", RR_A, "c0000201", "000001" IN "0004c0000201"},
        {"a.example.com", RR_A, "c0000201", "0161c00c0001" IN "0004c0000201"},
        {"net", RR_A, "c0000201", "036e6574000001" IN "0004c0000201"},
        /* exact octets: another case is another name */
        {"Example.com", RR_A, "c0000201", "074578616d706c65c0140001" IN "0004c0000201"},
        {"example.Com", RR_A, "c0000201", "076578616d706c6503436f6d000001" IN "0004c0000201"},
        /* RFC 1035 types */
        {NULL, RR_NS, "016e" NAME, "c00c0002" IN "0004016ec00c"},
        {NULL, RR_MD, NAME, "c00c0003" IN "0002c00c"},
        {NULL, RR_MF, NAME, "c00c0004" IN "0002c00c"},
        {NULL, RR_CNAME, NAME, "c00c0005" IN "0002c00c"},
        {NULL, RR_CNAME, "00", "c00c0005" IN "000100"},
        {NULL, RR_MB, NAME, "c00c0007" IN "0002c00c"},
        {NULL, RR_MG, NAME, "c00c0008" IN "0002c00c"},
        {NULL, RR_MR, NAME, "c00c0009" IN "0002c00c"},
        {NULL, RR_PTR, NAME, "c00c000c" IN "0002c00c"},
        {NULL, RR_MINFO, NAME NAME, "c00c000e" IN "0004c00cc00c"},
        {NULL, RR_MX, "000a" NAME, "c00c000f" IN "0004000ac00c"},
        /* the second name points to the first, at 29 + 12 */
        {NULL, RR_SOA, "016e00016e000000000100000002000000030000000400000005",
         "c00c0006" IN "0019"
         "016e00c0290000000100000002000000030000000400000005"},
        {NULL, RR_SOA,
         "016e00"
         "0161016e00"
         "0000000100000002000000030000000400000005",
         "c00c0006" IN "001b"
         "016e00"
         "0161c029"
         "0000000100000002000000030000000400000005"},
        /* names of other types stay whole (RFC 3597 4) */
        {NULL, RR_RP, NAME NAME, "c00c0011" IN "001a" NAME NAME},
        {NULL, RR_AFSDB, "0001" NAME, "c00c0012" IN "000f0001" NAME},
        {NULL, RR_RT, "0001" NAME, "c00c0015" IN "000f0001" NAME},
        {NULL, RR_SIG, "000105020000012c0000000000000000abcd" NAME "ffff",
         "c00c0018" IN "0021"
         "000105020000012c0000000000000000abcd" NAME "ffff"},
        {NULL, RR_PX, "0001" NAME NAME, "c00c001a" IN "001c0001" NAME NAME},
        {NULL, RR_NXT, NAME "4001", "c00c001e" IN "000f" NAME "4001"},
        {NULL, RR_SRV, "0000000001bb" NAME, "c00c0021" IN "00130000000001bb" NAME},
        {NULL, RR_NAPTR, "000a001401750000" NAME, "c00c0023" IN "0015000a001401750000" NAME},
        {NULL, RR_DNAME, NAME, "c00c0027" IN "000d" NAME},
        /* opaque */
        {NULL, RR_TXT, "", "c00c0010" IN "0000"},
        {NULL, RR_HTTPS, "0001" NAME, "c00c0041" IN "000f0001" NAME},
        {NULL, RR_RRSIG, NAME, "c00c002e" IN "000d" NAME},
        {NULL, 65280, NAME, "c00cff00" IN "000d" NAME},
        /* not what the type's layout says */
        {NULL, RR_A, "c00002", NULL},
        {NULL, RR_A, "c000020100", NULL},
        {NULL, RR_AAAA, "c0000201", NULL},
        {NULL, RR_CNAME, "", NULL},
        {NULL, RR_CNAME, "c00c", NULL},
        {NULL, RR_CNAME, "0361", NULL},
        {NULL, RR_CNAME, "0000", NULL},
        {NULL, RR_MX, "00", NULL},
        {NULL, RR_MX, "000a", NULL},
        {NULL, RR_MINFO, "00", NULL},
        {NULL, RR_SOA,
         "0000"
         "00000001000000020000000300000004000000",
         NULL},
        {NULL, RR_SOA,
         "0000"
         "000000010000000200000003000000040000000500",
         NULL},
        {NULL, RR_NAPTR, "000a0014ff7500", NULL},
        {NULL, RR_NAPTR, "000a0014", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t out[512];
        struct dns_builder b;
        assert_true(start(&b, out, sizeof out));
        bool done = add(&b, DNS_ANSWER, rows[i].owner, rows[i].type, rows[i].rdata);
        if (done != (rows[i].want != NULL))
            fail_msg("row %zu", i);
        size_t len = build_finish(&b);
        assert_int_equal(b.overflow, !done);
        assert_int_equal(out[7], done);
        if (done)
            expect_hex(out + 29, len - 29, rows[i].want);
        else
            assert_int_equal(len, 29);
    }
}

/* Later records point to names of earlier ones, to whole ones that were not compressed too. */
static void targets_chain(void **state)
{
    (void)state;
    uint8_t out[512];
    struct dns_builder b;
    struct dns_reply r;
    assert_true(start(&b, out, sizeof out));
    assert_true(add(&b, DNS_ANSWER, NULL, RR_CNAME, "0162036e657400")); /* b.net at 41 */
    assert_true(add(&b, DNS_ANSWER, "b.net", RR_SRV, "0000000000000173036e657400"));
    assert_true(add(&b, DNS_AUTHORITY, "net", RR_NS, "0173036e657400"));
    assert_true(add(&b, DNS_ADDITIONAL, "s.net", RR_A, "c0000201"));
    size_t len = build_finish(&b);
    expect_hex(out, len,
               HEADER "0001000200010001" QUESTION "c00c0005" IN "00070162036e657400" /* 29 */
                      "c0290021" IN "000d0000000000000173036e657400" /* 48, s.net at 66 */
                      "c02b0002" IN "0002c042"
                      "c0420001" IN "0004c0000201");
    assert_true(reply_parse(&r, out, len));
}

/* In every size that is too small something is refused, and nothing of it stays. */
static void overflow_anywhere(void **state)
{
    (void)state;
    static const struct {
        enum dns_section section;
        const char *owner;
        uint16_t type;
        const char *rdata;
    } rows[] = {
        {DNS_ANSWER, NULL, RR_CNAME, "0162036e657400"},
        {DNS_ANSWER, "b.net", RR_MX, "000a016d036e657400"},
        {DNS_AUTHORITY, "org", RR_SOA,
         "036f72670001"
         "61036f7267000000000100000002000000030000000400000005"},
        {DNS_ADDITIONAL, "m.net", RR_A, "c0000201"},
        {DNS_ADDITIONAL, "a.org", RR_A, "c0000202"},
    };
    uint8_t whole[512];
    struct dns_builder b;
    assert_true(start(&b, whole, sizeof whole));
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_true(add(&b, rows[i].section, rows[i].owner, rows[i].type, rows[i].rdata));
    size_t full = build_finish(&b);

    for (size_t size = 29; size < full; size++) {
        uint8_t *out = malloc(size);
        struct dns_reply r;
        unsigned refused = 0;
        assert_non_null(out);
        assert_true(start(&b, out, size));
        for (size_t i = 0; i < COUNT(rows); i++) {
            size_t len = b.len;
            uint8_t targets = b.n_targets;
            if (add(&b, rows[i].section, rows[i].owner, rows[i].type, rows[i].rdata))
                continue;
            refused++;
            assert_int_equal(b.len, len);
            assert_int_equal(b.n_targets, targets);
            assert_true(b.overflow);
        }
        assert_true(refused > 0);
        size_t len = build_finish(&b);
        assert_true(reply_parse(&r, out, len));
        assert_int_equal(r.count[0] + r.count[1] + r.count[2], COUNT(rows) - refused);
        free(out);
    }
}

/* A pointer has 14 bits: what stands at 0x4000 or behind is written but not pointed to. */
static void pointer_range(void **state)
{
    (void)state;
    static uint8_t out[0x4100], filler[0x4000];
    static const uint8_t owner[] = {3, 'o', 'r', 'g', 0};
    for (size_t at = 0x3ff0; at < 0x4010; at++) {
        struct dns_builder b;
        struct dns_reply r;
        assert_true(start(&b, out, sizeof out));
        assert_true(build_rr(&b, DNS_ANSWER, NULL, 0, RR_NULL, 1, 0, filler, at - 29 - 12));
        assert_int_equal(b.len, at);
        assert_true(build_rr(&b, DNS_ANSWER, owner, 5, RR_TXT, 1, 0, NULL, 0));
        size_t before = b.len;
        assert_true(build_rr(&b, DNS_ANSWER, owner, 5, RR_TXT, 1, 0, NULL, 0));
        assert_int_equal(b.len - before, at < 0x4000 ? 12 : 15);
        assert_true(reply_parse(&r, out, build_finish(&b)));
    }
}

static void message_limit(void **state)
{
    (void)state;
    static uint8_t out[2 * 65536], filler[65536];
    struct dns_builder b;
    assert_true(start(&b, out, sizeof out));
    assert_false(build_rr(&b, DNS_ANSWER, NULL, 0, RR_NULL, 1, 0, filler, 65536));
    assert_false(build_rr(&b, DNS_ANSWER, NULL, 0, RR_NULL, 1, 0, filler, 65535 - 29 - 12 + 1));
    assert_true(build_rr(&b, DNS_ANSWER, NULL, 0, RR_NULL, 1, 0, filler, 65535 - 29 - 12));
    assert_int_equal(build_finish(&b), 65535);
    assert_false(build_rr(&b, DNS_ANSWER, NULL, 0, RR_NULL, 1, 0, NULL, 0));
}

/* More names than are remembered, and names of more labels than are remembered. */
static void many_names(void **state)
{
    (void)state;
    static uint8_t out[65535];
    uint8_t owner[] = {2, 0, 0, 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 3, 'c', 'o', 'm', 0};
    struct dns_builder b;
    struct dns_reply r;
    struct dns_walk w;
    struct dns_rr rr;
    assert_true(start(&b, out, sizeof out));
    for (unsigned i = 0; i < 1000; i++) {
        dns_write16(owner + 1, (uint16_t)i);
        assert_true(
            build_rr(&b, DNS_ANSWER, owner, sizeof owner, RR_CNAME, 1, 0, owner, sizeof owner));
        assert_int_equal(b.n_targets <= BUILD_NAMES, 1);
    }
    size_t len = build_finish(&b);
    assert_true(len < 29 + 1000 * (5 + 10 + 5) + 1);
    assert_true(reply_parse(&r, out, len));
    walk_start(&w, &r);
    for (unsigned i = 0; i < 1000; i++) {
        uint8_t rdata[64];
        assert_true(walk_next(&w, &rr));
        dns_write16(owner + 1, (uint16_t)i);
        assert_int_equal(rdata_expand(&r, &rr, rdata, sizeof rdata), sizeof owner);
        assert_memory_equal(rdata, owner, sizeof owner);
    }

    uint8_t deep[DNS_NAME_MAX];
    for (size_t i = 0; i < 254; i += 2)
        memcpy(deep + i, "\1x", 2);
    deep[254] = 0;
    assert_true(build_start(&b, out, sizeof out, 0, DNS_QR, deep, 255, 1, 1));
    assert_true(build_rr(&b, DNS_ANSWER, deep, 255, RR_CNAME, 1, 0, deep, 255));
    assert_true(build_rr(&b, DNS_ANSWER, deep + 2, 253, RR_CNAME, 1, 0, deep, 255));
    assert_true(reply_parse(&r, out, build_finish(&b)));
    deep[254] = 1; /* no root within 255 octets */
    assert_false(build_rr(&b, DNS_ANSWER, deep, 255, RR_TXT, 1, 0, NULL, 0));
}

/* Takes a reply apart and puts it together again; both must say the same. */
static void rebuild(const uint8_t *msg, size_t len)
{
    uint8_t out[1024], a[1024], b_data[1024];
    struct dns_reply r, s;
    struct dns_walk w, v;
    struct dns_rr x, y;
    struct dns_builder b;
    assert_true(reply_parse(&r, msg, len));
    assert_true(build_start(&b, out, sizeof out, r.id, r.flags, r.qname, r.qname_len, r.qtype,
                            r.qclass));
    walk_start(&w, &r);
    while (walk_next(&w, &x)) {
        uint8_t owner[DNS_NAME_MAX];
        size_t pos = x.pos, n = name_expand(msg, len, &pos, owner);
        size_t rdata = rdata_expand(&r, &x, a, sizeof a);
        assert_true(build_rr(&b, x.section, owner, n, x.type, x.rclass, x.ttl, a, rdata));
    }
    size_t built = build_finish(&b);
    assert_true(reply_parse(&s, out, built));
    assert_memory_equal(out, msg, DNS_HEADER_SIZE);
    walk_start(&w, &r);
    walk_start(&v, &s);
    while (walk_next(&w, &x)) {
        assert_true(walk_next(&v, &y));
        assert_int_equal(x.type, y.type);
        assert_int_equal(x.rclass, y.rclass);
        assert_int_equal(x.ttl, y.ttl);
        assert_int_equal(x.section, y.section);
        size_t n = rdata_expand(&r, &x, a, sizeof a);
        assert_int_equal(rdata_expand(&s, &y, b_data, sizeof b_data), n);
        assert_memory_equal(a, b_data, n);
    }
    assert_false(walk_next(&v, &y));
}

static void rebuild_messages(void **state)
{
    (void)state;
    static const char *ids[] = {"R01", "R02", "R03", "R04", "R05", "R09",
                                "R10", "R11", "R12", "R14", "R15"};
    for (size_t i = 0; i < COUNT(ids); i++) {
        uint8_t msg[512];
        rebuild(msg, message_get(msg, ids[i]));
    }
}

static void expand_table(void **state)
{
    (void)state;
    static const struct {
        const char *type, *rdlength, *rdata, *want;
    } rows[] = {
        {"0001", "0004", "c0000201", "c0000201"},
        {"0010", "0000", "", ""},
        {"0005", "0002", "c00c", NAME},
        {"000f", "0006", "000a016dc014", "000a016d03636f6d00"},
        {"0006", "001a", "016ec00cc0290000000100000002000000030000000400000005",
         "016e" NAME "016e" NAME "0000000100000002000000030000000400000005"},
        {"0021", "0008", "0000000001bbc014", "0000000001bb03636f6d00"},
        {"0023", "000a", "000a001401750000c00c", "000a001401750000" NAME},
        {"0018", "0016", "000105020000012c0000000000000000abcdc00cffff",
         "000105020000012c0000000000000000abcd" NAME "ffff"},
        {"001e", "0004", "c00c4001", NAME "4001"},
        {"0027", "0002", "c00c", NAME},
        {"002e", "0002", "c00c", "c00c"},
        {"0041", "0004", "0001c00c", "0001c00c"},
        {"ff00", "0004", "c00c0102", "c00c0102"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512], want[512];
        size_t len = hex_decode(msg, HEADER "0001000100000000" QUESTION "c00c");
        len += hex_decode(msg + len, rows[i].type);
        len += hex_decode(msg + len, IN);
        len += hex_decode(msg + len, rows[i].rdlength);
        len += hex_decode(msg + len, rows[i].rdata);
        struct dns_reply r;
        struct dns_walk w;
        struct dns_rr rr;
        assert_true(reply_parse(&r, msg, len));
        walk_start(&w, &r);
        assert_true(walk_next(&w, &rr));
        size_t n = hex_decode(want, rows[i].want);
        for (size_t size = 0; size <= n; size++) {
            uint8_t *out = malloc(size > 0 ? size : 1);
            assert_non_null(out);
            assert_int_equal(rdata_expand(&r, &rr, out, size), size < n ? SIZE_MAX : n);
            if (size == n)
                assert_memory_equal(out, want, n);
            free(out);
        }
        rebuild(msg, len);
    }
}

static void error_table(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        uint16_t rcode;
        const char *want;
    } rows[] = {
        {"D01", DNS_RCODE_SERVFAIL, "000181820001000000000000" QUESTION},
        {"D33", DNS_RCODE_REFUSED, "002180850001000000000000" QUESTION}, /* RD as asked */
        {"D32", DNS_RCODE_NOERROR, "002081800001000000000000" QUESTION}, /* AD is not */
        {"D10", DNS_RCODE_NOTIMP, "000a91840001000000000000" QUESTION},
        {"D16", DNS_RCODE_FORMERR, "001081810000000000000000"},
        {"D09", DNS_RCODE_FORMERR, "000981810001000000000000" QUESTION},
        {"D02", DNS_RCODE_SERVFAIL,
         "000281820001000000000001" QUESTION "00002904d0000000000000"},
        {"D03", DNS_RCODE_BADVERS,
         "000381800001000000000001" QUESTION "00002904d0010000000000"},
        {"D04", DNS_RCODE_FORMERR,
         "000481810001000000000001" QUESTION "00002904d0000000000000"},
        {"D34", DNS_RCODE_BADCOOKIE,
         "002281870001000000000001"
         "0000020001"
         "00002904d0010080000000"}, /* DO copied */
        {"D01", DNS_RCODE_BADVERS, "000181820001000000000000" QUESTION},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512], out[512];
        struct dns_query q;
        size_t opt = 99, want = strlen(rows[i].want) / 2;
        query_parse(&q, msg, message_get(msg, rows[i].id));
        for (size_t size = 0; size < want; size++)
            assert_int_equal(build_error(out, size, &q, rows[i].rcode, NULL), 0);
        size_t len = build_error(out, want, &q, rows[i].rcode, &opt);
        expect_hex(out, len, rows[i].want);
        assert_int_equal(opt, q.has_opt ? want - DNS_OPT_FIXED : 0);
        /* in place of the query */
        len = build_error(msg, sizeof msg, &q, rows[i].rcode, &opt);
        expect_hex(msg, len, rows[i].want);
    }
    /* CD is copied, other EDNS flags than DO are not */
    uint8_t msg[512], out[512];
    struct dns_query q;
    query_parse(&q, msg, message_get(msg, "D02"));
    q.flags |= DNS_CD | DNS_AD | DNS_Z | DNS_TC;
    q.ext_flags = 0xffff;
    size_t opt, len = build_error(out, sizeof out, &q, 0, &opt);
    assert_int_equal(dns_read16(out + 2), DNS_QR | DNS_RD | DNS_RA | DNS_CD);
    assert_int_equal(len, opt + DNS_OPT_FIXED);
    assert_int_equal(dns_read16(out + opt + 7), 0x8000);
}

/* Answer: 2 A, then CNAME; authority: 1 NS; additional: 2 A of one owner, 1 of another. */
static size_t truncatable(uint8_t *out, size_t size)
{
    struct dns_builder b;
    assert_true(start(&b, out, size));
    assert_true(add(&b, DNS_ANSWER, NULL, RR_A, "c0000201"));          /* 29..45 */
    assert_true(add(&b, DNS_ANSWER, "example.com", RR_A, "c0000202")); /* ..61 */
    assert_true(add(&b, DNS_ANSWER, NULL, RR_TXT, "0161"));            /* ..75 */
    assert_true(add(&b, DNS_AUTHORITY, NULL, RR_NS, "016e00"));        /* ..90 */
    assert_true(add(&b, DNS_ADDITIONAL, "n", RR_A, "c0000203"));       /* ..106 */
    assert_true(add(&b, DNS_ADDITIONAL, "N", RR_A, "c0000204"));       /* ..123, same owner */
    assert_true(add(&b, DNS_ADDITIONAL, "m", RR_A, "c0000205"));       /* ..140 */
    return build_finish(&b);
}

static void truncate_table(void **state)
{
    (void)state;
    static const struct {
        size_t from; /* limits from here to the next row's */
        size_t len;
        uint16_t count[DNS_SECTIONS];
        bool tc;
    } rows[] = {
        {29, 29, {0, 0, 0}, true},  {61, 61, {2, 0, 0}, true},    {75, 75, {3, 0, 0}, true},
        {90, 90, {3, 1, 0}, false}, {123, 123, {3, 1, 2}, false}, {140, 140, {3, 1, 3}, false},
        {150, 0, {0}, false},
    };
    for (size_t i = 0; i + 1 < COUNT(rows); i++) {
        for (size_t limit = rows[i].from; limit < rows[i + 1].from; limit++) {
            uint8_t msg[256];
            struct dns_reply r;
            size_t len = message_truncate(msg, truncatable(msg, sizeof msg), limit);
            assert_int_equal(len, rows[i].len);
            assert_true(reply_parse(&r, msg, len));
            assert_memory_equal(r.count, rows[i].count, sizeof r.count);
            assert_int_equal((r.flags & DNS_TC) != 0, rows[i].tc);
        }
    }
}

/* Not even the question fits; or there are no records to go by. */
static void truncate_to_nothing(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 29; limit++) {
        uint8_t msg[256];
        size_t len = message_truncate(msg, truncatable(msg, sizeof msg), limit);
        assert_int_equal(len, limit < 12 ? 0 : 12);
        if (len > 0)
            expect_hex(msg, len, "000783800000000000000000");
    }
    uint8_t msg[256];
    size_t len = truncatable(msg, sizeof msg);
    msg[30] = 0xff; /* an owner that points out of the message */
    assert_int_equal(message_truncate(msg, len, 100), 29);
    expect_hex(msg, 29, "000783800001000000000000" QUESTION);
    msg[2] &= (uint8_t)~2u;
    assert_int_equal(message_truncate(msg, 29, 29), 29); /* it fits: left as it is */
    assert_int_equal(msg[2] & 2, 0);
    assert_int_equal(message_truncate(msg, 5, 4), 0);
}

/* Same type, other owner; same owner, other type: boundaries. TC that was set stays. */
static void truncate_boundaries(void **state)
{
    (void)state;
    uint8_t msg[256];
    struct dns_builder b;
    assert_true(start(&b, msg, sizeof msg));
    assert_true(add(&b, DNS_ANSWER, NULL, RR_A, "c0000201"));      /* ..45 */
    assert_true(add(&b, DNS_ANSWER, NULL, RR_RRSIG, "00010502"));  /* ..61 */
    assert_true(add(&b, DNS_ANSWER, "com", RR_RRSIG, "00010502")); /* ..77 */
    assert_true(add(&b, DNS_ADDITIONAL, "com", RR_RRSIG, "00010502"));
    size_t len = build_finish(&b);
    msg[2] |= DNS_TC >> 8;
    assert_int_equal(message_truncate(msg, len, len - 1), 77);
    assert_int_equal(msg[2] & 2, 2);
    assert_int_equal(message_truncate(msg, 77, 76), 61);
    assert_int_equal(message_truncate(msg, 61, 60), 45);
    assert_int_equal(message_truncate(msg, 45, 44), 29);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(question_only),       cmocka_unit_test(compression_table),
        cmocka_unit_test(targets_chain),       cmocka_unit_test(overflow_anywhere),
        cmocka_unit_test(pointer_range),       cmocka_unit_test(message_limit),
        cmocka_unit_test(many_names),          cmocka_unit_test(rebuild_messages),
        cmocka_unit_test(expand_table),        cmocka_unit_test(error_table),
        cmocka_unit_test(truncate_table),      cmocka_unit_test(truncate_to_nothing),
        cmocka_unit_test(truncate_boundaries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
