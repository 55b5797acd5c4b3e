/* fuzz_h2.c - a whole HTTP/2 session on octets: frames, HPACK, requests, early and late
 * replies, a client that reads and one that does not.
 *
 * The first octet chooses: 1 - the input begins with the connection preface and SETTINGS, 2 -
 * replies come late, 4 - large replies, 8 - `out` is drained between pieces, 16 - small pieces,
 * 32 - drain at the end, 64 - end of input at the end. */
#include <string.h>

#include "fuzz.h"
#include "fuzz_http.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

/* What goes out is whole frames of sane sizes, whatever came in. */
static void check_frames(const struct buf *out)
{
    const uint8_t *p = buf_data(out), *end = p + buf_len(out);

    while (p < end) {
        size_t len;

        CHECK(end - p >= 9);
        len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        CHECK(p[3] <= 9 && len <= 16384 && (size_t)(end - p) - 9 >= len);
        p += 9 + len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_http f;
    uint8_t flags = size > 0 ? data[0] : 0;

    if (size == 0)
        return 0;
    fuzz_http_start(&f, http_h2_attach, flags);
    f.check = check_frames;
    if (flags & 1)
        fuzz_http_data(&f, (const uint8_t *)preface, sizeof(preface) - 1);
    fuzz_http_run(&f, data + 1, size - 1);
    return 0;
}
