/* name.c - domain names: reading, comparing, presentation format. */
#include "dns/name.h"

#include <string.h>

#include "dns/wire.h"

enum {
    LABEL_POINTER = 0xc0, /* the two top bits of a pointer's first octet */
    POINTERS_MAX = 127,   /* a name has no more labels, and each can need one pointer at most */
};

size_t name_wire_len(const uint8_t *p, size_t left)
{
    if (left > DNS_NAME_MAX)
        left = DNS_NAME_MAX;
    for (size_t pos = 0; pos < left; pos += 1 + (size_t)p[pos]) {
        if (p[pos] == 0)
            return pos + 1;
        if (p[pos] > DNS_LABEL_MAX)
            return 0;
    }
    return 0;
}

/* Follows the name at msg + *pos, label by label:
 *
 *   +---+----------+---+----------+ ... +---+        +----+--------------+
 *   | n | n octets | n | n octets |     | 0 |   or   | 11 | 14 bits: to  |
 *   +---+----------+---+----------+ ... +---+        +----+--------------+
 *
 * What a pointer names lies wholly before the labels that the pointer ends (RFC 1035 4.1.4:
 * "prior occurrence"), and never in the header. So a loop cannot be, no octet is read twice,
 * and a record stays what it is when the message is cut behind it. Pointers to pointers to
 * pointers, which no writer needs, are limited: 64 KiB of them would keep a core busy.
 * Inlined twice, with and without out, so that skipping has no copy in it. */
static inline __attribute__((always_inline)) size_t follow(const uint8_t *msg, size_t len,
                                                           size_t *pos, uint8_t *out)
{
    size_t at = *pos;
    size_t run = at;  /* where the labels since the last pointer began */
    size_t end = len; /* and what they have to end before */
    size_t name_len = 0;
    unsigned pointers = 0;
    size_t behind = 0; /* where the name ends in place, once a pointer was seen */

    for (;;) {
        if (at >= end)
            return 0;
        size_t n = msg[at];
        if (n == 0)
            break;
        if (n <= DNS_LABEL_MAX) {
            at += 1 + n;
            name_len += 1 + n;
            if (name_len >= DNS_NAME_MAX)
                return 0;
            continue;
        }
        if (n < LABEL_POINTER || end - at < 2)
            return 0;
        size_t target = dns_read16(msg + at) & 0x3fffu;
        if (target >= run || target < DNS_HEADER_SIZE || ++pointers > POINTERS_MAX)
            return 0;
        if (out != NULL)
            memcpy(out + name_len - (at - run), msg + run, at - run);
        if (behind == 0)
            behind = at + 2;
        end = run;
        at = run = target;
    }
    if (out != NULL)
        memcpy(out + name_len - (at - run), msg + run, at - run + 1);
    *pos = behind != 0 ? behind : at + 1;
    return name_len + 1;
}

size_t name_expand(const uint8_t *msg, size_t len, size_t *pos, uint8_t *out)
{
    return follow(msg, len, pos, out);
}

bool name_skip(const uint8_t *msg, size_t len, size_t *pos)
{
    return follow(msg, len, pos, NULL) != 0;
}

static inline uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

/* Lower case for the 8 octets of a word at once. With the top bits out of the way no sum
 * carries into the next octet, and the top bit of each tells "at least 'A'" and "above 'Z'". */
static inline uint64_t lower8(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101u, tops = ones << 7;
    uint64_t low = word & ~tops;
    uint64_t from_a = low + ones * (0x80 - 'A');
    uint64_t above_z = low + ones * (0x7f - 'Z');
    return word | ((from_a & ~above_z & ~word & tops) >> 2);
}

static inline uint64_t load8(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Length octets are at most 63, below 'A', so they pass through lower() unharmed and names
 * need not be taken apart to be compared. */
bool name_equal(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    size_t i = 0;
    for (; a_len - i >= 8; i += 8) {
        if (lower8(load8(a + i)) != lower8(load8(b + i)))
            return false;
    }
    for (; i < a_len; i++) {
        if (lower(a[i]) != lower(b[i]))
            return false;
    }
    return true;
}

bool name_below(const uint8_t *name, size_t name_len, const uint8_t *suffix, size_t suffix_len)
{
    size_t pos = 0;
    while (name_len - pos > suffix_len && name[pos] != 0)
        pos += 1 + (size_t)name[pos];
    return pos <= name_len && name_equal(name + pos, name_len - pos, suffix, suffix_len);
}

void name_lower(uint8_t *out, const uint8_t *in, size_t len)
{
    size_t i = 0;
    for (; len - i >= 8; i += 8) {
        uint64_t word = lower8(load8(in + i));
        memcpy(out + i, &word, sizeof word);
    }
    for (; i < len; i++)
        out[i] = lower(in[i]);
}

size_t name_labels(const uint8_t *name, size_t len)
{
    size_t n = 0;
    for (size_t pos = 0; pos < len && name[pos] != 0; pos += 1 + (size_t)name[pos])
        n++;
    return n;
}

/* One octet of a label; characters that zone files give a meaning are quoted. */
static char *text_put(char *out, uint8_t c)
{
    if (c <= ' ' || c >= 0x7f) {
        *out++ = '\\';
        *out++ = (char)('0' + c / 100);
        *out++ = (char)('0' + c / 10 % 10);
        *out++ = (char)('0' + c % 10);
        return out;
    }
    if (strchr(".\\\"();@$", c) != NULL)
        *out++ = '\\';
    *out++ = (char)c;
    return out;
}

const char *name_to_text(const uint8_t *name, size_t len, char *out)
{
    char *p = out;
    size_t pos = 0;
    while (pos < len && name[pos] != 0) {
        size_t end = pos + 1 + name[pos];
        if (end > len)
            end = len;
        for (pos++; pos < end; pos++)
            p = text_put(p, name[pos]);
        *p++ = '.';
    }
    if (p == out)
        *p++ = '.';
    *p = '\0';
    return out;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads what follows a backslash, \DDD or \X; returns how many characters, 0 when malformed. */
static size_t text_escape(const char *text, uint8_t *octet)
{
    if (!is_digit(text[0])) {
        *octet = (uint8_t)text[0];
        return text[0] != '\0';
    }
    if (!is_digit(text[1]) || !is_digit(text[2]))
        return 0;
    int value = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
    *octet = (uint8_t)value;
    return value <= 255 ? 3 : 0;
}

size_t name_from_text(uint8_t *out, const char *text)
{
    if (strcmp(text, ".") == 0) {
        out[0] = 0;
        return 1;
    }
    size_t label = 0, len = 1; /* of the length octet; of what is written, it included */
    while (*text != '\0') {
        uint8_t octet = (uint8_t)*text++;
        if (octet == '.') {
            if (len - label == 1)
                return 0;
            out[label] = (uint8_t)(len - label - 1);
            label = len++;
            continue;
        }
        if (octet == '\\') {
            size_t used = text_escape(text, &octet);
            if (used == 0)
                return 0;
            text += used;
        }
        /* one more octet and the root at least are to come */
        if (len - label > DNS_LABEL_MAX || len >= DNS_NAME_MAX - 1)
            return 0;
        out[len++] = octet;
    }
    if (len - label > 1) {
        out[label] = (uint8_t)(len - label - 1);
        label = len++;
    } else if (label == 0) {
        return 0;
    }
    out[label] = 0;
    return len;
}
