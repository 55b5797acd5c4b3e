/* base64url.c - four characters to three octets, by one table. */
#include "http/base64url.h"

/* Value of a character plus one; 0 for those outside the alphabet. */
static const uint8_t values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,
    ['H'] = 8,  ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14,
    ['O'] = 15, ['P'] = 16, ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21,
    ['V'] = 22, ['W'] = 23, ['X'] = 24, ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28,
    ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32, ['g'] = 33, ['h'] = 34, ['i'] = 35,
    ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40, ['o'] = 41, ['p'] = 42,
    ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48, ['w'] = 49,
    ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['-'] = 63,
    ['_'] = 64,
};

/* Six bits, or a number with bits above the 24 of a group. */
static uint32_t sextet(char c)
{
    return (uint32_t)values[(uint8_t)c] - 1;
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
    const uint8_t *start = out;
    uint32_t a, b, c, d;

    len = unpadded(in, len);
    for (; len >= 4; len -= 4, in += 4) {
        a = sextet(in[0]);
        b = sextet(in[1]);
        c = sextet(in[2]);
        d = sextet(in[3]);
        if ((a | b | c | d) > 63)
            return SIZE_MAX;
        *out++ = (uint8_t)(a << 2 | b >> 4);
        *out++ = (uint8_t)(b << 4 | c >> 2);
        *out++ = (uint8_t)(c << 6 | d);
    }
    if (len == 0)
        return (size_t)(out - start);
    if (len == 1)
        return SIZE_MAX;
    a = sextet(in[0]);
    b = sextet(in[1]);
    c = len == 3 ? sextet(in[2]) : 0;
    if ((a | b | c) > 63 || (len == 2 ? b & 15 : c & 3))
        return SIZE_MAX;
    *out++ = (uint8_t)(a << 2 | b >> 4);
    if (len == 3)
        *out++ = (uint8_t)(b << 4 | c >> 2);
    return (size_t)(out - start);
}
