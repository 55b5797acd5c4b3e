/* base64url.c - four characters to three octets, by one table, and back. */
#include "http/base64url.h"

#include <endian.h>
#include <string.h>

enum { VALID = 0x80 };

/* Value of a character, with VALID; 0 for those outside the alphabet. */
static const uint8_t values[256] = {
    ['A'] = VALID | 0,  ['B'] = VALID | 1,  ['C'] = VALID | 2,  ['D'] = VALID | 3,
    ['E'] = VALID | 4,  ['F'] = VALID | 5,  ['G'] = VALID | 6,  ['H'] = VALID | 7,
    ['I'] = VALID | 8,  ['J'] = VALID | 9,  ['K'] = VALID | 10, ['L'] = VALID | 11,
    ['M'] = VALID | 12, ['N'] = VALID | 13, ['O'] = VALID | 14, ['P'] = VALID | 15,
    ['Q'] = VALID | 16, ['R'] = VALID | 17, ['S'] = VALID | 18, ['T'] = VALID | 19,
    ['U'] = VALID | 20, ['V'] = VALID | 21, ['W'] = VALID | 22, ['X'] = VALID | 23,
    ['Y'] = VALID | 24, ['Z'] = VALID | 25, ['a'] = VALID | 26, ['b'] = VALID | 27,
    ['c'] = VALID | 28, ['d'] = VALID | 29, ['e'] = VALID | 30, ['f'] = VALID | 31,
    ['g'] = VALID | 32, ['h'] = VALID | 33, ['i'] = VALID | 34, ['j'] = VALID | 35,
    ['k'] = VALID | 36, ['l'] = VALID | 37, ['m'] = VALID | 38, ['n'] = VALID | 39,
    ['o'] = VALID | 40, ['p'] = VALID | 41, ['q'] = VALID | 42, ['r'] = VALID | 43,
    ['s'] = VALID | 44, ['t'] = VALID | 45, ['u'] = VALID | 46, ['v'] = VALID | 47,
    ['w'] = VALID | 48, ['x'] = VALID | 49, ['y'] = VALID | 50, ['z'] = VALID | 51,
    ['0'] = VALID | 52, ['1'] = VALID | 53, ['2'] = VALID | 54, ['3'] = VALID | 55,
    ['4'] = VALID | 56, ['5'] = VALID | 57, ['6'] = VALID | 58, ['7'] = VALID | 59,
    ['8'] = VALID | 60, ['9'] = VALID | 61, ['-'] = VALID | 62, ['_'] = VALID | 63,
};

static uint32_t value(char c)
{
    return values[(uint8_t)c];
}

/* Length without padding: at most two '=' and none beyond a whole group. */
static size_t unpadded(const char *in, size_t len)
{
    size_t end = len;

    while (end > 0 && len - end < 2 && in[end - 1] == '=')
        end--;
    return end + (4 - end % 4) % 4 >= len ? end : len;
}

size_t base64url_decode(uint8_t *out, const char *in, size_t len)
{
    /* What the four VALID of a group add up to when each stands at its place. */
    static const uint32_t marks = VALID << 18 | VALID << 12 | VALID << 6 | VALID;
    const uint8_t *start = out;
    uint32_t a, b, c, d, group;

    len = unpadded(in, len);
    for (; len >= 4; len -= 4, in += 4, out += 3) {
        a = value(in[0]);
        b = value(in[1]);
        c = value(in[2]);
        d = value(in[3]);
        if (!(a & b & c & d & VALID))
            return SIZE_MAX;
        group = (a << 18) + (b << 12) + (c << 6) + d - marks;
        /* One store; its fourth octet is room for what comes next. */
        group = htobe32(group << 8);
        memcpy(out, &group, sizeof(group));
    }
    if (len == 0)
        return (size_t)(out - start);
    if (len == 1)
        return SIZE_MAX;
    a = value(in[0]);
    b = value(in[1]);
    c = len == 3 ? value(in[2]) : VALID;
    if (!(a & b & c & VALID) || (len == 2 ? b & 15 : c & 3))
        return SIZE_MAX;
    *out++ = (uint8_t)(a << 2 | (b & 63) >> 4);
    if (len == 3)
        *out++ = (uint8_t)(b << 4 | (c & 63) >> 2);
    return (size_t)(out - start);
}

void base64url_encode(char *out, const uint8_t *in, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    for (size_t bit = 0; bit < 8 * len; bit += 6) {
        size_t at = bit / 8;
        unsigned window = (unsigned)in[at] << 8 | (at + 1 < len ? in[at + 1] : 0u);
        *out++ = letters[window >> (10 - bit % 8) & 63];
    }
    *out = '\0';
}
