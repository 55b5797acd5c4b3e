/* fuzz_proxyproto.c - PROXY headers: a result is the same whatever follows the header, and
 * no beginning of a header counts as one. */
#include "fuzz.h"

#include <string.h>

#include "tls/proxyproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxyproto whole, part;
    ssize_t n = proxyproto_parse(&whole, data, size);
    CHECK(n >= -1 && n <= (ssize_t)size && n <= PROXYPROTO_MAX);
    CHECK(n > 0 || !whole.known);
    if (n == 0)
        CHECK(size < PROXYPROTO_MAX);
    if (n <= 0)
        return 0;
    for (size_t len = 0; len < (size_t)n; len++)
        CHECK(proxyproto_parse(&part, data, len) == 0);
    CHECK(proxyproto_parse(&part, data, (size_t)n) == n);
    CHECK(part.known == whole.known && addr_ip_equal(&part.src, &whole.src) &&
          part.src.port == whole.src.port && addr_ip_equal(&part.dst, &whole.dst));
    return 0;
}
