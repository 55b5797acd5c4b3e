/* addr.h - IP addresses, ports and prefixes.
 *
 * An IPv4-mapped IPv6 address is turned into IPv4 wherever one comes in, so
 * access lists, limits and client subnet see one form only. */
#ifndef PITH_CORE_ADDR_H
#define PITH_CORE_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum addr_family { ADDR_NONE = 0, ADDR_V4 = 4, ADDR_V6 = 6 };

struct addr {
    uint8_t ip[16]; /* network order; IPv4 in the first 4 octets, the rest 0 */
    uint32_t scope_id; /* of link-local IPv6 */
    uint16_t port;  /* host order */
    uint8_t family; /* enum addr_family */
};

struct cidr {
    uint8_t ip[16]; /* bits beyond the prefix are 0 */
    uint8_t family;
    uint8_t prefix; /* 0..32 or 0..128 */
};

/* Text lengths with the NUL: "[v6%scope]:port" and "v6/128". */
enum { ADDR_TEXT_SIZE = 80, CIDR_TEXT_SIZE = 64 };

static inline size_t addr_ip_len(uint8_t family)
{
    return family == ADDR_V4 ? 4 : family == ADDR_V6 ? 16 : 0;
}

/* From a socket address; false (family ADDR_NONE) for other families. Mapped
 * addresses become IPv4. */
bool addr_from_sockaddr(struct addr *out, const struct sockaddr *sa);

/* To a socket address; returns its length, 0 for ADDR_NONE. */
socklen_t addr_to_sockaddr(const struct addr *a, struct sockaddr_storage *out);

/* "192.0.2.1", "192.0.2.1:53", "2001:db8::1", "[2001:db8::1]:53",
 * "[fe80::1%eth0]:53". Without a port: default_port. No names. Unlike the other
 * ways in, a mapped address is kept as IPv6 here: a listener on
 * [::ffff:...] means what it says. */
bool addr_parse(struct addr *out, const char *text, uint16_t default_port);

/* "192.0.2.1:53" or "[2001:db8::1]:53"; out has ADDR_TEXT_SIZE octets. Returns out. */
const char *addr_format(const struct addr *a, char *out);
/* The same without the port and brackets. */
const char *addr_format_ip(const struct addr *a, char *out);

/* Same family and address octets; ports and scopes are not looked at. */
bool addr_ip_equal(const struct addr *a, const struct addr *b);

/* "10.0.0.0/8", "::1/128", "192.0.2.1" (full length). Bits beyond the prefix
 * must be 0. A mapped prefix of at least 96 bits becomes IPv4. */
bool cidr_parse(struct cidr *out, const char *text);
const char *cidr_format(const struct cidr *c, char *out);
bool cidr_contains(const struct cidr *c, const struct addr *a);
/* True when one of n contains a. */
bool cidr_any(const struct cidr *list, size_t n, const struct addr *a);

bool addr_is_loopback(const struct addr *a);

#endif
