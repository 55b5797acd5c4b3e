/* edns.c - reading and writing OPT records. */
#include "dns/edns.h"

#include <string.h>

#include "dns/rrtype.h"
#include "dns/wire.h"

/* An OPT record (RFC 6891 6.1.2) and an option in its rdata:
 *
 *   0   1         3          5            6         7       9          11
 *   +---+---------+----------+------------+---------+-------+----------+---------
 *   | 0 | type 41 | UDP size | ext. RCODE | version | flags | RDLENGTH | options
 *   +---+---------+----------+------------+---------+-------+----------+---------
 *
 *   +------+--------+------+
 *   | code | length | data |
 *   +------+--------+------+
 */
enum { OPT_RDLENGTH = 9, OPTION_HEAD = 4 };

const uint8_t *edns_option(const uint8_t *options, size_t options_len, uint16_t code,
                           size_t *len)
{
    size_t pos = 0;
    while (options_len - pos >= OPTION_HEAD) {
        size_t n = dns_read16(options + pos + 2);
        if (n > options_len - pos - OPTION_HEAD)
            break;
        if (dns_read16(options + pos) == code) {
            *len = n;
            return options + pos + OPTION_HEAD;
        }
        pos += OPTION_HEAD + n;
    }
    return NULL;
}

bool edns_options_valid(const uint8_t *options, size_t len)
{
    size_t pos = 0;
    while (len - pos >= OPTION_HEAD) {
        size_t n = dns_read16(options + pos + 2);
        if (n > len - pos - OPTION_HEAD)
            return false;
        pos += OPTION_HEAD + n;
    }
    return pos == len;
}

size_t edns_write(uint8_t *out, uint16_t udp_size, uint8_t ext_rcode, uint16_t ext_flags)
{
    out[0] = 0;
    dns_write16(out + 1, RR_OPT);
    dns_write16(out + 3, udp_size);
    out[5] = ext_rcode;
    out[6] = 0;
    dns_write16(out + 7, ext_flags);
    dns_write16(out + OPT_RDLENGTH, 0);
    return DNS_OPT_FIXED;
}

uint8_t *edns_add(uint8_t *opt, uint8_t *end, const uint8_t *limit, uint16_t code,
                  const void *data, size_t len)
{
    size_t rdlength = dns_read16(opt + OPT_RDLENGTH);
    if (len > UINT16_MAX || rdlength + OPTION_HEAD + len > UINT16_MAX)
        return NULL;
    if (end > limit || (size_t)(limit - end) < OPTION_HEAD + len)
        return NULL;
    dns_write16(end, code);
    dns_write16(end + 2, (uint16_t)len);
    if (len > 0)
        memcpy(end + OPTION_HEAD, data, len);
    dns_write16(opt + OPT_RDLENGTH, (uint16_t)(rdlength + OPTION_HEAD + len));
    return end + OPTION_HEAD + len;
}

size_t edns_padding(size_t len, size_t block, size_t max)
{
    if (len > max || max - len < OPTION_HEAD)
        return SIZE_MAX;
    size_t room = max - len - OPTION_HEAD;
    size_t over = block > 0 ? (len + OPTION_HEAD) % block : 0;
    size_t pad = over > 0 ? block - over : 0;
    return pad < room ? pad : room;
}
