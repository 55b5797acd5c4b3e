/* test_json.c - application/dns-json: parameters to queries, answers to JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "dns/build.h"
#include "dns/ecs.h"
#include "dns/edns.h"
#include "dns/name.h"
#include "http/json.h"

/* ---- queries */

/* What the query looks like after it was parsed as the proxy does. */
static struct dns_query asked(const char *parameters, uint8_t *msg)
{
    const char *why;
    struct dns_query q;
    size_t len = json_query(msg, parameters, strlen(parameters), &why);

    if (len == 0)
        fail_msg("%s: %s", parameters, why);
    assert_null(why);
    assert_int_equal(query_parse(&q, msg, len), QUERY_OK);
    assert_int_equal(q.id, 0);
    assert_int_equal(q.flags & DNS_RD, DNS_RD);
    assert_true(q.has_opt);
    return q;
}

static void queries(void **state)
{
    static const struct {
        const char *parameters, *name;
        uint16_t type;
        bool wants_do, wants_cd;
    } rows[] = {
        {"name=example.com", "example.com.", 1, false, false},
        {"name=example.com.&type=AAAA", "example.com.", 28, false, false},
        {"type=aaaa&name=example.com", "example.com.", 28, false, false},
        {"name=Example.Com&type=65&do=1&cd=1", "Example.Com.", 65, true, true},
        {"name=example.com&do=true&cd=TRUE", "example.com.", 1, true, true},
        {"name=example.com&do=0&cd=false&do=", "example.com.", 1, false, false},
        {"name=.&type=NS", ".", 2, false, false},
        {"name=a%2eb&type=TYPE65280", "a.b.", 65280, false, false},
        {"n%61me=example.com&random_padding=XXXX&ct=application/x-javascript", "example.com.",
         1, false, false},
        {"name=_8088._https.www.site.test&type=HTTPS", "_8088._https.www.site.test.", 65, false,
         false},
        {"name=a%20b.example&&x&", "a\\032b.example.", 1, false, false},
        {"name=a%5C.b.example", "a\\.b.example.", 1, false, false},
        {"name=a+b.example", "a+b.example.", 1, false, false},
        {"name=example.com&type=255", "example.com.", 255, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t msg[JSON_QUERY_MAX];
        char name[NAME_TEXT_SIZE];
        struct dns_query q = asked(rows[i].parameters, msg);

        assert_string_equal(name_to_text(q.qname, q.qname_len, name), rows[i].name);
        assert_int_equal(q.qtype, rows[i].type);
        assert_int_equal(query_do(&q), rows[i].wants_do);
        assert_int_equal(!!(q.flags & DNS_CD), rows[i].wants_cd);
        assert_int_equal(q.options_len, 0);
    }
}

static void subnets(void **state)
{
    static const struct {
        const char *value;
        uint8_t family, source;
        uint8_t first, last; /* octets of the address that are sent */
    } rows[] = {
        {"192.0.2.77/24", ADDR_V4, 24, 192, 2}, {"192.0.2.77", ADDR_V4, 24, 192, 2},
        {"0.0.0.0/0", ADDR_V4, 0, 0, 0},        {"2001:700:300::/48", ADDR_V6, 48, 0x20, 0},
        {"2001:db8::1", ADDR_V6, 56, 0x20, 0},  {"192.0.2.77%2F32", ADDR_V4, 32, 192, 77},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t msg[JSON_QUERY_MAX];
        char text[128] = "name=example.com&edns_client_subnet=";
        struct dns_query q = asked(strcat(text, rows[i].value), msg);
        struct ecs e;
        size_t len;
        const uint8_t *data = edns_option(q.options, q.options_len, DNS_OPTION_ECS, &len);

        assert_non_null(data);
        assert_true(ecs_parse(&e, data, len));
        assert_int_equal(e.family, rows[i].family);
        assert_int_equal(e.source, rows[i].source);
        assert_int_equal(e.scope, 0);
        assert_int_equal(e.ip[0], rows[i].first);
        if (len > 4)
            assert_int_equal(data[len - 1], rows[i].last);
    }
}

static void malformed(void **state)
{
    static const char *const rows[] = {
        "",
        "name=",
        "name",
        "type=A",
        "name=a..b",
        "name=.a",
        "name=a&name=b",
        "name=a%00b",
        "name=b%c3%bccher.example",
        "name=example.com&type=",
        "name=example.com&type=0",
        "name=example.com&type=65536",
        "name=example.com&type=BOGUS",
        "name=example.com&type=-1",
        "name=example.com&do=2",
        "name=example.com&cd=yes",
        "name=example.com&edns_client_subnet=garbage",
        "name=example.com&edns_client_subnet=192.0.2.1/33",
        "name=example.com&edns_client_subnet=192.0.2.1/",
        "name=example.com&edns_client_subnet=192.0.2.1/2x",
        "name=example.com&edns_client_subnet=192.0.2.1:53/24",
        "name=example.com&edns_client_subnet=2001:db8::/129",
        "name=example.com&edns_client_subnet=/24",
    };
    uint8_t msg[JSON_QUERY_MAX];
    const char *why;
    char longer[2100] = "name=";

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        why = NULL;
        if (json_query(msg, rows[i], strlen(rows[i]), &why) != 0)
            fail_msg("taken: %s", rows[i]);
        assert_non_null(why);
    }
    for (size_t n = 5; n < 2090; n += 2)
        memcpy(longer + n, "a.", 3);
    assert_int_equal(json_query(msg, longer, strlen(longer), &why), 0);
}

/* ---- answers */

static const uint8_t example[] = "\7example\3com";

struct made {
    uint8_t msg[4096];
    size_t len;
    struct dns_builder b;
};

static void begin(struct made *m, uint16_t flags, uint16_t type)
{
    assert_true(build_start(&m->b, m->msg, sizeof(m->msg), 0, flags, example, sizeof(example),
                            type, DNS_CLASS_IN));
}

static void add(struct made *m, enum dns_section section, uint16_t type, uint32_t ttl,
                const void *rdata, size_t len)
{
    assert_true(build_rr(&m->b, section, example, sizeof(example), type, DNS_CLASS_IN, ttl,
                         rdata, len));
}

/* Ends the message with OPT, its options as given. */
static void end(struct made *m, uint16_t rcode, const void *options, size_t options_len)
{
    uint8_t *opt = m->msg + build_finish(&m->b);

    m->len = (size_t)(opt - m->msg) + edns_write(opt, DNS_UDP_SIZE, (uint8_t)(rcode >> 4), 0);
    m->msg[3] |= (uint8_t)(rcode & 15);
    dns_write16(m->msg + 10, (uint16_t)(dns_read16(m->msg + 10) + 1));
    dns_write16(opt + 9, (uint16_t)options_len);
    memcpy(m->msg + m->len, options, options_len);
    m->len += options_len;
}

static json_t *as_json(const struct made *m)
{
    size_t len;
    char *text = json_answer(m->msg, m->len, &len);
    json_t *root;

    assert_non_null(text);
    assert_int_equal(len, strlen(text));
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

static void answer(void **state)
{
    static const uint8_t a[] = {192, 0, 2, 1}, aaaa[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};
    struct made m;
    json_t *root;
    const char *name, *q_name, *data, *data6;
    int status, tc, rd, ra, ad, cd, type, ttl, q_type;

    (void)state;
    begin(&m, DNS_QR | DNS_RD | DNS_RA | DNS_AD, 1);
    add(&m, DNS_ANSWER, 1, 300, a, 4);
    add(&m, DNS_ANSWER, 28, 4000000000u, aaaa, 16);
    end(&m, 0, "", 0);
    root = as_json(&m);
    assert_int_equal(json_unpack(root, "{s:i, s:b, s:b, s:b, s:b, s:b, s:[{s:s, s:i}!]}",
                                 "Status", &status, "TC", &tc, "RD", &rd, "RA", &ra, "AD", &ad,
                                 "CD", &cd, "Question", "name", &q_name, "type", &q_type),
                     0);
    assert_int_equal(status, 0);
    assert_true(!tc && rd && ra && ad && !cd);
    assert_string_equal(q_name, "example.com.");
    assert_int_equal(q_type, 1);
    assert_int_equal(json_unpack(root, "{s:[{s:s, s:i, s:i, s:s}, {s:s}!]}", "Answer", "name",
                                 &name, "type", &type, "TTL", &ttl, "data", &data, "data",
                                 &data6),
                     0);
    assert_string_equal(name, "example.com.");
    assert_int_equal(type, 1);
    assert_int_equal(ttl, 300);
    assert_string_equal(data, "192.0.2.1");
    assert_string_equal(data6, "2001:db8::1");
    assert_true(json_integer_value(json_object_get(
                    json_array_get(json_object_get(root, "Answer"), 1), "TTL")) == 4000000000);
    assert_null(json_object_get(root, "Authority"));
    assert_null(json_object_get(root, "Additional"));
    assert_null(json_object_get(root, "edns_client_subnet"));
    json_decref(root);
}

/* Presentation form of rdata, also of types that are unknown, and of strings that JSON has to
 * escape. */
static void rdata(void **state)
{
#define RDATA(literal) (const uint8_t *)literal, sizeof(literal) - 1
    static const struct {
        uint16_t type;
        const uint8_t *rdata;
        size_t len;
        const char *text;
    } rows[] = {
        {5, RDATA("\1b\7example\0"), "b.example."},
        {15, RDATA("\0\12\2mx\7example\0"), "10 mx.example."},
        {16, RDATA("\13v=spf1 -all\1x"), "\"v=spf1 -all\" \"x\""},
        {16, RDATA("\4\"\\\t\xfc"), "\"\\\"\\\\\t\\252\""},
        {33, RDATA("\0\1\0\2\1\xbb\1s\0"), "1 2 443 s."},
        {43, RDATA("\x30\x39\x08\x02\xab\xcd"), "12345 8 2 abcd"},
        {65280, RDATA("\x0a\x00\xff"), "\\# 3 0a00ff"},
        {65280, RDATA(""), "\\# 0"},
        {10, RDATA("\1"), "\\# 1 01"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct made m;
        json_t *root;
        const char *data;

        begin(&m, DNS_QR | DNS_RD | DNS_RA, rows[i].type);
        add(&m, DNS_ANSWER, rows[i].type, 1, rows[i].rdata, rows[i].len);
        end(&m, 0, "", 0);
        root = as_json(&m);
        assert_int_equal(json_unpack(root, "{s:[{s:s}]}", "Answer", "data", &data), 0);
        if (strcasecmp(data, rows[i].text) != 0)
            fail_msg("type %u: %s", rows[i].type, data);
        json_decref(root);
    }
}

static void failures(void **state)
{
    static const uint8_t options[] = {0, 15, 0, 6, 0, 22, 'l', 'a', 'm', 'e', 0,
                                      8, 0,  7, 0, 1, 24, 20,  192, 0,   2};
    static const uint8_t soa[] = "\2ns\0\1h\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5";
    struct made m;
    json_t *root;
    const char *text, *subnet;
    int code, status;

    (void)state;
    begin(&m, DNS_QR | DNS_RD | DNS_RA, 1);
    add(&m, DNS_AUTHORITY, 6, 60, soa, sizeof(soa) - 1);
    end(&m, 3, options, sizeof(options));
    root = as_json(&m);
    assert_int_equal(json_unpack(root, "{s:i, s:[{s:i, s:s}], s:s}", "Status", &status,
                                 "extended_dns_errors", "info_code", &code, "extra_text", &text,
                                 "edns_client_subnet", &subnet),
                     0);
    assert_int_equal(status, 3);
    assert_int_equal(code, 22);
    assert_string_equal(text, "lame");
    assert_string_equal(subnet, "192.0.2.0/20");
    assert_int_equal(json_unpack(root, "{s:[{s:s}]}", "Authority", "data", &text), 0);
    assert_string_equal(text, "ns. h. 1 2 3 4 5");
    json_decref(root);

    begin(&m, DNS_QR | DNS_RD | DNS_RA, 1);
    end(&m, 16, "", 0);
    root = as_json(&m);
    assert_int_equal(json_integer_value(json_object_get(root, "Status")), 16);
    json_decref(root);
    m.len--;
    assert_null(json_answer(m.msg, m.len, &m.len));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries), cmocka_unit_test(subnets), cmocka_unit_test(malformed),
        cmocka_unit_test(answer),  cmocka_unit_test(rdata),   cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
