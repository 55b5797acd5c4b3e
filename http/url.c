/* url.c - %-escapes. */
#include "http/url.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t url_unescape(char *out, const char *in, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (in[i] == '%' && len - i > 2 && hex(in[i + 1]) >= 0 && hex(in[i + 2]) >= 0) {
            out[n++] = (char)(hex(in[i + 1]) << 4 | hex(in[i + 2]));
            i += 2;
        } else {
            out[n++] = in[i];
        }
    }
    return n;
}
