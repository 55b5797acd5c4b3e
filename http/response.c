/* response.c - header fields and reason phrases. */
#include "http/response.h"

#include <string.h>

#include "http/date.h"

/* Decimal digits of n at out, returns how many. */
static size_t digits(char *out, uint32_t n)
{
    char reversed[10];
    size_t len = 0;

    do
        reversed[len++] = (char)('0' + n % 10);
    while (n /= 10);
    for (size_t i = 0; i < len; i++)
        out[i] = reversed[len - 1 - i];
    return len;
}

#define FIELD(name, value)                                                                     \
    (struct http_field)                                                                        \
    {                                                                                          \
        name, value, sizeof(name) - 1, sizeof(value) - 1, false                                \
    }

static struct http_field cache_control(const struct http_response *response, char *scratch)
{
    static const char own[] = "private, max-age=", any[] = "max-age=";
    struct http_field f = FIELD("cache-control", "no-store");

    if (response->max_age_s == 0)
        return f;
    f.value = scratch;
    f.varies = true;
    if (response->private_answer) {
        memcpy(scratch, own, sizeof(own) - 1);
        scratch += sizeof(own) - 1;
    } else {
        memcpy(scratch, any, sizeof(any) - 1);
        scratch += sizeof(any) - 1;
    }
    scratch += digits(scratch, response->max_age_s);
    f.value_len = (size_t)(scratch - f.value);
    return f;
}

size_t response_fields(const struct http_response *response, const struct http_options *options,
                       const char *date, struct http_field *out, char *scratch)
{
    static const struct http_field types[] = {
        [MEDIA_MESSAGE] = {"content-type", "application/dns-message", 12, 23, false},
        [MEDIA_JSON] = {"content-type", "application/dns-json", 12, 20, false},
        [MEDIA_TEXT] = {"content-type", "text/plain; charset=utf-8", 12, 25, false},
    };
    struct http_field *f = out;

    if (response->media != MEDIA_NONE) {
        *f++ = types[response->media];
        *f++ = (struct http_field){"content-length", scratch, 14,
                                   digits(scratch, (uint32_t)response->body_len), true};
    }
    *f++ = cache_control(response, scratch + 16);
    *f++ = (struct http_field){"date", date, 4, HTTP_DATE_LEN, false};
    if (options->cors)
        *f++ = (struct http_field){"access-control-allow-origin", options->cors, 27,
                                   strlen(options->cors), false};
    if (response->allow)
        *f++ = (struct http_field){"allow", response->allow, 5, strlen(response->allow), false};
    if (response->preflight && options->cors) {
        *f++ = (struct http_field){"access-control-allow-methods", response->allow, 28,
                                   strlen(response->allow), false};
        *f++ = FIELD("access-control-allow-headers", "content-type, accept");
        *f++ = FIELD("access-control-max-age", "86400");
    }
    if (response->status == 429)
        *f++ = FIELD("retry-after", "1");
    return (size_t)(f - out);
}

const char *response_reason(uint16_t status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 414:
        return "URI Too Long";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 417:
        return "Expectation Failed";
    case 429:
        return "Too Many Requests";
    case 431:
        return "Request Header Fields Too Large";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Error";
    }
}
