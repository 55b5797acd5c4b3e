/* test_message.c - strict reading of queries and replies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dns/ecs.h"
#include "dns/edns.h"
#include "dns/message.h"
#include "dns/name.h"
#include "messages.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Pieces of messages: "example.com", that question, its header as query and as reply. */
#define NAME "076578616d706c6503636f6d00"
#define QUESTION NAME "00010001"
#define QUERY(ancount, nscount, arcount) "000001000001" ancount nscount arcount QUESTION
#define REPLY(ancount, nscount, arcount) "000081800001" ancount nscount arcount QUESTION
#define OPT "00002904d0000000000000"

static size_t expect_message(uint8_t *out, const char *id)
{
    size_t len = message_get(out, id);
    assert_int_not_equal(len, 0);
    return len;
}

static void query_messages(void **state)
{
    (void)state;
    static const char *example = "example.com.", *failed = "dnssec-failed.org.";
    const struct {
        const char *id;
        enum query_problem problem;
        const char *qname; /* NULL: none was read */
        uint16_t qtype;
        bool has_opt;
        uint16_t ext_flags;
        size_t options_len;
    } rows[] = {
        {"Q1", QUERY_OK, example, 1, false, 0, 0},
        {"Q1b", QUERY_OK, example, 1, false, 0, 0},
        {"Q1c", QUERY_OK, example, 1, false, 0, 0},
        {"D01", QUERY_OK, example, 1, false, 0, 0},
        {"D02", QUERY_OK, example, 1, true, 0, 0},
        {"D03", QUERY_BADVERS, example, 1, true, 0, 0},
        {"D04", QUERY_FORMERR, example, 1, true, 0, 0},
        {"D05", QUERY_FORMERR, example, 1, false, 0, 0},
        {"D06", QUERY_FORMERR, example, 1, false, 0, 0},
        {"D07", QUERY_FORMERR, example, 1, true, 0, 0},
        {"D09", QUERY_FORMERR, example, 1, false, 0, 0},
        {"D10", QUERY_OPCODE, example, 1, false, 0, 0},
        {"D11", QUERY_OPCODE, example, 6, false, 0, 0},
        {"D15", QUERY_FORMERR, example, 1, false, 0, 0},
        {"D16", QUERY_FORMERR, NULL, 0, false, 0, 0},
        {"D17", QUERY_FORMERR, NULL, 0, false, 0, 0},
        {"D18", QUERY_FORMERR, NULL, 0, false, 0, 0},
        {"D20", QUERY_FORMERR, NULL, 0, false, 0, 0},
        {"D22", QUERY_OK, example, 255, false, 0, 0},
        {"D28", QUERY_OK, example, 65, true, 0, 0},
        {"D29", QUERY_OK, example, 65280, false, 0, 0},
        {"D31", QUERY_OK, failed, 1, false, 0, 0},
        {"D31b", QUERY_OK, failed, 1, false, 0, 0},
        {"D32", QUERY_OK, example, 1, false, 0, 0},
        {"D33", QUERY_OK, example, 1, false, 0, 0},
        {"D34", QUERY_OK, ".", 2, true, 0x8000, 0},
        {"E01", QUERY_OK, example, 1, true, 0, 11},
        {"E02", QUERY_OK, example, 1, true, 0, 11},
        {"E04", QUERY_OK, example, 1, true, 0, 11},
        {"E05", QUERY_OK, example, 1, true, 0, 11},
        {"E06", QUERY_OK, example, 1, true, 0, 11},
        {"E07", QUERY_OK, example, 1, true, 0, 8},
        {"E08", QUERY_OK, example, 1, true, 0, 13},
        {"E09", QUERY_OK, example, 1, true, 0, 12},
        {"E10", QUERY_OK, example, 1, true, 0, 7},
        {"P01", QUERY_OK, example, 1, true, 0, 4},
        {"K01", QUERY_OK, example, 1, true, 0, 4},
        {"K02", QUERY_OK, example, 1, true, 0, 6},
        {"R01", QUERY_RESPONSE, NULL, 0, false, 0, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_query q;
        size_t len = expect_message(msg, rows[i].id);
        char text[NAME_TEXT_SIZE];
        if (query_parse(&q, msg, len) != rows[i].problem)
            fail_msg("%s: %d, not %d", rows[i].id, query_parse(&q, msg, len), rows[i].problem);
        assert_int_equal(q.id, dns_read16(msg));
        assert_int_equal(q.flags, dns_read16(msg + 2));
        assert_int_equal(q.qname != NULL, rows[i].qname != NULL);
        if (q.qname != NULL) {
            assert_string_equal(name_to_text(q.qname, q.qname_len, text), rows[i].qname);
            assert_int_equal(q.qclass, DNS_CLASS_IN);
        }
        assert_int_equal(q.qtype, rows[i].qtype);
        assert_int_equal(q.has_opt, rows[i].has_opt);
        assert_int_equal(q.ext_flags, rows[i].ext_flags);
        assert_int_equal(query_do(&q), rows[i].ext_flags != 0);
        assert_int_equal(q.options_len, rows[i].options_len);
        assert_int_equal(q.udp_size, rows[i].has_opt ? 1232 : 512);
        if (rows[i].problem == QUERY_OK)
            assert_int_equal(q.options != NULL, q.has_opt);
    }
}

static void query_255_octets(void **state)
{
    (void)state;
    uint8_t msg[512];
    struct dns_query q;
    size_t len = expect_message(msg, "D19");
    assert_int_equal(query_parse(&q, msg, len), QUERY_OK);
    assert_int_equal(q.qname_len, 255);
    assert_ptr_equal(q.qname, msg + 12);
}

/* The client's subnet in E01..E10, as ecs_parse() judges it. */
static void query_subnets(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        bool want;
    } rows[] = {
        {"E01", true},  {"E02", true},  {"E04", false}, {"E05", true},  {"E06", false},
        {"E07", false}, {"E08", false}, {"E09", false}, {"E10", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_query q;
        struct ecs e;
        size_t len = expect_message(msg, rows[i].id), n = 0;
        assert_int_equal(query_parse(&q, msg, len), QUERY_OK);
        const uint8_t *data = edns_option(q.options, q.options_len, DNS_OPTION_ECS, &n);
        assert_non_null(data);
        assert_int_equal(ecs_parse(&e, data, n), rows[i].want);
    }
}

static void query_table(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        enum query_problem problem;
        uint16_t udp_size;
        bool has_opt;
    } rows[] = {
        {"", QUERY_SHORT, 512, false},
        {"0001010000010000000000", QUERY_SHORT, 512, false},
        {"000081000001000000000000", QUERY_RESPONSE, 512, false},
        {"0000f9000000000000000000", QUERY_RESPONSE, 512, false}, /* before the opcode */
        {"000029000000000000000000", QUERY_OPCODE, 512, false},
        {"000001000000000000000000", QUERY_FORMERR, 512, false}, /* no question */
        /* who sent OPT gets OPT, whatever else is wrong */
        {"000001000000000000000001" OPT, QUERY_FORMERR, 1232, true},
        {"000011000000000000000001" OPT, QUERY_OPCODE, 1232, true},
        {"000029000000000000010000" OPT, QUERY_OPCODE, 512, false},
        {QUERY("0001", "0000", "0000"), QUERY_FORMERR, 512, false}, /* counts beyond the end */
        {QUERY("0000", "0001", "0000"), QUERY_FORMERR, 512, false},
        {QUERY("0000", "0000", "0001"), QUERY_FORMERR, 512, false},
        {QUERY("0001", "0000", "0000") "c00c00010001000000000000", QUERY_FORMERR, 512, false},
        {QUERY("0000", "0001", "0000") "c00c00010001000000000000", QUERY_FORMERR, 512, false},
        {QUERY("0000", "0000", "0001") "c00c00010001000000000000", QUERY_OK, 512, false},
        {QUERY("0000", "0000", "0001") "c01d00010001000000000000", QUERY_FORMERR, 512, false},
        {QUERY("0000", "0000", "0001") "0000291000000080000000", QUERY_OK, 4096, true},
        {QUERY("0000", "0000", "0001") "0000290000000080000000", QUERY_OK, 512, true},
        {QUERY("0000", "0000", "0001") "000029ffff000080000000", QUERY_OK, 65535, true},
        {QUERY("0000", "0000", "0001") OPT "00", QUERY_FORMERR, 1232, true},
        {QUERY("0000", "0000", "0002") OPT, QUERY_FORMERR, 1232, true},
        {QUERY("0000", "0000", "0001") "c01400" OPT, QUERY_FORMERR, 512, false},
        {QUERY("0000", "0000", "0001") "c01800" /* root by pointer is no root owner */
                                       "2904d0000000000000",
         QUERY_FORMERR, 512, false},
        /* OPT before and behind others; what a TSIG or SIG(0) says is not looked at */
        {QUERY("0000", "0000", "0002") OPT "0000fa00ff00000000000201ff", QUERY_OK, 1232, true},
        {QUERY("0000", "0000", "0002") "00001800ff00000000000201ff" OPT, QUERY_OK, 1232, true},
        /* version 1: options may be anything, but the message is read to its end */
        {QUERY("0000", "0000", "0001") "00002904d0000100000003ffffff", QUERY_BADVERS, 1232,
         true},
        {QUERY("0000", "0000", "0001") "00002904d0000100000000ff", QUERY_FORMERR, 1232, true},
        {QUERY("0000", "0000", "0002") "00002904d0000100000000" OPT, QUERY_FORMERR, 1232, true},
        /* qname: cut off, no room for type and class */
        {"00000100000100000000000007657861", QUERY_FORMERR, 512, false},
        {"000001000001000000000000" NAME "000100", QUERY_FORMERR, 512, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_query q;
        size_t len = hex_decode(msg, rows[i].hex);
        if (query_parse(&q, msg, len) != rows[i].problem)
            fail_msg("row %zu: %d, not %d", i, query_parse(&q, msg, len), rows[i].problem);
        assert_int_equal(q.udp_size, rows[i].udp_size);
        assert_int_equal(q.has_opt, rows[i].has_opt);
    }
}

/* No message is whole when its end is missing. Each copy is as short as it says, so that the
 * address sanitizer sees a read beyond. */
static void cut_off_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < MESSAGES; i++) {
        uint8_t msg[512];
        size_t len = hex_decode(msg, messages[i].hex);
        for (size_t n = 0; n < len; n++) {
            struct dns_query q;
            struct dns_reply r;
            uint8_t *copy = malloc(n > 0 ? n : 1);
            assert_non_null(copy);
            memcpy(copy, msg, n);
            enum query_problem problem = query_parse(&q, copy, n);
            if (strcmp(messages[i].id, "D15") != 0) /* it has octets too many */
                assert_true(problem != QUERY_OK && problem != QUERY_BADVERS);
            assert_false(reply_parse(&r, copy, n));
            free(copy);
        }
    }
}

static void reply_messages(void **state)
{
    (void)state;
    static const struct {
        const char *id;
        bool want;
        uint16_t rcode, answers;
        uint32_t answer_ttl;
        int64_t negative_ttl; /* -1: none */
        size_t options_len;
    } rows[] = {
        {"R01", true, 0, 1, 300, -1, 0},
        {"R02", true, 0, 1, INT32_MAX, -1, 0},
        {"R03", true, 0, 1, 0, -1, 0},
        {"R04", true, 3, 0, UINT32_MAX, 60, 0},
        {"R05", true, 3, 0, UINT32_MAX, -1, 0},
        {"R09", true, 2, 0, UINT32_MAX, -1, 0},
        {"R10", true, 0, 1, 300, -1, 37},
        {"R11", true, 0, 1, 300, -1, 11},
        {"R12", true, 0, 1, 300, -1, 11},
        {"R14", true, 0, 1, 300, -1, 0},
        {"R15", true, 0, 1, 300, -1, 0},
        {"R17", false, 0, 0, 0, 0, 0},
        {"R18", false, 0, 0, 0, 0, 0},
        {"D01", false, 0, 0, 0, 0, 0}, /* a query is no reply */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_reply r;
        uint32_t ttl = 0;
        size_t len = expect_message(msg, rows[i].id);
        if (reply_parse(&r, msg, len) != rows[i].want)
            fail_msg("%s: not %d", rows[i].id, rows[i].want);
        if (!rows[i].want)
            continue;
        assert_int_equal(r.len, len);
        assert_int_equal(r.rcode, rows[i].rcode);
        assert_int_equal(r.count[DNS_ANSWER], rows[i].answers);
        assert_int_equal(reply_answer_ttl(&r), rows[i].answer_ttl);
        assert_int_equal(reply_negative_ttl(&r, &ttl), rows[i].negative_ttl >= 0);
        if (rows[i].negative_ttl >= 0)
            assert_int_equal(ttl, rows[i].negative_ttl);
        assert_int_equal(r.has_opt, rows[i].options_len > 0);
        assert_int_equal(r.options_len, rows[i].options_len);
        if (r.has_opt)
            assert_int_equal(r.opt_pos + r.opt_len, len);
    }
}

static void reply_options(void **state)
{
    (void)state;
    uint8_t msg[512];
    struct dns_reply r;
    struct ecs e, asked = {.family = ADDR_V4, .source = 24, .ip = {192, 0, 2}};
    size_t n = 0;

    assert_true(reply_parse(&r, msg, expect_message(msg, "R10")));
    assert_non_null(edns_option(r.options, r.options_len, DNS_OPTION_COOKIE, &n));
    assert_int_equal(n, 16);
    assert_non_null(edns_option(r.options, r.options_len, DNS_OPTION_KEEPALIVE, &n));
    assert_int_equal(n, 2);
    const uint8_t *data = edns_option(r.options, r.options_len, DNS_OPTION_ECS, &n);
    assert_true(ecs_parse(&e, data, n));
    assert_int_equal(e.scope, 24);
    assert_true(ecs_equal(&e, &asked));

    assert_true(reply_parse(&r, msg, expect_message(msg, "R12")));
    data = edns_option(r.options, r.options_len, DNS_OPTION_ECS, &n);
    assert_true(ecs_parse(&e, data, n));
    assert_false(ecs_equal(&e, &asked));
}

#define RR(type, rdlength, rdata) "c00c" type "00010000012c" rdlength rdata
#define SOA_TAIL "0000000100001c2000000384000151800000003c"

/* One answer record at offset 29, its rdata at 41; 12 is "example.com", 20 "com", 24 the root.
 */
static void rdata_table(void **state)
{
    (void)state;
    static const struct {
        const char *rr;
        bool want;
    } rows[] = {
        {RR("0001", "0004", "c0000201"), true},
        {RR("0001", "0003", "c00002"), false},
        {RR("0001", "0005", "c000020100"), false},
        {RR("0001", "0000", ""), false},
        {RR("001c", "0010", "20010db8000000000000000000000001"), true},
        {RR("001c", "000f", "20010db80000000000000000000000"), false},
        {RR("001c", "0011", "20010db800000000000000000000000100"), false},
        {RR("0005", "0002", "c014"), true},
        {RR("0005", "0001", "00"), true},
        {RR("0005", "0004", "0161c00c"), true},
        {RR("0005", "0003", "c01400"), false}, /* one octet too many */
        {RR("0005", "0002", "c029"), false},   /* to itself */
        {RR("0005", "0002", "c02b"), false},   /* behind the message */
        {RR("0005", "0002", "c000"), false},   /* header */
        {RR("0005", "0000", ""), false},
        {RR("0005", "0001", "c0") "14", false}, /* the name passes RDLENGTH */
        {RR("0005", "0002", "0161") "00", false},
        {RR("0002", "0002", "c00c"), true},
        {RR("000c", "0002", "c00c"), true},
        {RR("000f", "0004", "000ac00c"), true},
        {RR("000f", "0003", "000a00"), true},
        {RR("000f", "0002", "000a"), false},
        {RR("000f", "0001", "00"), false},
        {RR("0006", "0018", "c00cc00c" SOA_TAIL), true},
        {RR("0006", "0017", "c00c00" SOA_TAIL), true},
        {RR("0006", "0017", "c00cc00c0000000100001c2000000384000151800000"), false},
        {RR("0006", "0019", "c00cc00c" SOA_TAIL "00"), false},
        {RR("000e", "0004", "c00cc014"), true}, /* MINFO */
        {RR("000e", "0002", "c00c"), false},
        {RR("0011", "0004", "c00cc014"), true},                                     /* RP */
        {RR("0012", "0004", "0001c00c"), true},                                     /* AFSDB */
        {RR("0015", "0004", "0001c00c"), true},                                     /* RT */
        {RR("0018", "0016", "000105020000012c0000000000000000abcdc00cffff"), true}, /* SIG */
        {RR("0018", "0012", "000105020000012c0000000000000000abcd"), false},
        {RR("001a", "0006", "0001c00cc014"), true}, /* PX */
        {RR("001e", "0005", "c00c400001"), true},   /* NXT */
        {RR("001e", "0001", "40"), false},
        {RR("0021", "0008", "0000000001bbc014"), true}, /* SRV */
        {RR("0021", "0006", "0000000001bb"), false},
        {RR("0021", "0005", "0000000001"), false},
        {RR("0023", "000b", "000a001401750000016100"), true}, /* NAPTR */
        {RR("0023", "000c", "000a00140175000001610000"), false},
        {RR("0023", "000a",
            "000a00140175"
            "0000"
            "c00c"),
         true},
        {RR("0023", "0008", "000a001401750000"), false}, /* no name */
        {RR("0023", "0007", "000a0014ff7500"), false},   /* string past the end */
        {RR("0023", "0004", "000a0014"), false},
        {RR("0027", "0002", "c00c"), true}, /* DNAME */
        /* opaque: what looks like a pointer is none */
        {RR("000d", "0002", "c0ff"), true}, /* HINFO */
        {RR("0010", "0000", ""), true},     /* TXT */
        {RR("002e", "0002", "c0ff"), true}, /* RRSIG */
        {RR("002f", "0002", "c0ff"), true}, /* NSEC */
        {RR("0040", "0004", "0001c0ff"), true},
        {RR("0041", "0004", "0001c0ff"), true},
        {RR("ff00", "0004", "c00c0102"), true},
        {RR("0080", "0001", "00"), true},
        /* meta types */
        {RR("00f9", "0000", ""), false},
        {RR("00fa", "0000", ""), false},
        {RR("00fb", "0000", ""), false},
        {RR("00fc", "0000", ""), false},
        {RR("00fd", "0000", ""), false},
        {RR("00fe", "0000", ""), false},
        {RR("00ff", "0000", ""), false},
        {"00002904d0000000000000", false}, /* OPT as an answer */
        /* classes */
        {"c00c000100030000012c0004c0000201", false},
        {"c00c000100ff0000012c0004c0000201", false},
        {"c00c000100000000012c0004c0000201", false},
        /* owners */
        {"00000100010000012c0004c0000201", true},
        {"0161c014000100010000012c0004c0000201", true},
        {"c01d000100010000012c0004c0000201", false},
        {"c02d000100010000012c0004c0000201", false},
        {"41000100010000012c0004c0000201", false},
        {"c00c000100010000012c00", false},
        {"", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_reply r;
        size_t len = hex_decode(msg, REPLY("0001", "0000", "0000"));
        len += hex_decode(msg + len, rows[i].rr);
        uint8_t *copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, msg, len);
        if (reply_parse(&r, copy, len) != rows[i].want)
            fail_msg("row %zu: %s", i, rows[i].rr);
        free(copy);
    }
}

static void reply_table(void **state)
{
    (void)state;
    static const struct {
        const char *hex;
        bool want;
        uint16_t rcode;
    } rows[] = {
        {REPLY("0000", "0000", "0000"), true, 0},
        {REPLY("0000", "0000", "0000") "00", false, 0},
        {REPLY("0000", "0000", "0001") OPT, true, 0},
        {REPLY("0000", "0000", "0001") "00002904d0010000000000", true, 16},
        {REPLY("0000", "0000", "0001") "00002904d0ff0080000000", true, 4080},
        {REPLY("0000", "0001", "0000") OPT, false, 0},
        {REPLY("0001", "0000", "0000") OPT, false, 0},
        {REPLY("0000", "0000", "0002") OPT OPT, false, 0},
        {REPLY("0000", "0000", "0001") "c0180029"
                                       "04d0000000000000",
         false, 0},
        {REPLY("0000", "0000", "0001") "017800002904d0000000000000", false, 0},
        {REPLY("0000", "0000", "0001") "00002904d0000000000003000c00", false, 0},
        {REPLY("0000", "0000", "0002") OPT RR("0001", "0004", "c0000201"), true, 0},
        {"000083800001000000000000" QUESTION, true, 0},  /* TC */
        {"000001000001000000000000" QUESTION, false, 0}, /* no QR */
        {"000089800001000000000000" QUESTION, false, 0}, /* opcode */
        {"000081800000000000000000", false, 0},
        {"000081800000000000000000" QUESTION, false, 0},
        {"000081800002000000000000" QUESTION QUESTION, false, 0},
        {"000081800001000000000000c00c00010001", false, 0},
        {"000081800001000000000000" NAME "0001", false, 0},
        {"0000818000010000000000", false, 0},
        {"", false, 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_reply r;
        if (reply_parse(&r, msg, hex_decode(msg, rows[i].hex)) != rows[i].want)
            fail_msg("row %zu: %s", i, rows[i].hex);
        if (rows[i].want)
            assert_int_equal(r.rcode, rows[i].rcode);
    }
    static uint8_t huge[DNS_MESSAGE_MAX + 1];
    struct dns_reply r;
    assert_false(reply_parse(&r, huge, sizeof huge));
}

static void walk(void **state)
{
    (void)state;
    static const struct {
        size_t pos, fixed, rdata, end;
        uint16_t type;
        uint32_t ttl;
        enum dns_section section;
    } want[] = {
        {29, 31, 41, 43, RR_CNAME, 300, DNS_ANSWER},
        {43, 45, 55, 59, RR_A, 300, DNS_ANSWER},
        {59, 60, 70, 71, RR_NS, 300, DNS_AUTHORITY},
        {71, 72, 82, 82, RR_OPT, 0x8000, DNS_ADDITIONAL},
        {82, 86, 96, 100, RR_A, 0xffffffff, DNS_ADDITIONAL},
    };
    uint8_t msg[512];
    struct dns_reply r;
    struct dns_walk w;
    struct dns_rr rr;
    size_t len = hex_decode(
        msg, REPLY("0002", "0001", "0002") RR("0005", "0002", "c014")
                 RR("0001", "0004", "c0000201") "00000200010000012c000100"
                                                "00002904d0000080000000"
                                                "0161c00c00010001ffffffff0004c0000202");
    assert_true(reply_parse(&r, msg, len));
    assert_int_equal(r.section[DNS_ANSWER], 29);
    assert_int_equal(r.section[DNS_AUTHORITY], 59);
    assert_int_equal(r.section[DNS_ADDITIONAL], 71);
    assert_int_equal(r.opt_pos, 71);
    assert_int_equal(r.opt_len, 11);
    assert_int_equal(r.ext_flags, 0x8000);
    walk_start(&w, &r);
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_true(walk_next(&w, &rr));
        assert_int_equal(rr.pos, want[i].pos);
        assert_int_equal(rr.fixed, want[i].fixed);
        assert_int_equal(rr.rdata, want[i].rdata);
        assert_int_equal(rr.end, want[i].end);
        assert_int_equal(rr.rdlength, want[i].end - want[i].rdata);
        assert_int_equal(rr.type, want[i].type);
        assert_int_equal(rr.ttl, want[i].ttl);
        assert_int_equal(rr.section, want[i].section);
    }
    assert_false(walk_next(&w, &rr));
    assert_false(walk_next(&w, &rr));
}

static void matches(void **state)
{
    (void)state;
    static const struct {
        const char *qname;
        uint16_t qtype;
        bool any_case, exact;
    } rows[] = {
        {"example.com", 1, true, true},    {"eXample.com", 1, true, false},
        {"example.com", 28, false, false}, {"example.net", 1, false, false},
        {"xample.com", 1, false, false},   {".", 1, false, false},
    };
    uint8_t msg[512], qname[DNS_NAME_MAX];
    struct dns_reply r;
    size_t len = hex_decode(msg, REPLY("0000", "0000", "0000"));
    assert_true(reply_parse(&r, msg, len));
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t n = name_from_text(qname, rows[i].qname);
        assert_int_equal(reply_matches(&r, qname, n, rows[i].qtype, false), rows[i].any_case);
        assert_int_equal(reply_matches(&r, qname, n, rows[i].qtype, true), rows[i].exact);
    }
    size_t n = name_from_text(qname, "example.com");
    msg[len - 1] = DNS_CLASS_CH;
    assert_true(reply_parse(&r, msg, len));
    assert_false(reply_matches(&r, qname, n, 1, false));
    assert_true(reply_parse(&r, msg, expect_message(msg, "R01")));
    assert_false(reply_matches(&r, qname, n, 1, false));
}

/* TTLs: the smallest of the answer section only; min(TTL, MINIMUM) of the authority's SOA only.
 */
static void ttls(void **state)
{
    (void)state;
#define A(ttl) "c00c00010001" ttl "0004c0000201"
#define SOA(ttl, minimum)                                                                      \
    "c00c00060001" ttl "00160000"                                                              \
    "0000000100001c200000038400015180" minimum
    static const struct {
        const char *hex;
        uint32_t answer;
        int64_t negative;
    } rows[] = {
        {REPLY("0002", "0000", "0000") A("0000012c") A("0000003c"), 60, -1},
        {REPLY("0001", "0000", "0001") A("0000012c") A("0000003c"), 300, -1},
        {REPLY("0001", "0001", "0000") A("0000012c") A("0000003c"), 300, -1},
        {REPLY("0002", "0000", "0000") A("80000000") A("7ffffffe"), 0x7ffffffe, -1},
        {REPLY("0001", "0000", "0000") A("ffffffff"), 0x7fffffff, -1},
        {REPLY("0000", "0001", "0000") SOA("00000e10", "0000003c"), UINT32_MAX, 60},
        {REPLY("0000", "0001", "0000") SOA("0000000a", "0000003c"), UINT32_MAX, 10},
        {REPLY("0000", "0001", "0000") SOA("80000000", "0000003c"), UINT32_MAX, 60},
        {REPLY("0000", "0001", "0000") SOA("0000000a", "80000000"), UINT32_MAX, 10},
        {REPLY("0000", "0001", "0000") SOA("ffffffff", "ffffffff"), UINT32_MAX, 0x7fffffff},
        {REPLY("0000", "0002", "0000") A("00000001") SOA("0000000a", "0000003c"), UINT32_MAX,
         10},
        {REPLY("0001", "0000", "0000") SOA("0000000a", "0000003c"), 10, -1},
        {REPLY("0000", "0000", "0001") SOA("0000000a", "0000003c"), UINT32_MAX, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t msg[512];
        struct dns_reply r;
        uint32_t ttl = 0;
        assert_true(reply_parse(&r, msg, hex_decode(msg, rows[i].hex)));
        assert_int_equal(reply_answer_ttl(&r), rows[i].answer);
        assert_int_equal(reply_negative_ttl(&r, &ttl), rows[i].negative >= 0);
        if (rows[i].negative >= 0)
            assert_int_equal(ttl, rows[i].negative);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_messages),   cmocka_unit_test(query_255_octets),
        cmocka_unit_test(query_subnets),    cmocka_unit_test(query_table),
        cmocka_unit_test(cut_off_anywhere), cmocka_unit_test(reply_messages),
        cmocka_unit_test(reply_options),    cmocka_unit_test(rdata_table),
        cmocka_unit_test(reply_table),      cmocka_unit_test(walk),
        cmocka_unit_test(matches),          cmocka_unit_test(ttls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
