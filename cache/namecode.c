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

/* Codes by octet: the code in the upper bits, its length in the lower 8. 0: to be escaped. */
#define CODE(code, bits) ((uint32_t)(code) << 8 | (bits))
#define LETTER(c, code, bits) [c] = CODE(code, bits), [(c) - 'a' + 'A'] = CODE(code, bits)
#define ESCAPED(c) [c] = CODE(ESCAPE << 8 | (c), ESCAPE_BITS)
#define ESCAPED4(c) ESCAPED(c), ESCAPED((c) + 1), ESCAPED((c) + 2), ESCAPED((c) + 3)
#define ESCAPED16(c) ESCAPED4(c), ESCAPED4((c) + 4), ESCAPED4((c) + 8), ESCAPED4((c) + 12)

/* While a name is coded, octets over 0x7f stand for these; names that have such octets are
 * coded one by one. */
enum { MARK_STEP = 0x80, MARK_NOTHING = 0x81 };

static const uint32_t codes[256] = {
    /* clang-format off */
    ESCAPED16(0), ESCAPED16(16), ESCAPED4(' '), ESCAPED4('$'), ESCAPED4('('),
    ESCAPED(','), ESCAPED('.'), ESCAPED('/'), ESCAPED4(':'), ESCAPED('>'), ESCAPED('?'),
    ESCAPED('@'), ESCAPED4('['), ESCAPED('`'), ESCAPED4('{'), ESCAPED(0x7f),
    LETTER('e', 0x00, 4), LETTER('a', 0x01, 4), LETTER('o', 0x02, 4), LETTER('i', 0x03, 4),
    LETTER('n', 0x04, 4), LETTER('s', 0x05, 4), LETTER('r', 0x06, 4), LETTER('t', 0x07, 4),
    LETTER('c', 0x10, 5), LETTER('l', 0x11, 5), LETTER('d', 0x12, 5), LETTER('m', 0x13, 5),
    LETTER('p', 0x14, 5), LETTER('u', 0x15, 5), LETTER('g', 0x16, 5),
    LETTER('h', 0x30, 6), LETTER('b', 0x31, 6), LETTER('f', 0x32, 6), LETTER('k', 0x33, 6),
    LETTER('w', 0x34, 6), LETTER('y', 0x35, 6), LETTER('v', 0x36, 6), ['-'] = CODE(0x37, 6),
    LETTER('x', 0x70, 7), LETTER('z', 0x71, 7), LETTER('j', 0x72, 7), LETTER('q', 0x73, 7),
    ['0'] = CODE(0x74, 7), ['1'] = CODE(0x75, 7), ['2'] = CODE(0x76, 7), ['3'] = CODE(0x77, 7),
    ['4'] = CODE(0x78, 7), ['5'] = CODE(0x79, 7), ['6'] = CODE(0x7a, 7), ['7'] = CODE(0x7b, 7),
    ['8'] = CODE(0x7c, 7), ['9'] = CODE(0x7d, 7), ['_'] = CODE(0x7e, 7),
    [MARK_STEP] = CODE(STEP_CODE, STEP_BITS),
    [MARK_NOTHING] = CODE(0, 0),
    /* clang-format on */
};

/* A string of bits, right-aligned. */
struct bits {
    uint64_t v;
    unsigned n;
};

static inline struct bits code_of(uint8_t octet)
{
    uint32_t code = codes[octet];
    return (struct bits){.v = code >> 8, .n = code & 0xff};
}

static inline struct bits joined(struct bits a, struct bits b)
{
    return (struct bits){.v = a.v << b.n | b.v, .n = a.n + b.n};
}

/* Output: what does not fill an octet yet is kept left-aligned in `rest`. */
struct output {
    uint8_t *pos;
    uint64_t rest;
    unsigned n; /* bits of it, 0..7 */
};

/* 1..56 bits. Without branches: how many octets become full is as random as the name. */
static inline void output_put(struct output *o, struct bits b)
{
    unsigned n = o->n + b.n;
    uint64_t word = o->rest | b.v << (64 - n);
    dns_write32(o->pos, (uint32_t)(word >> 32));
    dns_write32(o->pos + 4, (uint32_t)word);
    o->pos += n / 8;
    o->rest = word << (n & ~7u);
    o->n = n & 7;
}

/* The rest, filled up with ones, and 8 octets of 0. Returns where the code ends. */
static inline uint8_t *output_end(struct output *o)
{
    if (o->n > 0)
        *o->pos++ = (uint8_t)(o->rest >> 56 | 0xffu >> o->n);
    memset(o->pos, 0, 8);
    return o->pos;
}

/* Octets with values up to 0x7f and marks, eight at a time: few have codes of more than 56 bits
 * together. */
static inline void output_eight(struct output *o, const uint8_t *p)
{
    struct bits a = joined(code_of(p[0]), code_of(p[1])),
                b = joined(code_of(p[2]), code_of(p[3]));
    struct bits c = joined(code_of(p[4]), code_of(p[5])),
                d = joined(code_of(p[6]), code_of(p[7]));
    if (__builtin_expect(a.n + b.n + c.n + d.n <= 56, 1)) {
        output_put(o, joined(joined(a, b), joined(c, d)));
        return;
    }
    const struct bits pairs[] = {a, b, c, d};
    for (unsigned i = 0; i < 4 && pairs[i].n > 0; i++)
        output_put(o, pairs[i]);
}

/* Any sound name, octet by octet. */
static size_t encode_any(uint8_t *out, const uint8_t *name)
{
    struct output o = {.pos = out};
    for (size_t pos = 0; name[pos] != 0;) {
        size_t end = pos + 1 + name[pos];
        if (pos > 0)
            output_put(&o, code_of(MARK_STEP));
        for (pos++; pos < end; pos++) {
            uint8_t c = name[pos];
            output_put(&o, c < MARK_STEP
                               ? code_of(c)
                               : (struct bits){.v = ESCAPE << 8 | c, .n = ESCAPE_BITS});
        }
    }
    return (size_t)(output_end(&o) - out);
}

/* The name without its root in lower case behind the mark. */
static size_t plain_put(uint8_t *out, const uint8_t *name, size_t len)
{
    out[0] = PLAIN;
    name_lower(out + 1, name, len - 1);
    memset(out + len, 0, 8);
    return len;
}

/* True when an octet of the padded copy of a name is over 0x7f. */
static inline bool has_high(const uint8_t *p, size_t len)
{
    uint64_t any = 0, w;
    for (size_t i = 0; i < len; i += 8) {
        memcpy(&w, p + i, sizeof w);
        any |= w;
    }
    return any & 0x8080808080808080;
}

size_t cache_namecode_encode(uint8_t *out, const uint8_t *name, size_t len)
{
    uint8_t copy[DNS_NAME_MAX + 17];
    struct output o = {.pos = out};
    size_t pos = 0;
    if (len == 0 || len > DNS_NAME_MAX)
        return SIZE_MAX;
    memcpy(copy, name, len);
    memset(copy + len, 0, 8);
    bool high = has_high(copy, len);
    while (copy[pos] != 0) {
        size_t end = pos + 1 + copy[pos];
        if (copy[pos] > DNS_LABEL_MAX || end >= len)
            return SIZE_MAX;
        copy[pos] = MARK_STEP;
        pos = end;
    }
    if (pos != len - 1)
        return SIZE_MAX;

    size_t n;
    if (__builtin_expect(high, 0)) {
        n = encode_any(out, name);
    } else {
        memset(copy + pos, MARK_NOTHING, 8);
        for (size_t i = 1; i < pos; i += 8)
            output_eight(&o, copy + i);
        n = (size_t)(output_end(&o) - out);
    }
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
