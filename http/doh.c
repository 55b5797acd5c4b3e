/* doh.c - requests to queries, replies to responses. */
#include "http/doh.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/metrics.h"
#include "http/base64url.h"
#include "http/json.h"
#include "http/url.h"

_Static_assert((int)JSON_QUERY_MAX <= (int)DOH_INLINE_MSG,
               "JSON questions fit without own memory");

static const char methods_dns[] = "GET, HEAD, POST, OPTIONS";
static const char expected[] = "Only 100-continue can be expected.\n";
static const char methods_resolve[] = "GET, HEAD, OPTIONS";

void doh_init(struct doh_request *r, const struct http_options *options,
              const struct addr *client,
              void (*respond)(struct doh_request *r, const struct http_response *response))
{
    /* All but the inline message, which is big and need not be zero. */
    memset(r, 0, offsetof(struct doh_request, inline_msg));
    r->options = options;
    r->respond = respond;
    r->query.client = *client;
    r->query.handler = options->handler;
    r->query.transport = QUERY_DOH;
    r->msg = r->inline_msg;
    r->size = sizeof(r->inline_msg);
    r->declared = UINT64_MAX;
    r->behind_proxy = options->n_trusted_proxies > 0 &&
                      cidr_any(options->trusted_proxies, options->n_trusted_proxies, client);
}

static void release(struct doh_request *r)
{
    if (r->msg != r->inline_msg) {
        free(r->msg);
        r->msg = r->inline_msg;
        r->size = sizeof(r->inline_msg);
    }
    if (r->parameters) {
        free(r->parameters);
        r->parameters = NULL;
    }
}

void doh_deinit(struct doh_request *r)
{
    if (r->state == DOH_ASKED)
        query_cancel(&r->query);
    r->state = DOH_DONE;
    release(r);
}

size_t doh_memory(const struct doh_request *r)
{
    return r->msg == r->inline_msg ? 0 : r->size;
}

/* Makes room for n octets of message, what is there is kept; false when memory is out. */
static bool reserve(struct doh_request *r, size_t n)
{
    size_t size = r->size;
    uint8_t *mem;

    if (n <= size)
        return true;
    while (size < n)
        size *= 2;
    mem = malloc(size);
    if (!mem)
        return false;
    memcpy(mem, r->msg, r->len);
    if (r->msg != r->inline_msg)
        free(r->msg);
    r->msg = mem;
    r->size = size;
    return true;
}

/* ---- responses */

static void respond(struct doh_request *r, struct http_response *response)
{
    r->state = DOH_DONE;
    metrics_count(M_HTTP_REQUESTS);
    if (response->status >= 400)
        metrics_count(M_HTTP_ERRORS);
    if (r->method == DOH_HEAD)
        response->no_body = true;
    r->respond(r, response);
}

static void respond_error(struct doh_request *r, uint16_t status, const char *text)
{
    struct http_response response = {
        .status = status,
        .media = MEDIA_TEXT,
        .body = (const uint8_t *)text,
        .body_len = strlen(text),
    };

    if (status == 405)
        response.allow = r->resource == DOH_RESOLVE ? methods_resolve : methods_dns;
    log_debug("http: status %u: %s", status, text);
    respond(r, &response);
}

static void respond_options(struct doh_request *r)
{
    struct http_response response = {
        .status = 204,
        .preflight = true,
        .no_body = true,
        .allow = r->resource == DOH_RESOLVE ? methods_resolve : methods_dns,
    };

    respond(r, &response);
}

static void respond_json(struct doh_request *r, struct http_response *response)
{
    char *text = json_answer(response->body, response->body_len, &response->body_len);

    if (!text) {
        respond_error(r, 500, "The answer cannot be written as JSON.\n");
        return;
    }
    response->media = MEDIA_JSON;
    response->body = (const uint8_t *)text;
    respond(r, response);
    free(text);
}

static void on_reply(struct query *q, const struct query_reply *reply)
{
    struct doh_request *r = (struct doh_request *)q;
    struct http_response response = {
        .status = 200,
        .media = MEDIA_MESSAGE,
        .private_answer = reply->private_answer,
        .max_age_s = reply->max_age_s,
        .body = reply->msg,
        .body_len = reply->len,
    };

    switch (reply->verdict) {
    case QUERY_ANSWER:
        if (r->as_json)
            respond_json(r, &response);
        else
            respond(r, &response);
        break;
    case QUERY_LIMITED:
        respond_error(r, 429, "Too many queries; wait a second.\n");
        break;
    case QUERY_MALFORMED:
        respond_error(r, 400, "This is no DNS query.\n");
        break;
    }
}

/* ---- requests */

void doh_method(struct doh_request *r, const char *text, size_t len)
{
    if (len == 3 && memcmp(text, "GET", 3) == 0)
        r->method = DOH_GET;
    else if (len == 4 && memcmp(text, "POST", 4) == 0)
        r->method = DOH_POST;
    else if (len == 4 && memcmp(text, "HEAD", 4) == 0)
        r->method = DOH_HEAD;
    else if (len == 7 && memcmp(text, "OPTIONS", 7) == 0)
        r->method = DOH_OPTIONS;
    else
        r->method = DOH_OTHER;
}

static void dns_parameter(struct doh_request *r, const char *value, size_t len)
{
    size_t n;

    if (r->dns_parameters++ > 0) {
        r->dns_parameters = 2;
        return;
    }
    if (!reserve(r, base64url_size(len))) {
        r->error = 503;
        return;
    }
    n = base64url_decode(r->msg, value, len);
    r->dns_malformed = n == SIZE_MAX;
    r->len = r->dns_malformed ? 0 : n;
}

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static void parameter(struct doh_request *r, const char *text, size_t len)
{
    if (len >= 4 && memcmp(text, "dns=", 4) == 0) {
        dns_parameter(r, text + 4, len - 4);
    } else if (len >= 5 && memcmp(text, "name=", 5) == 0) {
        r->name_parameter = true;
    } else if (len >= 3 && memcmp(text, "ct=", 3) == 0) {
        r->wants_json |= is(text, len, "ct=application/dns-json");
        r->wants_message |= is(text, len, "ct=application/dns-message");
    }
}

/* The parameters of a target, "a=b&dns=...". Escapes are rare and cost a copy. */
static void parameters(struct doh_request *r, const char *text, size_t len)
{
    const char *end = text + len;
    char plain[DOH_HEADERS_MAX];

    for (const char *p = text; p < end;) {
        const char *amp = memchr(p, '&', (size_t)(end - p));
        size_t n = (size_t)((amp ? amp : end) - p);

        if (n <= sizeof(plain) && memchr(p, '%', n))
            parameter(r, plain, url_unescape(plain, p, n));
        else
            parameter(r, p, n);
        p += n + 1;
    }
    if (!r->options->json || !r->name_parameter || r->dns_parameters > 0 || r->parameters)
        return;
    r->parameters = strndup(text, len);
    if (!r->parameters)
        r->error = 503;
}

void doh_target(struct doh_request *r, const char *text, size_t len)
{
    const char *question = memchr(text, '?', len);
    size_t path_len = question ? (size_t)(question - text) : len;

    r->resource = DOH_NOTHING;
    for (size_t i = 0; i < r->options->n_paths; i++) {
        const char *path = r->options->paths[i];

        if (strncmp(path, text, path_len) == 0 && path[path_len] == 0)
            r->resource = DOH_DNS;
    }
    if (r->resource == DOH_NOTHING && is(text, path_len, "*"))
        r->resource = DOH_ASTERISK;
    if (r->resource == DOH_NOTHING && r->options->json && is(text, path_len, "/resolve"))
        r->resource = DOH_RESOLVE;
    if (question && (r->resource == DOH_DNS || r->resource == DOH_RESOLVE))
        parameters(r, question + 1, len - path_len - 1);
}

/* A media type without its parameters, in any case (RFC 9110 8.3.1). */
static uint8_t media_type(const char *value, size_t len)
{
    static const char message[] = "application/dns-message";
    const char *semicolon = memchr(value, ';', len);

    if (semicolon)
        len = (size_t)(semicolon - value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    if (len == sizeof(message) - 1 && strncasecmp(value, message, len) == 0)
        return MEDIA_MESSAGE;
    return MEDIA_OTHER;
}

/* application/dns-json stands in an Accept field, whatever its weight. */
static bool accepts_json(const char *value, size_t len)
{
    static const char json[] = "application/dns-json";

    for (; len >= sizeof(json) - 1; value++, len--)
        if (strncasecmp(value, json, sizeof(json) - 1) == 0)
            return true;
    return false;
}

/* Octets a body is said to have; what is no number counts as too many. */
static uint64_t content_length(const char *value, size_t len)
{
    uint64_t n = 0;

    if (len == 0 || len > 18)
        return UINT64_MAX - 1;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return UINT64_MAX - 1;
        n = n * 10 + (uint64_t)(value[i] - '0');
    }
    return n;
}

void doh_field(struct doh_request *r, const char *name, size_t name_len, const char *value,
               size_t value_len)
{
    const struct http_options *o = r->options;

    r->headers += name_len + value_len + 32;
    if (r->headers > DOH_HEADERS_MAX) {
        r->error = 431;
        return;
    }
    switch (name_len) {
    case 6:
        if (r->name_parameter && memcmp(name, "accept", 6) == 0)
            r->wants_json |= accepts_json(value, value_len);
        if (memcmp(name, "expect", 6) == 0) {
            r->expects = value_len == 12 && strncasecmp(value, "100-continue", 12) == 0;
            if (!r->expects)
                r->error = 417;
        }
        break;
    case 9:
        if (r->behind_proxy && memcmp(name, "forwarded", 9) == 0)
            forwarded_std(&r->forwarded, value, value_len, o->trusted_proxies,
                          o->n_trusted_proxies);
        break;
    case 12:
        if (memcmp(name, "content-type", 12) == 0)
            r->media = media_type(value, value_len);
        break;
    case 14:
        if (memcmp(name, "content-length", 14) == 0)
            r->declared = content_length(value, value_len);
        break;
    case 15:
        if (r->behind_proxy && memcmp(name, "x-forwarded-for", 15) == 0)
            forwarded_x(&r->forwarded, value, value_len, o->trusted_proxies,
                        o->n_trusted_proxies);
        break;
    }
}

void doh_headers(struct doh_request *r, bool body)
{
    if (r->method == DOH_POST)
        r->len = 0; /* a dns parameter means nothing here */
    if (r->error == 431)
        respond_error(r, 431, "Too many or too long header fields.\n");
    else if (body && r->error == 417) /* the body may wait for it */
        respond_error(r, 417, expected);
    else if (body && r->declared != UINT64_MAX && r->declared > DOH_BODY_MAX)
        respond_error(r, 413, "A DNS message has at most 65535 octets.\n");
}

void doh_body(struct doh_request *r, const uint8_t *data, size_t len)
{
    if (r->state != DOH_READING)
        return;
    r->received += len;
    if (r->received > DOH_BODY_MAX) {
        respond_error(r, 413, "A DNS message has at most 65535 octets.\n");
        return;
    }
    if (r->method != DOH_POST || r->error != 0)
        return;
    if (!reserve(r, r->len + len)) {
        r->error = 503;
        return;
    }
    memcpy(r->msg + r->len, data, len);
    r->len += len;
}

static void ask(struct doh_request *r)
{
    struct query *q = &r->query;

    if (r->behind_proxy)
        q->client = forwarded_client(&r->forwarded, &q->client);
    q->msg = r->msg;
    q->msg_len = r->len;
    q->on_reply = on_reply;
    r->state = DOH_ASKED;
    query_submit(q);
    release(r); /* the query is only borrowed until here */
}

/* The query comes from name= and the like; it fits into the inline message. */
static void ask_json(struct doh_request *r)
{
    const char *text = r->parameters ? r->parameters : "", *why;

    r->len = json_query(r->msg, text, strlen(text), &why);
    r->as_json = !r->wants_message;
    if (r->len == 0)
        respond_error(r, 400, why);
    else
        ask(r);
}

static void end_get(struct doh_request *r)
{
    if (r->resource == DOH_RESOLVE || (r->parameters && r->wants_json))
        ask_json(r);
    else if (r->dns_parameters == 0)
        respond_error(r, 400, "The parameter dns is missing (RFC 8484 4.1).\n");
    else if (r->dns_parameters > 1)
        respond_error(r, 400, "More than one parameter dns.\n");
    else if (r->dns_malformed)
        respond_error(r, 400, "The parameter dns is not base64url (RFC 4648 5).\n");
    else
        ask(r);
}

void doh_end(struct doh_request *r)
{
    if (r->state != DOH_READING)
        return;
    if (r->error != 0)
        respond_error(r, r->error, r->error == 417 ? expected : "Out of memory.\n");
    else if (r->resource == DOH_NOTHING)
        respond_error(r, 404, "Nothing here.\n");
    else if (r->method == DOH_OPTIONS)
        respond_options(r);
    else if (r->resource == DOH_ASTERISK || r->method == DOH_OTHER)
        respond_error(r, 405, "This method has no meaning here.\n");
    else if (r->method != DOH_POST)
        end_get(r);
    else if (r->resource == DOH_RESOLVE)
        respond_error(r, 405, "This method has no meaning here.\n");
    else if (r->media != MEDIA_MESSAGE)
        respond_error(r, 415, "The body has to be application/dns-message.\n");
    else
        ask(r);
}

void doh_refuse(struct doh_request *r, uint16_t status)
{
    if (r->state == DOH_READING)
        respond_error(r, status, "This is no request that HTTP allows.\n");
}
