/* namecode.c - the prefix code of names. */
#include "cache/namecode.h"

#include <string.h>

#include "dns/name.h"
#include "dns/wire.h"

enum {
    STEP_CODE = 0x17, /* from one label to the next, 5 bits */
    STEP_BITS = 5,
    ESCAPE = 0xfe,
    ESCAPE_BITS = 16,
    PLAIN = 0xff, /* first octet of a name that is not coded */
};

/* Symbols in the order of their codes, by number of bits. */
static const char four[8] = {'e', 'a', 'o', 'i', 'n', 's', 'r', 't'};
static const char five[8] = {'c', 'l', 'd', 'm', 'p', 'u', 'g', '.'};
static const char six[8] = {'h', 'b', 'f', 'k', 'w', 'y', 'v', '-'};
static const char seven[15] = {'x', 'z', 'j', 'q', '0', '1', '2', '3',
                               '4', '5', '6', '7', '8', '9', '_'};

struct symbol {
    uint16_t code;
    uint8_t bits; /* 0: to be escaped */
};

#define LETTER(c, code, bits) [c] = {code, bits}, [(c) - 'a' + 'A'] = {code, bits}
static const struct symbol symbols[256] = {
    LETTER('e', 0x00, 4), LETTER('a', 0x01, 4), LETTER('o', 0x02, 4), LETTER('i', 0x03, 4),
    LETTER('n', 0x04, 4), LETTER('s', 0x05, 4), LETTER('r', 0x06, 4), LETTER('t', 0x07, 4),
    LETTER('c', 0x10, 5), LETTER('l', 0x11, 5), LETTER('d', 0x12, 5), LETTER('m', 0x13, 5),
    LETTER('p', 0x14, 5), LETTER('u', 0x15, 5), LETTER('g', 0x16, 5), LETTER('h', 0x30, 6),
    LETTER('b', 0x31, 6), LETTER('f', 0x32, 6), LETTER('k', 0x33, 6), LETTER('w', 0x34, 6),
    LETTER('y', 0x35, 6), LETTER('v', 0x36, 6), ['-'] = {0x37, 6},    LETTER('x', 0x70, 7),
    LETTER('z', 0x71, 7), LETTER('j', 0x72, 7), LETTER('q', 0x73, 7), ['0'] = {0x74, 7},
    ['1'] = {0x75, 7},    ['2'] = {0x76, 7},    ['3'] = {0x77, 7},    ['4'] = {0x78, 7},
    ['5'] = {0x79, 7},    ['6'] = {0x7a, 7},    ['7'] = {0x7b, 7},    ['8'] = {0x7c, 7},
    ['9'] = {0x7d, 7},    ['_'] = {0x7e, 7},
};

/* Bits on their way out, the newest lowest. */
struct bits {
    uint64_t acc;
    unsigned n;
    uint8_t *out;
};

static inline void bits_put(struct bits *b, unsigned code, unsigned n)
{
    b->acc = b->acc << n | code;
    b->n += n;
    if (b->n >= 32) {
        b->n -= 32;
        dns_write32(b->out, (uint32_t)(b->acc >> b->n));
        b->out += 4;
    }
}

/* The rest, filled up with ones to whole octets, and 8 octets of 0 behind. */
static inline uint8_t *bits_end(struct bits *b)
{
    unsigned octets = (b->n + 7) / 8;
    uint64_t word = octets == 0 ? 0 : b->acc << (64 - b->n) | UINT64_MAX >> b->n;
    if (octets > 0)
        word &= UINT64_MAX << (64 - 8 * octets);
    dns_write32(b->out, (uint32_t)(word >> 32));
    memset(b->out + 4, 0, 8);
    return b->out + octets;
}

/* The name without its root in lower case behind the mark. */
static size_t plain_put(uint8_t *out, const uint8_t *name, size_t len)
{
    out[0] = PLAIN;
    name_lower(out + 1, name, len - 1);
    memset(out + len, 0, 8);
    return len;
}

size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len)
{
    struct bits b = {.out = out};
    size_t pos = 0;
    if (len == 0 || len > DNS_NAME_MAX)
        return SIZE_MAX;
    while (name[pos] != 0) {
        size_t end = pos + 1 + name[pos];
        if (name[pos] > DNS_LABEL_MAX || end >= len)
            return SIZE_MAX;
        if (pos > 0)
            bits_put(&b, STEP_CODE, STEP_BITS);
        for (pos++; pos < end; pos++) {
            struct symbol s = symbols[name[pos]];
            if (s.bits > 0)
                bits_put(&b, s.code, s.bits);
            else
                bits_put(&b, ESCAPE << 8 | name[pos], ESCAPE_BITS);
        }
    }
    if (pos != len - 1)
        return SIZE_MAX;
    size_t n = (size_t)(bits_end(&b) - out);
    return n <= len ? n : plain_put(out, name, len);
}

static size_t plain_get(uint8_t *out, const uint8_t *code, size_t len)
{
    uint8_t wire[DNS_NAME_MAX + 1];
    if (len > DNS_NAME_MAX)
        return 0;
    memcpy(wire, code + 1, len - 1);
    wire[len - 1] = 0;
    if (name_wire_len(wire, len) != len)
        return 0;
    memcpy(out, wire, len);
    return len;
}

/* Eight bits from a bit position on, ones behind the end. */
static inline unsigned peek(const uint8_t *code, size_t len, size_t bit)
{
    size_t at = bit / 8;
    unsigned hi = at < len ? code[at] : 0xff, lo = at + 1 < len ? code[at + 1] : 0xff;
    return (hi << 8 | lo) >> (8 - bit % 8) & 0xff;
}

/* The symbol whose code begins with these eight bits; its length is added to *bit. '.' is the
 * step to the next label. Not for 0xfe and 0xff. */
static inline char symbol_get(unsigned v, size_t *bit)
{
    if (v < 0x80) {
        *bit += 4;
        return four[v >> 4];
    }
    if (v < 0xc0) {
        *bit += 5;
        return five[(v >> 3) - 0x10];
    }
    if (v < 0xe0) {
        *bit += 6;
        return six[(v >> 2) - 0x30];
    }
    *bit += 7;
    return seven[(v >> 1) - 0x70];
}

/* Decodes to labels; out[label] is the length octet of the one being read. */
static size_t labels_get(uint8_t *out, const uint8_t *code, size_t len)
{
    size_t bit = 0, label = 0, n = 1;
    for (;;) {
        unsigned v = peek(code, len, bit);
        if (v == 0xff)
            break;
        bool escaped = v == ESCAPE;
        char c = 0;
        if (escaped) {
            c = (char)peek(code, len, bit + 8);
            bit += ESCAPE_BITS;
        } else {
            c = symbol_get(v, &bit);
        }
        if (bit > 8 * len || n >= DNS_NAME_MAX)
            return 0;
        if (c == '.' && !escaped) {
            if (n == label + 1 || n - label - 1 > DNS_LABEL_MAX)
                return 0;
            out[label] = (uint8_t)(n - label - 1);
            label = n++;
        } else {
            out[n++] = (uint8_t)c;
        }
    }
    if (n == label + 1 || n - label - 1 > DNS_LABEL_MAX || n >= DNS_NAME_MAX ||
        bit + 8 <= 8 * len)
        return 0;
    out[label] = (uint8_t)(n - label - 1);
    out[n] = 0;
    return n + 1;
}

size_t cache_namecode_decode(uint8_t *out, const uint8_t *code, size_t len)
{
    uint8_t again[NAMECODE_SPACE];
    size_t n;
    if (len == 0) {
        out[0] = 0;
        return 1;
    }
    if (len > NAMECODE_MAX)
        return 0;
    n = code[0] == PLAIN ? plain_get(out, code, len) : labels_get(out, code, len);
    /* only the one code that encoding gives is good: no second key for a name */
    if (n == 0 || cache_namecode_encode(again, out, n) != len || memcmp(again, code, len) != 0)
        return 0;
    return n;
}
