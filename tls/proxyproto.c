/* proxyproto.c - the PROXY header, versions 1 and 2. */
#include "tls/proxyproto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const uint8_t v2_magic[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                     0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};
static const char v1_magic[] = "PROXY ";

enum { V1_MAX = 107, V2_FIXED = 16 };

static void set_address(struct addr *out, sa_family_t family, const uint8_t *ip, uint16_t port)
{
    /* By way of a socket address, which turns a mapped address into IPv4. */
    union {
        struct sockaddr sa;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } u = {.in6 = {0}};
    u.sa.sa_family = family;
    if (family == AF_INET) {
        memcpy(&u.in.sin_addr, ip, 4);
        u.in.sin_port = htons(port);
    } else {
        memcpy(&u.in6.sin6_addr, ip, 16);
        u.in6.sin6_port = htons(port);
    }
    addr_from_sockaddr(out, &u.sa);
}

/* ---- version 1: "PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n" ---- */

/* Takes the text up to the next space or the end; false when it is empty or too long. */
static bool v1_word(const char **at, const char *end, char *out, size_t size)
{
    const char *p = *at;
    const char *stop = memchr(p, ' ', (size_t)(end - p));
    size_t len = (size_t)((stop ? stop : end) - p);
    if (len == 0 || len >= size)
        return false;
    memcpy(out, p, len);
    out[len] = '\0';
    *at = stop ? stop + 1 : end;
    return strlen(out) == len;
}

static bool v1_port(const char *text, uint16_t *port)
{
    unsigned value = 0;
    if (text[0] == '0' && text[1])
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (unsigned)(*text - '0');
        if (value > 65535)
            return false;
    }
    *port = (uint16_t)value;
    return true;
}

static bool v1_line(struct proxyproto *out, const char *p, const char *end)
{
    char family[8], ip[2][INET6_ADDRSTRLEN], port[2][6];
    uint8_t addr[2][16];
    uint16_t number[2];

    if (!v1_word(&p, end, family, sizeof family))
        return false;
    if (strcmp(family, "UNKNOWN") == 0)
        return true; /* whatever follows */
    bool v4 = strcmp(family, "TCP4") == 0;
    if (!v4 && strcmp(family, "TCP6") != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        if (!v1_word(&p, end, ip[i], sizeof ip[i]) ||
            inet_pton(v4 ? AF_INET : AF_INET6, ip[i], addr[i]) != 1)
            return false;
    }
    for (int i = 0; i < 2; i++) {
        if (!v1_word(&p, end, port[i], sizeof port[i]) || !v1_port(port[i], &number[i]))
            return false;
    }
    if (p != end || end[-1] == ' ')
        return false;
    set_address(&out->src, v4 ? AF_INET : AF_INET6, addr[0], number[0]);
    set_address(&out->dst, v4 ? AF_INET : AF_INET6, addr[1], number[1]);
    out->known = true;
    return true;
}

static ssize_t v1_parse(struct proxyproto *out, const uint8_t *data, size_t len)
{
    const char *text = (const char *)data;
    size_t look = len < V1_MAX ? len : V1_MAX;
    const char *lf = memchr(text, '\n', look);
    if (!lf)
        return len >= V1_MAX ? -1 : 0;
    if (lf[-1] != '\r')
        return -1;
    if (!v1_line(out, text + sizeof v1_magic - 1, lf - 1))
        return -1;
    return lf + 1 - text;
}

/* ---- version 2 ----
 *
 *   0           12    13    14      16
 *   +-----------+-----+-----+-------+------------------------+------+
 *   | magic     |v|cmd| f|p | length| src ip, dst ip, ports  | TLVs |
 *   +-----------+-----+-----+-------+------------------------+------+ */

static ssize_t v2_parse(struct proxyproto *out, const uint8_t *data, size_t len)
{
    enum { CMD_LOCAL = 0x20, CMD_PROXY = 0x21, TCP_V4 = 0x11, TCP_V6 = 0x21 };
    if (len < V2_FIXED)
        return len > 12 && data[12] != CMD_LOCAL && data[12] != CMD_PROXY ? -1 : 0;
    size_t size = (size_t)data[14] << 8 | data[15];
    if ((data[12] != CMD_LOCAL && data[12] != CMD_PROXY) || V2_FIXED + size > PROXYPROTO_MAX)
        return -1;
    size_t ip_len = data[13] == TCP_V4 ? 4 : data[13] == TCP_V6 ? 16 : 0;
    if (data[12] == CMD_PROXY && ip_len > 0 && size < 2 * ip_len + 4)
        return -1;
    if (len < V2_FIXED + size)
        return 0;
    if (data[12] == CMD_PROXY && ip_len > 0) {
        const uint8_t *ip = data + V2_FIXED;
        const uint8_t *port = ip + 2 * ip_len;
        sa_family_t family = ip_len == 4 ? AF_INET : AF_INET6;
        set_address(&out->src, family, ip, (uint16_t)(port[0] << 8 | port[1]));
        set_address(&out->dst, family, ip + ip_len, (uint16_t)(port[2] << 8 | port[3]));
        out->known = true;
    }
    return (ssize_t)(V2_FIXED + size);
}

static bool starts(const uint8_t *data, size_t len, const void *magic, size_t magic_len)
{
    return memcmp(data, magic, len < magic_len ? len : magic_len) == 0;
}

ssize_t proxyproto_parse(struct proxyproto *out, const uint8_t *data, size_t len)
{
    memset(out, 0, sizeof *out);
    if (len == 0)
        return 0;
    if (starts(data, len, v2_magic, sizeof v2_magic))
        return len < sizeof v2_magic ? 0 : v2_parse(out, data, len);
    if (starts(data, len, v1_magic, sizeof v1_magic - 1))
        return len < sizeof v1_magic ? 0 : v1_parse(out, data, len);
    return -1;
}
