/* h1_parse.c - request line, field lines, chunk lines. */
#include "http/h1_parse.h"

#include <string.h>
#include <strings.h>

enum { TOKEN = 1, VALUE = 2, TARGET = 4, HOST = 8 };

#define T (TOKEN | VALUE | TARGET)
#define H (TOKEN | VALUE | TARGET | HOST)
#define V (VALUE | TARGET)
#define W (VALUE | TARGET | HOST)

/* Which octets may stand where: in a token (RFC 9110 5.6.2), in a field value (5.5: visible,
 * space, tab, 0x80-0xff), in a request target (visible ASCII), in Host (RFC 3986 3.2.2, 3.2.3).
 */
static const uint8_t classes[256] = {
    ['\t'] = VALUE,    [' '] = VALUE,
    ['!'] = H,         ['"'] = V,
    ['#'] = T,         ['$'] = H,
    ['%'] = H,         ['&'] = H,
    ['\''] = H,        ['('] = W,
    [')'] = W,         ['*'] = H,
    ['+'] = H,         [','] = V,
    ['-'] = H,         ['.'] = H,
    ['/'] = V,         ['0' ... '9'] = H,
    [':'] = W,         [';'] = W,
    ['<'] = V,         ['='] = W,
    ['>'] = V,         ['?'] = V,
    ['@'] = V,         ['A' ... 'Z'] = H,
    ['['] = W,         ['\\'] = V,
    [']'] = W,         ['^'] = T,
    ['_'] = H,         ['`'] = T,
    ['a' ... 'z'] = H, ['{'] = V,
    ['|'] = T,         ['}'] = V,
    ['~'] = H,         [0x80 ... 0xff] = VALUE,
};

/* Octets at the start of text that are of a class. */
static size_t span(const char *text, size_t len, uint8_t class)
{
    size_t n = 0;

    while (n < len && (classes[(uint8_t)text[n]] & class))
        n++;
    return n;
}

static bool is_text(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

uint16_t h1_request_line(struct h1_head *h, const char *line, size_t len)
{
    const char *end = line + len, *p = line;

    h->method = p;
    h->method_len = span(p, len, TOKEN);
    p += h->method_len;
    if (h->method_len == 0 || p == end || *p++ != ' ')
        return 400;
    h->target = p;
    h->target_len = span(p, (size_t)(end - p), TARGET);
    p += h->target_len;
    if (h->target_len == 0 || end - p != 9 || memcmp(p, " HTTP/", 6) != 0 || p[7] != '.')
        return 400;
    if (p[6] < '0' || p[6] > '9' || p[8] < '0' || p[8] > '9')
        return 400;
    if (p[6] != '1')
        return 505;
    h->minor = p[8] == '0' ? 0 : 1; /* a later minor version is at least 1.1 (RFC 9110 2.5) */
    return 0;
}

static uint16_t content_length(struct h1_head *h, const char *value, size_t len)
{
    uint64_t n = 0;

    /* Twice, the same or not, or as a list: one of us and the proxy could take the other one.
     */
    if (h->has_length || len == 0 || len > 18)
        return 400;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return 400;
        n = n * 10 + (uint64_t)(value[i] - '0');
    }
    h->has_length = true;
    h->length = n;
    return 0;
}

static void connection(struct h1_head *h, const char *value, size_t len)
{
    const char *end = value + len;

    while (value < end) {
        size_t n = span(value, (size_t)(end - value), TOKEN);

        if (is_text(value, n, "close"))
            h->close = true;
        else if (is_text(value, n, "keep-alive"))
            h->keep_alive = true;
        value += n > 0 ? n : 1;
    }
}

/* The fields that decide where a request ends, and Host. */
static uint16_t framing_field(struct h1_head *h, const struct http_field *f)
{
    const char *name = f->name, *value = f->value;
    size_t len = f->value_len;

    switch (f->name_len) {
    case 4:
        if (memcmp(name, "host", 4) != 0)
            return 0;
        if (h->host || span(value, len, HOST) != len)
            return 400;
        h->host = true;
        return 0;
    case 10:
        if (memcmp(name, "connection", 10) == 0)
            connection(h, value, len);
        return 0;
    case 14:
        return memcmp(name, "content-length", 14) == 0 ? content_length(h, value, len) : 0;
    case 17:
        if (memcmp(name, "transfer-encoding", 17) != 0)
            return 0;
        if (h->chunked || h->minor == 0 || !is_text(value, len, "chunked"))
            return 400;
        h->chunked = true;
        return 0;
    default:
        return 0;
    }
}

uint16_t h1_field_line(struct h1_head *h, const char *line, size_t len,
                       struct http_field *field, char *lower)
{
    size_t n = span(line, len, TOKEN);
    const char *value = line + n + 1;

    if (n == 0 || n == len || line[n] != ':') /* folded, space before the colon, no colon */
        return 400;
    len -= n + 1;
    if (span(value, len, VALUE) != len)
        return 400;
    while (len > 0 && (*value == ' ' || *value == '\t')) {
        value++;
        len--;
    }
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    *field = (struct http_field){line, value, n, len, false};
    if (n > DOH_NAME_MAX)
        return 0;
    for (size_t i = 0; i < n; i++)
        lower[i] = line[i] >= 'A' && line[i] <= 'Z' ? (char)(line[i] | 0x20) : line[i];
    field->name = lower;
    return framing_field(h, field);
}

uint16_t h1_head_end(const struct h1_head *h)
{
    if (h->minor > 0 && !h->host)
        return 400;
    return h->has_length && h->chunked ? 400 : 0;
}

bool h1_chunk_line(const char *line, size_t len, uint64_t *size)
{
    size_t i = 0;

    *size = 0;
    for (; i < len; i++) {
        char c = line[i] | 0x20;
        int digit = line[i] >= '0' && line[i] <= '9' ? line[i] - '0'
                    : c >= 'a' && c <= 'f'           ? c - 'a' + 10
                                                     : -1;
        if (digit < 0)
            break;
        *size = *size << 4 | (uint64_t)digit;
    }
    if (i == 0 || i > 15)
        return false;
    if (i == len)
        return true;
    /* Extensions start with `;`, for some senders after spaces. */
    while (i < len && (line[i] == ' ' || line[i] == '\t'))
        i++;
    return i < len && line[i] == ';' && span(line + i, len - i, VALUE) == len - i;
}

bool h1_target(const char **target, size_t *len)
{
    const char *p = *target, *end = p + *len;

    if (*p == '/' || (*p == '*' && *len == 1))
        return true;
    if (*len > 7 && strncasecmp(p, "http://", 7) == 0)
        p += 7;
    else if (*len > 8 && strncasecmp(p, "https://", 8) == 0)
        p += 8;
    else
        return false;
    while (p < end && *p != '/' && *p != '?')
        p++;
    if (p < end && *p == '?')
        return false; /* no path but a query: none of ours */
    *target = p < end ? p : "/";
    *len = p < end ? (size_t)(end - p) : 1;
    return true;
}
