/* fuzz_dot.c - DNS framing: whatever comes, in whatever pieces, each message is answered
 * once and with its own ID until the stream ends; memory stays bounded.
 *
 * Input: the first octet seeds the sizes of the pieces, the second says which answers come
 * later, the rest is the stream. */
#include "fuzz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/echo_handler.h"
#include "tls/dot.h"

enum { IN_FLIGHT = 5, QUERIES = 60 };

struct carrier {
    struct stream stream; /* first */
    bool closed;
};

static void on_kick(struct stream *s)
{
    (void)s;
}

static void on_close(struct stream *s, enum stream_close how)
{
    (void)how;
    ((struct carrier *)s)->closed = true;
}

/* What came out is whole answers, each an echo of a query. Returns how many. */
static size_t drain(struct buf *out)
{
    size_t n = 0;
    while (buf_len(out) > 0) {
        const uint8_t *p = buf_data(out);
        CHECK(buf_len(out) >= 14);
        size_t len = (size_t)p[0] << 8 | p[1];
        CHECK(len >= 12 && buf_len(out) >= 2 + len && (p[4] & 0x80));
        buf_consume(out, 2 + len);
        n++;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct stream_carrier callbacks = {on_kick, on_close};
    static struct echo_handler handler;
    if (size < 2)
        return 0;
    unsigned piece = data[0], late = data[1];
    data += 2;
    size -= 2;
    echo_init(&handler);
    handler.hold = late & 1;
    struct dot_options options = {.handler = &handler.handler,
                                  .transport = QUERY_TCP,
                                  .max_in_flight = IN_FLIGHT,
                                  .max_queries = late & 2 ? QUERIES : 0};
    struct carrier c = {.stream = {.carrier = &callbacks}};
    CHECK(dot_attach(&c.stream, &options));

    size_t at = 0, given = 0, answers = 0;
    for (size_t turns = 0; !c.closed && turns < 2 * size + 16; turns++) {
        size_t used = 0;
        piece = piece * 13 + 7;
        given += piece % 61;
        if (given > size)
            given = size;
        if (given > at)
            CHECK(c.stream.rider->on_data(&c.stream, data + at, given - at, &used));
        CHECK(used <= given - at);
        at += used;
        CHECK(handler.n_held <= IN_FLIGHT);
        CHECK(c.stream.rider->in_flight(&c.stream) == handler.n_held);
        if (handler.n_held > 0 && piece % 3)
            echo_release(&handler, piece % handler.n_held);
        CHECK(buf_len(&c.stream.out) < STREAM_OUT_HIGH + IN_FLIGHT * 65537);
        answers += drain(&c.stream.out);
        if (given == size && used == 0 && handler.n_held == 0)
            break;
    }
    if (!c.closed) {
        c.stream.rider->on_eof(&c.stream);
        while (handler.n_held > 0)
            echo_release(&handler, 0);
        CHECK(c.closed);
    }
    answers += drain(&c.stream.out);
    /* All are answered but what was malformed, of which the first ended the input. */
    CHECK(handler.n_held == 0 && answers <= handler.n_seen);
    CHECK(handler.hold || answers + 1 >= handler.n_seen);
    c.stream.rider->destroy(&c.stream);
    buf_release(&c.stream.out);
    return 0;
}
