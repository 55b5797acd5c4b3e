/* test_setup.c - what is printed for clients, hosts as they are typed, and the client's half of
 * base64url and of queries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dns/edns.h"
#include "dns/message.h"
#include "http/base64url.h"
#include "lookup.h"
#include "probe.h"
#include "setup.h"

static void splits_hosts(void **state)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } rows[] = {
        {"dns.example.net", "dns.example.net", 0},
        {"dns.example.net.", "dns.example.net", 0},
        {"dns.example.net:8443", "dns.example.net", 8443},
        {"192.0.2.1", "192.0.2.1", 0},
        {"192.0.2.1:853", "192.0.2.1", 853},
        {"2001:db8::1", "2001:db8::1", 0},
        {"[2001:db8::1]", "2001:db8::1", 0},
        {"[2001:db8::1]:443", "2001:db8::1", 443},
        {"", NULL, 0},
        {":443", NULL, 0},
        {"dns.example.net:", NULL, 0},
        {"dns.example.net:0", NULL, 0},
        {"dns.example.net:65536", NULL, 0},
        {"dns.example.net:doh", NULL, 0},
        {"https://dns.example.net/", NULL, 0},
        {"dns example.net", NULL, 0},
        {"[dns.example.net]:443", NULL, 0},
        {"[2001:db8::1", NULL, 0},
        {"[", NULL, 0},
        {"[]", NULL, 0},
        {"2001:db8::g", NULL, 0},
        {"$(reboot)", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char host[64];
        uint16_t port = 0;
        bool ok = lookup_split(rows[i].text, host, sizeof(host), &port);
        if (ok != (rows[i].host != NULL))
            fail_msg("\"%s\"", rows[i].text);
        if (!ok)
            continue;
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
    }
    char small[8];
    uint16_t port;
    assert_false(lookup_split("dns.example.net", small, sizeof(small), &port));
    assert_true(lookup_split("a.test:1", small, sizeof(small), &port));
}

static void looks_addresses_up(void **state)
{
    struct addr list[2];
    char why[128];

    (void)state;
    assert_int_equal(lookup_host("192.0.2.7", 853, 1000, list, 2, why, sizeof(why)), 1);
    assert_int_equal(list[0].port, 853);
    assert_int_equal(list[0].ip[3], 7);
    assert_true(lookup_host("localhost", 443, 5000, list, 2, why, sizeof(why)) >= 1);
    assert_true(addr_is_loopback(&list[0]));
    assert_int_equal(list[0].port, 443);
}

/* What a function prints; the caller frees. */
__attribute__((noinline)) static char *printed(int (*show)(const char *, const struct setup_server *, FILE *),
                     const char *host, const struct setup_server *server, int *status)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        abort();
    *status = show(host, server, out);
    fclose(out);
    return text;
}

static void shows_each_client(void **state)
{
    static const struct {
        const char *host, *path;
        uint16_t dot_port;
        const char *wanted[12];
    } rows[] = {
        {"127.0.0.1",
         "/dns-query",
         853,
         {"  https://127.0.0.1/dns-query{?dns}\n", "  https://127.0.0.1/dns-query\n",
          "(takes a host name only", "  DNS=127.0.0.1\n", "-ServerAddress '127.0.0.1' ",
          "kdig @127.0.0.1 +https=/dns-query "}},
        {"localhost:8443",
         "/q",
         8853,
         {"https://localhost:8443/q{?dns}\n", "takes port 853 only; DoT is on 8853",
          "#localhost", "curl --doh-url https://localhost:8443/q ",
          "kdig -p 8853 @localhost +tls ", "kdig -p 8443 @localhost +https=/q ",
          "pithd --check localhost:8443\n"}},
        {"[::1]:8443",
         "/dns-query",
         8853,
         {"https://[::1]:8443/dns-query\n", "  DNS=[::1]:8853\n", "-ServerAddress '::1'"}},
        {"::1", "/dns-query", 853, {"https://[::1]/dns-query\n", "  DNS=::1\n"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct setup_server server = {.path = rows[i].path, .dot_port = rows[i].dot_port};
        int status;
        char *text = printed(setup_show, rows[i].host, &server, &status);
        assert_int_equal(status, 0);
        for (const char *const *w = rows[i].wanted; *w != NULL; w++) {
            if (strstr(text, *w) == NULL)
                fail_msg("%s: no \"%s\" in\n%s", rows[i].host, *w, text);
        }
        free(text);
    }
}

static void profiles_are_stable(void **state)
{
    const struct setup_server server = {.path = "/dns?a&b", .dot_port = 853};
    int status;

    (void)state;
    char *a = printed(setup_mobileconfig, "dns.example.net", &server, &status);
    assert_int_equal(status, 0);
    char *again = printed(setup_mobileconfig, "dns.example.net", &server, &status);
    char *other = printed(setup_mobileconfig, "dns.example.org", &server, &status);
    assert_string_equal(a, again);
    assert_non_null(strstr(a, "<string>https://dns.example.net/dns?a&amp;b</string>"));
    const char *uuid = strstr(a, "managed.") + strlen("managed.");
    assert_non_null(strstr(uuid, "-8")); /* version 8 */
    assert_null(strstr(other, "dns.example.net"));
    char *copy = strndup(uuid, 36);
    assert_null(strstr(other, copy));
    free(copy);
    free(a);
    free(again);
    free(other);
    a = printed(setup_mobileconfig, "no host", &server, &status);
    assert_int_equal(status, 2);
    free(a);
}

static void encodes_what_it_decodes(void **state)
{
    uint8_t in[80], back[96];
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)(251 * i + 7);
    for (size_t len = 0; len <= sizeof(in); len++) {
        base64url_encode(text, in, len);
        assert_true(strlen(text) < base64url_encoded_size(len));
        assert_int_equal(base64url_decode(back, text, strlen(text)), len);
        assert_memory_equal(back, in, len);
    }
    base64url_encode(text, (const uint8_t *)"\xfb\xff", 2);
    assert_string_equal(text, "-_8");
}

static void queries_are_padded(void **state)
{
    uint8_t query[PROBE_QUERY_SIZE];
    struct dns_query q;
    size_t len = probe_query(query, 0x1234, "www.example.com", true);

    (void)state;
    assert_int_equal(len, 128);
    assert_int_equal(query_parse(&q, query, len), QUERY_OK);
    assert_int_equal(q.id, 0x1234);
    assert_int_equal(q.qtype, 1);
    assert_true(q.has_opt);
    size_t padding;
    assert_non_null(edns_option(q.options, q.options_len, DNS_OPTION_PADDING, &padding));
    len = probe_query(query, 0, "localhost", false);
    assert_int_equal(query_parse(&q, query, len), QUERY_OK);
    assert_int_equal(q.options_len, 0);
    assert_int_equal(probe_query(query, 0, "a..b", false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_hosts),
        cmocka_unit_test(looks_addresses_up),
        cmocka_unit_test(shows_each_client),
        cmocka_unit_test(profiles_are_stable),
        cmocka_unit_test(encodes_what_it_decodes),
        cmocka_unit_test(queries_are_padded),
    };

    return cmocka_run_group_tests_name("setup", tests, NULL, NULL);
}
