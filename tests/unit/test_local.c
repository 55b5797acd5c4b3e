/* test_local.c - special names, local records, discovery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dns/build.h"
#include "dns/message.h"
#include "dns/name.h"
#include "local.h"
#include "special.h"

/* Texts of a configuration are not const; nothing here writes to them. */
#define TEXT(literal) ((char *)(literal))

static char *lines[] = {
    TEXT("router.lan A 192.168.1.1"),
    TEXT("Router.LAN A 192.168.1.2"),
    TEXT("router.lan AAAA 2001:db8::1"),
    TEXT("www.lan CNAME router.lan"),
    TEXT("text.lan 60 TXT \"two words\" \"more\""),
    TEXT("loop1.lan CNAME loop2.lan"),
    TEXT("loop2.lan CNAME loop1.lan"),
    TEXT("1.1.168.192.in-addr.arpa PTR router.lan"),
    TEXT("odd.lan TYPE65280 \\# 3 c00c01"),
};

static struct config_listener listeners[3];
static char *paths[] = {TEXT("/dns-query")};
static struct config config = {
    .local = lines,
    .n_local = sizeof lines / sizeof *lines,
    .listeners = listeners,
    .n_listeners = 3,
    .http_paths = paths,
    .n_http_paths = 1,
};

static struct local *create(void)
{
    struct local *l = local_create(&config, NULL, NULL);

    assert_non_null(l);
    return l;
}

/* The answer's records as "TYPE TTL rdata-length" words, answer and authority apart by '|'. */
static bool ask(const struct local *l, const char *name, uint16_t type, bool claimed,
                char *text, struct local_answer *answer)
{
    static uint8_t msg[DNS_MESSAGE_MAX];
    uint8_t qname[DNS_NAME_MAX];
    size_t len = name_from_text(qname, name);
    struct dns_reply r;
    struct dns_walk w;
    struct dns_rr rr;
    enum dns_section section = DNS_ANSWER;

    assert_true(len > 0);
    if (!local_lookup(l, qname, len, type, claimed, msg, sizeof msg, answer))
        return false;
    msg[2] |= 0x80; /* as the proxy finishes it */
    assert_true(reply_parse(&r, msg, answer->len));
    assert_true(reply_matches(&r, qname, len, type, true));
    *text = '\0';
    walk_start(&w, &r);
    while (walk_next(&w, &rr)) {
        char mnemonic[16];

        if (rr.section != section)
            strcat(text, "|");
        section = rr.section;
        sprintf(text + strlen(text), "%s %u %u,", rrtype_to_text(rr.type, mnemonic), rr.ttl,
                rr.rdlength);
    }
    return true;
}

static void test_answers(void **state)
{
    static const struct {
        const char *name;
        uint16_t type;
        bool claimed;
        uint16_t rcode;
        const char *text; /* NULL: not local */
    } rows[] = {
        {"localhost", RR_A, false, 0, "A 604800 4,"},
        {"LocalHost", RR_AAAA, false, 0, "AAAA 604800 16,"},
        {"a.b.localhost", RR_A, false, 0, "A 604800 4,"},
        {"localhost", RR_MX, false, 0, "|SOA 10800 38,"},
        {"xlocalhost", RR_A, false, 0, NULL},
        {"localhost.example", RR_A, false, 0, NULL},
        {"invalid", RR_A, false, 3, "|SOA 10800 38,"},
        {"a.invalid", RR_A, false, 3, "|SOA 10800 38,"},
        {"a.onion", RR_A, false, 3, "|SOA 10800 38,"},
        {"a.test", RR_A, false, 0, NULL},
        {".", RR_NS, false, 0, NULL},
        {"arpa", RR_NS, false, 0, NULL},
        {"1.0.0.127.in-addr.arpa", RR_PTR, false, 0, "PTR 10800 11,"},
        {"1.0.0.127.IN-addr.arpa", RR_A, false, 0, "|SOA 10800 38,"},
        {"2.0.0.127.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"127.in-addr.arpa", RR_NS, false, 0, "|SOA 10800 38,"},
        {"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", RR_PTR,
         false, 0, "PTR 10800 11,"},
        {"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa", RR_PTR,
         false, 0, "|SOA 10800 38,"},
        {"9.9.9.10.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"9.9.9.10.in-addr.arpa", RR_PTR, true, 0, NULL},
        {"9.9.9.11.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.2.16.172.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.2.31.172.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.2.15.172.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.2.32.172.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.1.64.100.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.1.127.100.in-addr.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.1.63.100.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.1.128.100.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.1.164.100.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"100.in-addr.arpa", RR_PTR, false, 0, NULL},
        {"1.d.f.ip6.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.8.e.f.ip6.arpa", RR_PTR, false, 3, "|SOA 10800 38,"},
        {"1.c.e.f.ip6.arpa", RR_PTR, false, 0, NULL},
        {"8.b.d.0.1.0.0.2.ip6.arpa", RR_SOA, false, 0, "|SOA 10800 38,"},
        {"_dns.resolver.arpa", RR_SVCB, false, 0, "|SOA 10800 38,"},
        {"x.resolver.arpa", RR_A, false, 3, "|SOA 10800 38,"},
        {"router.lan", RR_A, false, 0, "A 300 4,A 300 4,"},
        {"ROUTER.lan", RR_AAAA, false, 0, "AAAA 300 16,"},
        {"router.lan", RR_MX, false, 0, "|SOA 300 38,"},
        {"sub.router.lan", RR_A, false, 0, NULL},
        {"lan", RR_A, false, 0, NULL},
        {"www.lan", RR_A, false, 0, "CNAME 300 2,A 300 4,A 300 4,"},
        {"www.lan", RR_CNAME, false, 0, "CNAME 300 12,"},
        {"www.lan", RR_TXT, false, 0, "CNAME 300 9,|SOA 300 36,"},
        {"text.lan", RR_TXT, false, 0, "TXT 60 15,"},
        {"loop1.lan", RR_A, false, 2, NULL},
        {"1.1.168.192.in-addr.arpa", RR_PTR, false, 0, "PTR 300 12,"},
        {"odd.lan", 65280, false, 0, "TYPE65280 300 3,"},
    };
    struct local *l = create();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct local_answer answer;
        char text[1024];
        bool local = ask(l, rows[i].name, rows[i].type, rows[i].claimed, text, &answer);

        if (rows[i].rcode == DNS_RCODE_SERVFAIL) {
            assert_true(local);
            assert_int_equal(answer.rcode, DNS_RCODE_SERVFAIL);
            continue;
        }
        if (local != (rows[i].text != NULL))
            fail_msg("%s: local %d", rows[i].name, local);
        if (!local)
            continue;
        assert_int_equal(answer.rcode, rows[i].rcode);
        /* The SOA's length depends on the zone; only its presence is looked at. */
        if (strchr(rows[i].text, '|')) {
            char *soa = strstr(text, "SOA ");

            assert_non_null(soa);
            assert_memory_equal(text, rows[i].text, (size_t)(soa - text));
            assert_int_equal(answer.max_age_s, atoi(soa + 4));
        } else if (strncmp(rows[i].text, "PTR", 3) != 0 &&
                   strncmp(rows[i].text, "CNAME", 5) != 0) {
            assert_string_equal(text, rows[i].text);
        }
    }
    local_destroy(l);
}

static void count_fault(void *arg, size_t line, const char *what)
{
    size_t *seen = arg;

    assert_true(strlen(what) > 0);
    seen[line]++;
}

static void test_faults(void **state)
{
    static char *bad[] = {
        TEXT("router.lan A 192.168.1"),  TEXT("router.lan"),
        TEXT("a.lan CNAME far.example"), TEXT("hosts /nonexistent/hosts"),
        TEXT("router.lan CH A 1.2.3.4"), TEXT("good.lan A 1.2.3.4"),
        TEXT("a.lan A \\# 3 010203"),    TEXT("*.lan A 1.2.3.4"),
        TEXT("a.lan A \\# 4 01020304"),
    };
    struct config c = {.local = bad, .n_local = 9};
    size_t seen[10] = {0};

    (void)state;
    assert_null(local_create(&c, count_fault, seen));
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 1);
    assert_int_equal(seen[2], 1);
    assert_int_equal(seen[3], 1);
    assert_int_equal(seen[5], 0);
    assert_int_equal(seen[6], 1);
    assert_int_equal(seen[7], 1);
    assert_int_equal(seen[8], 0);
}

static void test_hosts(void **state)
{
    char path[] = "hosts-XXXXXX";
    char line[64];
    char *list[] = {line};
    struct config c = {.local = list, .n_local = 1};
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    struct local *l;
    struct local_answer answer;
    char text[1024];

    (void)state;
    fprintf(f, "# comment\n\n192.168.1.5 nas.lan nas # tail\n2001:db8::5\tnas.lan\n");
    fclose(f);
    snprintf(line, sizeof line, "hosts %s", path);
    l = local_create(&c, NULL, NULL);
    unlink(path);
    assert_non_null(l);
    assert_true(ask(l, "nas.lan", RR_A, false, text, &answer));
    assert_string_equal(text, "A 300 4,");
    assert_true(ask(l, "nas", RR_A, false, text, &answer));
    assert_true(ask(l, "nas.lan", RR_AAAA, false, text, &answer));
    assert_string_equal(text, "AAAA 300 16,");
    assert_true(ask(l, "5.1.168.192.in-addr.arpa", RR_PTR, false, text, &answer));
    assert_int_equal(answer.rcode, 0);
    assert_true(ask(l,
                    "5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
                    RR_PTR, false, text, &answer));
    assert_int_equal(answer.rcode, 0);
    local_destroy(l);
}

static void test_discovery(void **state)
{
    struct local *l;
    struct local_answer answer;
    char text[1024];

    (void)state;
    config.name = TEXT("dns.example.net");
    listeners[0] = (struct config_listener){.kind = LISTENER_DOH, .tls = true};
    assert_true(addr_parse(&listeners[0].address, "[::]:443", 0));
    listeners[1] = (struct config_listener){.kind = LISTENER_DOT, .tls = true};
    assert_true(addr_parse(&listeners[1].address, "192.0.2.1:853", 0));
    listeners[2] = (struct config_listener){.kind = LISTENER_DOH, .tls = false};
    l = create();
    /* priority 2, target 17, alpn 4+12, port 4+2, dohpath 4+16 */
    assert_true(ask(l, "_dns.resolver.arpa", RR_SVCB, false, text, &answer));
    assert_string_equal(text, "SVCB 300 61,SVCB 300 41,");
    assert_true(ask(l, "_DNS.dns.example.net", RR_SVCB, false, text, &answer));
    assert_string_equal(text, "SVCB 300 61,SVCB 300 41,");
    assert_true(ask(l, "_dns.resolver.arpa", RR_A, false, text, &answer));
    assert_false(ask(l, "dns.example.net", RR_A, false, text, &answer));
    local_destroy(l);
    config.name = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_discovery),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
