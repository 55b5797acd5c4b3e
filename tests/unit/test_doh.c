/* test_doh.c - requests to queries and replies to responses, without an HTTP version around. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/date.h"
#include "http/doh.h"
#include "http_fake.h"

/* www.example.com A, ID 0, RD. */
#define Q1 "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"
/* The same with ID fbff, which has both characters where the alphabets differ. */
#define Q1B "-_8BAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB"

static const char *const paths[] = {"/dns-query", "/second/path"};
static struct fake_handler handler;
static struct http_options options;
static struct cidr proxies[1];

struct seen {
    struct doh_request r; /* first */
    unsigned n;
    int status;
    uint8_t media;
    bool no_body;
    const char *allow;
    uint8_t *body;
    size_t len;
};

static void on_response(struct doh_request *r, const struct http_response *response)
{
    struct seen *s = (struct seen *)r;

    s->n++;
    s->status = response->status;
    s->media = response->media;
    s->no_body = response->no_body;
    s->allow = response->allow;
    s->len = response->body_len;
    free(s->body);
    s->body = malloc(s->len + 1);
    if (s->len > 0)
        memcpy(s->body, response->body, s->len);
}

static int setup(void **state)
{
    struct seen *s = calloc(1, sizeof(*s));
    struct addr client;

    fake_handler_init(&handler);
    options = (struct http_options){.handler = &handler.handler,
                                    .paths = paths,
                                    .n_paths = 2,
                                    .json = true,
                                    .trusted_proxies = proxies,
                                    .n_trusted_proxies = 1};
    assert_true(cidr_parse(&proxies[0], "127.0.0.1"));
    assert_true(addr_parse(&client, "127.0.0.1:1", 0));
    doh_init(&s->r, &options, &client, on_response);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct seen *s = *state;

    doh_deinit(&s->r);
    free(s->body);
    free(s);
    return 0;
}

static void restart(struct seen *s)
{
    struct addr client;

    doh_deinit(&s->r);
    assert_true(addr_parse(&client, "127.0.0.1:1", 0));
    doh_init(&s->r, &options, &client, on_response);
    s->n = 0;
    s->status = 0;
    handler.msg_len = 0;
}

static void field(struct seen *s, const char *name, const char *value)
{
    doh_field(&s->r, name, strlen(name), value, strlen(value));
}

static int ask(struct seen *s, const char *method, const char *target, const char *name,
               const char *value)
{
    restart(s);
    doh_method(&s->r, method, strlen(method));
    doh_target(&s->r, target, strlen(target));
    if (name)
        field(s, name, value);
    doh_headers(&s->r, false);
    doh_end(&s->r);
    assert_int_equal(s->n, 1);
    return s->status;
}

static int get(struct seen *s, const char *target)
{
    return ask(s, "GET", target, NULL, NULL);
}

static void targets(void **state)
{
    static const struct {
        const char *target;
        int status;
        uint8_t first; /* octet of the query, when one was asked */
    } rows[] = {
        {"/dns-query?dns=" Q1, 200, 0},
        {"/second/path?dns=" Q1, 200, 0},
        {"/dns-query?dns=" Q1B, 200, 0xfb},
        /* doh-server#47: the standard alphabet is another one, and `+` no space */
        {"/dns-query?dns=+/8BAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", 400, 0},
        {"/dns-query?dns=%2B%2F8BAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", 400, 0},
        /* unbound#503: padding */
        {"/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE", 200, 0},
        {"/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE=", 200, 0},
        {"/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE%3D", 200, 0},
        {"/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE%3d", 200, 0},
        {"/dns-query?dns=AAABAAABAAAAAAAAAmFhAmJiAAABAAE==", 400, 0},
        /* knot#746: other parameters before and after, escapes */
        {"/dns-query?ct=application/dns-message&dns=" Q1 "&random_padding=abc", 200, 0},
        {"/dns-query?dns=AAAB%41AABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB", 200, 0},
        {"/dns-query?d%6es=" Q1, 200, 0},
        {"/dns-query?a&&=&dns=" Q1 "&", 200, 0},
        {"/dns-query?dns=" Q1 "&dns=" Q1, 400, 0},
        {"/dns-query?dns=" Q1 "%", 400, 0},
        {"/dns-query?dns=" Q1 "%4", 400, 0},
        {"/dns-query?dns=" Q1 "%zz", 400, 0},
        {"/dns-query?dns=" Q1 "%00", 400, 0},
        {"/dns-query?dns=", 400, 0},
        {"/dns-query?dns", 400, 0},
        {"/dns-query?DNS=" Q1, 400, 0},
        {"/dns-query?xdns=" Q1, 400, 0},
        {"/dns-query?dns=AAABAA", 400, 0}, /* under 12 octets */
        {"/dns-query?", 400, 0},
        {"/dns-query", 400, 0},
        {"/dns-query/?dns=" Q1, 404, 0},
        {"/DNS-query?dns=" Q1, 404, 0},
        {"/dns-quer?dns=" Q1, 404, 0},
        {"/?dns=" Q1, 404, 0},
        {"?dns=" Q1, 404, 0},
        {"", 404, 0},
        {"*", 405, 0},
    };
    struct seen *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (get(s, rows[i].target) != rows[i].status)
            fail_msg("%s: %d", rows[i].target, s->status);
        if (s->status == 200)
            assert_int_equal(handler.msg[0], rows[i].first);
    }
}

static void json(void **state)
{
    struct seen *s = *state;

    assert_int_equal(get(s, "/resolve?name=example.com&type=AAAA"), 200);
    assert_int_equal(s->media, MEDIA_JSON);
    assert_non_null(memmem(s->body, s->len, "\"example.com.\"", 14));
    assert_int_equal(get(s, "/resolve?name=example.com&ct=application/dns-message"), 200);
    assert_int_equal(s->media, MEDIA_MESSAGE);
    assert_int_equal(get(s, "/resolve"), 400);
    assert_int_equal(get(s, "/resolve?type=A"), 400);
    assert_int_equal(get(s, "/resolve?name=example.com&type=x"), 400);
    assert_int_equal(ask(s, "POST", "/resolve?name=example.com", NULL, NULL), 405);
    assert_string_equal(s->allow, "GET, HEAD, OPTIONS");
    assert_int_equal(ask(s, "HEAD", "/resolve?name=example.com", NULL, NULL), 200);
    assert_true(s->no_body && s->len > 0);
    /* on the paths of RFC 8484 only for who asks for that type */
    assert_int_equal(get(s, "/dns-query?name=example.com"), 400);
    assert_int_equal(get(s, "/dns-query?ct=application/dns-json&name=example.com"), 200);
    assert_int_equal(s->media, MEDIA_JSON);
    assert_int_equal(ask(s, "GET", "/dns-query?name=example.com", "accept",
                         "text/html, Application/DNS-json;q=0.5"),
                     200);
    assert_int_equal(s->media, MEDIA_JSON);
    assert_int_equal(ask(s, "GET", "/dns-query?name=example.com", "accept", "*/*"), 400);
    assert_int_equal(
        ask(s, "GET", "/dns-query?dns=" Q1 "&name=a", "accept", "application/dns-json"), 200);
    assert_int_equal(s->media, MEDIA_MESSAGE);
    options.json = false;
    assert_int_equal(get(s, "/resolve?name=example.com"), 404);
    assert_int_equal(get(s, "/dns-query?ct=application/dns-json&name=example.com"), 400);
}

static void accept_is_not_needed(void **state)
{
    struct seen *s = *state;

    assert_int_equal(ask(s, "GET", "/dns-query?dns=" Q1, "accept", "*/*"), 200);
    assert_int_equal(ask(s, "GET", "/dns-query?dns=" Q1, "accept", "text/html"), 200);
    assert_int_equal(
        ask(s, "GET", "/dns-query?dns=" Q1, "accept", "application/dns-message;q=0.9, */*"),
        200);
}

/* Each request has the client of its own fields (pdns#11621). */
static void clients(void **state)
{
    struct seen *s = *state;
    struct addr a, b, peer;

    assert_true(addr_parse(&a, "192.0.2.1", 0));
    assert_true(addr_parse(&b, "2001:db8::1", 0));
    assert_true(addr_parse(&peer, "127.0.0.1", 0));
    ask(s, "GET", "/dns-query?dns=" Q1, "x-forwarded-for", "10.9.9.9, 192.0.2.1");
    assert_true(addr_ip_equal(&handler.client, &a));
    ask(s, "GET", "/dns-query?dns=" Q1, "forwarded", "for=\"[2001:db8::1]\"");
    assert_true(addr_ip_equal(&handler.client, &b));
    ask(s, "GET", "/dns-query?dns=" Q1, NULL, NULL);
    assert_true(addr_ip_equal(&handler.client, &peer));
    options.n_trusted_proxies = 0;
    ask(s, "GET", "/dns-query?dns=" Q1, "x-forwarded-for", "192.0.2.1");
    assert_true(addr_ip_equal(&handler.client, &peer));
    options.n_trusted_proxies = 1;
    assert_true(cidr_parse(&proxies[0], "127.0.0.2"));
    ask(s, "GET", "/dns-query?dns=" Q1, "x-forwarded-for", "192.0.2.1");
    assert_true(addr_ip_equal(&handler.client, &peer));
}

/* The method may come after the target, and a body with GET means nothing. */
static void order_and_bodies(void **state)
{
    struct seen *s = *state;

    doh_target(&s->r, "/dns-query?dns=" Q1, strlen("/dns-query?dns=" Q1));
    doh_method(&s->r, "GET", 3);
    doh_headers(&s->r, true);
    doh_body(&s->r, (const uint8_t *)"garbage", 7);
    doh_end(&s->r);
    assert_int_equal(s->status, 200);
    assert_int_equal(handler.msg_len, 33);

    restart(s);
    doh_target(&s->r, "/dns-query?dns=" Q1, strlen("/dns-query?dns=" Q1));
    doh_method(&s->r, "POST", 4);
    field(s, "content-type", "application/dns-message");
    doh_headers(&s->r, true);
    for (int i = 0; i < 1000; i++)
        doh_body(&s->r, (const uint8_t *)"0123456789abc", 13);
    assert_int_equal(s->n, 0);
    doh_end(&s->r);
    doh_end(&s->r);
    assert_int_equal(s->n, 1);
    assert_int_equal(handler.msg_len, 13000);
    assert_memory_equal(handler.msg + 12987, "0123456789abc", 13);

    restart(s);
    doh_method(&s->r, "POST", 4);
    doh_target(&s->r, "/dns-query", 10);
    field(s, "content-type", "application/dns-message");
    doh_headers(&s->r, false);
    doh_end(&s->r);
    assert_int_equal(s->status, 400);
}

static void fields_of_responses(void **state)
{
    struct http_field f[RESPONSE_FIELDS_MAX];
    char scratch[RESPONSE_SCRATCH];
    struct http_response r = {.status = 429,
                              .media = MEDIA_TEXT,
                              .body_len = 65535,
                              .preflight = true,
                              .allow = "GET",
                              .max_age_s = UINT32_MAX,
                              .private_answer = true};
    size_t n;

    (void)state;
    options.cors = "https://a.example";
    n = response_fields(&r, &options, http_date(0), f, scratch);
    assert_int_equal(n, 10);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(strlen(f[i].name), f[i].name_len);
    assert_memory_equal(f[1].value, "65535", 5);
    assert_int_equal(f[2].value_len, strlen("private, max-age=4294967295"));
    assert_memory_equal(f[2].value, "private, max-age=4294967295", f[2].value_len);
    assert_memory_equal(f[4].value, "https://a.example", 17);
    options.cors = NULL;
    assert_int_equal(response_fields(&r, &options, http_date(0), f, scratch), 6);
}

static void dates(void **state)
{
    (void)state;
    assert_string_equal(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_string_equal(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(http_date(4107542399), "Sun, 28 Feb 2100 23:59:59 GMT");
    assert_int_equal(strlen(http_date(1)), HTTP_DATE_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(targets, setup, teardown),
        cmocka_unit_test_setup_teardown(json, setup, teardown),
        cmocka_unit_test_setup_teardown(accept_is_not_needed, setup, teardown),
        cmocka_unit_test_setup_teardown(clients, setup, teardown),
        cmocka_unit_test_setup_teardown(order_and_bodies, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_of_responses, setup, teardown),
        cmocka_unit_test(dates),
    };

    return cmocka_run_group_tests_name("doh", tests, NULL, NULL);
}
