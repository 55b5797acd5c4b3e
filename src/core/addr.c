/* addr.c - IP addresses, ports and prefixes. */
#include "core/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static void set_v4(struct addr *a, const uint8_t *ip)
{
    a->family = ADDR_V4;
    memset(a->ip, 0, sizeof a->ip);
    memcpy(a->ip, ip, 4);
}

bool addr_from_sockaddr(struct addr *out, const struct sockaddr *sa)
{
    *out = (struct addr){0};
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in sin;

        memcpy(&sin, sa, sizeof sin);
        set_v4(out, (const uint8_t *)&sin.sin_addr);
        out->port = ntohs(sin.sin_port);
        return true;
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 sin6;
        const uint8_t *ip = (const uint8_t *)&sin6.sin6_addr;

        memcpy(&sin6, sa, sizeof sin6);
        out->port = ntohs(sin6.sin6_port);
        if (memcmp(ip, mapped_prefix, sizeof mapped_prefix) == 0) {
            set_v4(out, ip + sizeof mapped_prefix);
            return true;
        }
        out->family = ADDR_V6;
        memcpy(out->ip, ip, 16);
        out->scope_id = sin6.sin6_scope_id;
        return true;
    }
    return false;
}

socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (a->family == ADDR_V4) {
        struct sockaddr_in *sin = (struct sockaddr_in *)out;

        sin->sin_family = AF_INET;
        sin->sin_port = htons(a->port);
        memcpy(&sin->sin_addr, a->ip, 4);
        return sizeof *sin;
    }
    if (a->family == ADDR_V6) {
        struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;

        sin6->sin6_family = AF_INET6;
        sin6->sin6_port = htons(a->port);
        sin6->sin6_scope_id = a->scope_id;
        memcpy(&sin6->sin6_addr, a->ip, 16);
        return sizeof *sin6;
    }
    return 0;
}

static bool parse_port(uint16_t *out, const char *text)
{
    unsigned long port = 0;
    size_t n = strlen(text);

    if (n < 1 || n > 5 || strspn(text, "0123456789") != n)
        return false;
    port = strtoul(text, NULL, 10);
    if (port > 65535)
        return false;
    *out = (uint16_t)port;
    return true;
}

static bool parse_scope(uint32_t *out, const char *text)
{
    size_t n = strlen(text);

    if (n == 0)
        return false;
    if (strspn(text, "0123456789") == n && n <= 9)
        *out = (uint32_t)strtoul(text, NULL, 10);
    else
        *out = if_nametoindex(text);
    return *out != 0;
}

/* host is a writable copy. */
static bool parse_ip(struct addr *out, char *host)
{
    uint8_t ip[16];
    char *scope;

    if (inet_pton(AF_INET, host, ip) == 1) {
        set_v4(out, ip);
        return true;
    }
    scope = strchr(host, '%');
    if (scope) {
        *scope++ = '\0';
        if (!parse_scope(&out->scope_id, scope))
            return false;
    }
    if (inet_pton(AF_INET6, host, ip) != 1)
        return false;
    out->family = ADDR_V6;
    memcpy(out->ip, ip, 16);
    return true;
}

bool addr_parse(struct addr *out, const char *text, uint16_t default_port)
{
    char host[ADDR_TEXT_SIZE];
    char *end, *port = NULL;
    char *start = host;

    *out = (struct addr){.port = default_port};
    if (strlen(text) >= sizeof host)
        return false;
    strcpy(host, text);
    if (*host == '[') {
        start++;
        end = strchr(start, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
        if (end[1] == ':')
            port = end + 2;
        *end = '\0';
        if (!strchr(start, ':'))
            return false;
    } else {
        end = strchr(host, ':');
        if (end && !strchr(end + 1, ':')) { /* more than one colon: IPv6 */
            port = end + 1;
            *end = '\0';
        }
    }
    if (port && !parse_port(&out->port, port))
        return false;
    return parse_ip(out, start);
}

const char *addr_format_ip(const struct addr *a, char *out)
{
    char scope[16] = "";

    if (!inet_ntop(a->family == ADDR_V4 ? AF_INET : AF_INET6, a->ip, out, ADDR_TEXT_SIZE) ||
        a->family == ADDR_NONE)
        strcpy(out, "none");
    if (a->family == ADDR_V6 && a->scope_id) {
        snprintf(scope, sizeof scope, "%%%u", a->scope_id);
        strcat(out, scope);
    }
    return out;
}

const char *addr_format(const struct addr *a, char *out)
{
    char ip[ADDR_TEXT_SIZE];

    addr_format_ip(a, ip);
    if (a->family == ADDR_V6)
        snprintf(out, ADDR_TEXT_SIZE, "[%.62s]:%u", ip, a->port);
    else
        snprintf(out, ADDR_TEXT_SIZE, "%.62s:%u", ip, a->port);
    return out;
}

bool addr_ip_equal(const struct addr *a, const struct addr *b)
{
    return a->family == b->family && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8;

    if (memcmp(a, b, whole) != 0)
        return false;
    return bits % 8 == 0 || ((a[whole] ^ b[whole]) >> (8 - bits % 8)) == 0;
}

/* No bit set behind the prefix. */
static bool bits_clear(const uint8_t *ip, size_t len, unsigned prefix)
{
    for (size_t bit = prefix; bit < len * 8; bit++)
        if (ip[bit / 8] & (0x80 >> bit % 8))
            return false;
    return true;
}

static void unmap(struct cidr *c)
{
    if (c->family != ADDR_V6 || c->prefix < 96 ||
        memcmp(c->ip, mapped_prefix, sizeof mapped_prefix) != 0)
        return;
    c->family = ADDR_V4;
    c->prefix = (uint8_t)(c->prefix - 96);
    memmove(c->ip, c->ip + 12, 4);
    memset(c->ip + 4, 0, 12);
}

bool cidr_parse(struct cidr *out, const char *text)
{
    char host[CIDR_TEXT_SIZE];
    char *slash;
    uint16_t prefix;
    size_t len;

    *out = (struct cidr){0};
    if (strlen(text) >= sizeof host)
        return false;
    strcpy(host, text);
    slash = strchr(host, '/');
    if (slash)
        *slash++ = '\0';
    if (inet_pton(AF_INET, host, out->ip) == 1)
        out->family = ADDR_V4;
    else if (inet_pton(AF_INET6, host, out->ip) == 1)
        out->family = ADDR_V6;
    else
        return false;
    len = addr_ip_len(out->family);
    prefix = (uint16_t)(len * 8);
    if (slash && (!parse_port(&prefix, slash) || prefix > len * 8))
        return false;
    out->prefix = (uint8_t)prefix;
    if (!bits_clear(out->ip, len, prefix))
        return false;
    unmap(out);
    return true;
}

const char *cidr_format(const struct cidr *c, char *out)
{
    char ip[INET6_ADDRSTRLEN];

    if (!inet_ntop(c->family == ADDR_V4 ? AF_INET : AF_INET6, c->ip, ip, sizeof ip))
        strcpy(ip, "none");
    snprintf(out, CIDR_TEXT_SIZE, "%s/%u", ip, c->prefix);
    return out;
}

bool cidr_contains(const struct cidr *c, const struct addr *a)
{
    return c->family == a->family && c->family != ADDR_NONE &&
           bits_equal(c->ip, a->ip, c->prefix);
}

bool cidr_any(const struct cidr *list, size_t n, const struct addr *a)
{
    for (size_t i = 0; i < n; i++)
        if (cidr_contains(&list[i], a))
            return true;
    return false;
}

bool addr_is_loopback(const struct addr *a)
{
    static const uint8_t one[16] = {[15] = 1};

    if (a->family == ADDR_V4)
        return a->ip[0] == 127;
    return a->family == ADDR_V6 && memcmp(a->ip, one, sizeof one) == 0;
}
