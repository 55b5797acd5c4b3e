/* special.c - the table of special zones. */
#include "special.h"

#include <string.h>

#include "dns/name.h"

struct zone {
    const char *name; /* wire name in lower case; the literal's NUL is the root label */
    uint8_t len;      /* with the root label */
    uint8_t kind;
};

#define ZONE(wire, kind)                                                                       \
    {                                                                                          \
        wire, sizeof wire, kind                                                                \
    }

#define REVERSE4                                                                               \
    "\x07in-addr\x04"                                                                          \
    "arpa"
#define REVERSE6                                                                               \
    "\x03ip6\x04"                                                                              \
    "arpa"
#define ZERO7                                                                                  \
    "\x01"                                                                                     \
    "0\x01"                                                                                    \
    "0\x01"                                                                                    \
    "0\x01"                                                                                    \
    "0\x01"                                                                                    \
    "0\x01"                                                                                    \
    "0\x01"                                                                                    \
    "0"

static const struct zone plain_zones[] = {
    ZONE("\x09localhost", SPECIAL_LOCALHOST),
    ZONE("\x07invalid", SPECIAL_NXDOMAIN),
    ZONE("\x05onion", SPECIAL_NXDOMAIN),
};

static const struct zone arpa_zones[] = {
    ZONE("\x08resolver\x04"
         "arpa",
         SPECIAL_RESOLVER),
    ZONE("\x03"
         "127" REVERSE4,
         SPECIAL_LOOPBACK),
    ZONE("\x01"
         "1\x01"
         "0\x01"
         "0\x01"
         "0" ZERO7 ZERO7 ZERO7 ZERO7 REVERSE6,
         SPECIAL_LOOPBACK),
    /* RFC 6303 4.1, 4.2 */
    ZONE("\x02"
         "10" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "16\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "17\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "18\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "19\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "20\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "21\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "22\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "23\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "24\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "25\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "26\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "27\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "28\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "29\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "30\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x02"
         "31\x03"
         "172" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x03"
         "168\x03"
         "192" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "0" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x03"
         "254\x03"
         "169" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "2\x01"
         "0\x03"
         "192" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x03"
         "100\x02"
         "51\x03"
         "198" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x03"
         "113\x01"
         "0\x03"
         "203" REVERSE4,
         SPECIAL_PRIVATE),
    ZONE("\x03"
         "255\x03"
         "255\x03"
         "255\x03"
         "255" REVERSE4,
         SPECIAL_PRIVATE),
    /* RFC 6303 4.3 to 4.6 */
    ZONE("\x01"
         "0\x01"
         "0\x01"
         "0\x01"
         "0" ZERO7 ZERO7 ZERO7 ZERO7 REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "d\x01"
         "f" REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "8\x01"
         "e\x01"
         "f" REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "9\x01"
         "e\x01"
         "f" REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "a\x01"
         "e\x01"
         "f" REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "b\x01"
         "e\x01"
         "f" REVERSE6,
         SPECIAL_PRIVATE),
    ZONE("\x01"
         "8\x01"
         "b\x01"
         "d\x01"
         "0\x01"
         "1\x01"
         "0\x01"
         "0\x01"
         "2" REVERSE6,
         SPECIAL_PRIVATE),
};

enum { SHARED_FIRST = 64, SHARED_LAST = 127 }; /* 100.64.0.0/10, RFC 7793 */

static enum special_kind found(const struct zone *z, const uint8_t **zone, size_t *zone_len)
{
    *zone = (const uint8_t *)z->name;
    *zone_len = z->len;
    return z->kind;
}

/* The 64 zones of shared address space, NN.100.in-addr.arpa, by their number; the zone is
 * the end of the name itself. */
static enum special_kind find_shared(const uint8_t *name, size_t len, const uint8_t **zone,
                                     size_t *zone_len)
{
    static const char parent[] = "\x03"
                                 "100" REVERSE4;
    size_t at = 0, number = 0;
    size_t label;

    if (len <= sizeof parent || !name_below(name, len, (const uint8_t *)parent, sizeof parent))
        return SPECIAL_NONE;
    /* the label right below 100.in-addr.arpa */
    while (at + name[at] + 1u + sizeof parent < len)
        at += name[at] + 1u;
    label = name[at];
    for (size_t i = 1; i <= label; i++) {
        if (name[at + i] < '0' || name[at + i] > '9' || label > 3)
            return SPECIAL_NONE;
        number = number * 10 + (size_t)(name[at + i] - '0');
    }
    if (number < SHARED_FIRST || number > SHARED_LAST || name[at + 1] == '0')
        return SPECIAL_NONE;
    *zone = name + at;
    *zone_len = len - at;
    return SPECIAL_PRIVATE;
}

static bool is_label(const uint8_t *label, size_t len, const char *wanted, size_t wanted_len)
{
    /* The length tells nearly all top-level domains apart without a call. */
    return len == wanted_len && name_equal(label, len, (const uint8_t *)wanted, wanted_len);
}

enum special_kind special_find(const uint8_t *name, size_t len, const uint8_t **zone,
                               size_t *zone_len)
{
    static const char arpa[] = "\x04"
                               "arpa";
    size_t at = 0;

    if (len < 2)
        return SPECIAL_NONE;
    while (at + name[at] + 2u < len)
        at += name[at] + 1u;
    for (size_t i = 0; i < sizeof plain_zones / sizeof *plain_zones; i++)
        if (is_label(name + at, len - at, plain_zones[i].name, plain_zones[i].len))
            return found(&plain_zones[i], zone, zone_len);
    if (!is_label(name + at, len - at, arpa, sizeof arpa))
        return SPECIAL_NONE;
    for (size_t i = 0; i < sizeof arpa_zones / sizeof *arpa_zones; i++)
        if (name_below(name, len, (const uint8_t *)arpa_zones[i].name, arpa_zones[i].len))
            return found(&arpa_zones[i], zone, zone_len);
    return find_shared(name, len, zone, zone_len);
}
