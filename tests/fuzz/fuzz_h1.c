/* fuzz_h1.c - a whole HTTP/1.1 session on octets, cut in pieces in two ways: what the handler
 * is asked and what comes out must not depend on the cut.
 *
 * The first octet chooses as in fuzz_h2.c (but 1). */
#include <string.h>

#include "fuzz.h"
#include "fuzz_http.h"

/* Takes one run's result; `date` may differ and is made equal. */
static void blank_dates(struct buf *b)
{
    uint8_t *p = b->mem;

    while (p && (p = memmem(p, (size_t)(b->mem + b->end - p), "\r\ndate: ", 8))) {
        size_t left = (size_t)(b->mem + b->end - p) - 8;

        p += 8; /* what a client sent and got back may look the same, and then is blanked too */
        memset(p, 'x', left < 29 ? left : 29);
    }
}

static void session(struct fuzz_http *f, const uint8_t *data, size_t size, uint8_t flags)
{
    fuzz_http_start(f, http_h1_attach, flags);
    fuzz_http_run(f, data, size);
    blank_dates(&f->all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_http whole, pieces;
    uint8_t flags = size > 0 ? data[0] : 0;

    if (size == 0)
        return 0;
    whole.keep = pieces.keep = true;
    session(&whole, data + 1, size - 1, (uint8_t)((flags & ~18) | 8));
    session(&pieces, data + 1, size - 1, (uint8_t)((flags & ~2) | 8 | 16));
    CHECK(whole.handler.n_submitted == pieces.handler.n_submitted);
    CHECK(buf_len(&whole.all) == buf_len(&pieces.all));
    CHECK(buf_len(&whole.all) == 0 ||
          memcmp(buf_data(&whole.all), buf_data(&pieces.all), buf_len(&whole.all)) == 0);
    buf_release(&whole.all);
    buf_release(&pieces.all);
    whole.keep = false;
    if (flags & 2) {
        fuzz_http_start(&whole, http_h1_attach, flags);
        fuzz_http_run(&whole, data + 1, size - 1);
    }
    return 0;
}
