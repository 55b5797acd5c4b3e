/* forwarded.c - the walk over hops.
 *
 * The rule reads from the right, the fields come from the left, so the answer is carried along:
 * an untrusted hop replaces whatever was found before it, a trusted one stands only when
 * nothing was, and something that is no address wipes the slate. */
#include "http/forwarded.h"

#include <string.h>
#include <strings.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && is_space((*text)[*len - 1]))
        (*len)--;
    while (*len > 0 && is_space(**text)) {
        (*text)++;
        (*len)--;
    }
}

/* An address with or without a port or brackets; mapped IPv4 becomes IPv4. */
static bool parse_hop(struct addr *out, const char *text, size_t len)
{
    char copy[ADDR_TEXT_SIZE];
    struct sockaddr_storage ss;

    if (len == 0 || len >= sizeof(copy) || memchr(text, 0, len) || memchr(text, '%', len))
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    if (!addr_parse(out, copy, 0) || addr_to_sockaddr(out, &ss) == 0)
        return false;
    return addr_from_sockaddr(out, (const struct sockaddr *)&ss);
}

static void hop(struct addr *found, const char *text, size_t len, const struct cidr *trusted,
                size_t n_trusted)
{
    struct addr a;

    if (!parse_hop(&a, text, len))
        *found = (struct addr){0};
    else if (found->family == ADDR_NONE || !cidr_any(trusted, n_trusted, &a))
        *found = a;
}

void forwarded_x(struct forwarded *f, const char *value, size_t len, const struct cidr *trusted,
                 size_t n_trusted)
{
    const char *end = value + len;

    f->seen_x = true;
    for (const char *p = value, *comma; p <= end; p = comma + 1) {
        comma = memchr(p, ',', (size_t)(end - p));
        if (!comma)
            comma = end;
        const char *text = p;
        size_t n = (size_t)(comma - p);
        trim(&text, &n);
        if (n > 0) /* empty elements of a list are nothing (RFC 9110 5.6.1.2) */
            hop(&f->for_x, text, n, trusted, n_trusted);
    }
}

/* Length up to the next `,` (or `;`, when pairs) outside quotes. A quote that nobody closes is
 * none, from here to the end of the line (*quotes becomes false): else who writes one into a
 * field that a proxy makes longer would hide what the proxy says. */
static size_t element_len(const char *p, const char *end, bool pairs, bool *quotes)
{
    const char *at = p;
    bool quoted = false;

    for (; at < end; at++) {
        if (*at == '"' && *quotes)
            quoted = !quoted;
        else if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (!quoted && (*at == ',' || (pairs && *at == ';')))
            break;
    }
    if (!quoted)
        return (size_t)(at - p);
    *quotes = false;
    return element_len(p, end, pairs, quotes);
}

/* The hop of one forwarded-element (RFC 7239 4): its `for` parameter, quoted or a token. */
static void element(struct addr *found, const char *p, const char *end,
                    const struct cidr *trusted, size_t n_trusted)
{
    const char *text = "";
    size_t n = 0;
    bool quotes = true;

    while (p < end) {
        const char *pair = p;
        size_t pair_len = element_len(p, end, true, &quotes);

        p += pair_len + 1;
        trim(&pair, &pair_len);
        if (pair_len > 4 && strncasecmp(pair, "for=", 4) == 0) {
            text = pair + 4;
            n = pair_len - 4;
            if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
                text++;
                n -= 2;
            }
        }
    }
    hop(found, text, n, trusted, n_trusted);
}

void forwarded_std(struct forwarded *f, const char *value, size_t len,
                   const struct cidr *trusted, size_t n_trusted)
{
    const char *end = value + len;
    bool quotes = true;

    for (const char *p = value; p <= end;) {
        const char *text = p;
        size_t n = element_len(p, end, false, &quotes);

        p += n + 1;
        trim(&text, &n);
        if (n > 0)
            element(&f->for_std, text, text + n, trusted, n_trusted);
    }
}

struct addr forwarded_client(const struct forwarded *f, const struct addr *peer)
{
    const struct addr *a = f->seen_x ? &f->for_x : &f->for_std;

    return a->family == ADDR_NONE ? *peer : *a;
}
