/* fuzz_http.h - a session, its handler and carrier for the fuzz targets of HTTP. */
#ifndef PITH_TESTS_FUZZ_HTTP_H
#define PITH_TESTS_FUZZ_HTTP_H

#include "core/addr.h"
#include "fuzz.h"
#include "http/http.h"
#include "unit/http_fake.h"

enum fuzz_http_flags {
    FUZZ_LATE = 2,
    FUZZ_LARGE = 4,
    FUZZ_DRAIN = 8,
    FUZZ_PIECES = 16,
    FUZZ_SHUTDOWN = 32,
    FUZZ_EOF = 64,
};

struct fuzz_http {
    struct fake_handler handler;
    struct fake_carrier carrier;
    struct http_options options;
    uint8_t flags;
    bool keep; /* all output in `all` */
    struct buf all;
    void (*check)(const struct buf *out); /* of each piece of output */
};

static inline void fuzz_http_start(struct fuzz_http *f, bool (*attach)(struct stream *, void *),
                                   uint8_t flags)
{
    static const char *const paths[] = {"/dns-query"};
    static struct cidr trusted;

    cidr_parse(&trusted, "192.0.2.0/24");
    fake_handler_init(&f->handler);
    fake_carrier_init(&f->carrier);
    f->options = (struct http_options){.handler = &f->handler.handler,
                                       .paths = paths,
                                       .n_paths = 1,
                                       .json = true,
                                       .cors = "*",
                                       .trusted_proxies = &trusted,
                                       .n_trusted_proxies = 1,
                                       .max_streams = 10,
                                       .max_queries = 1000};
    f->flags = flags;
    f->handler.hold = flags & FUZZ_LATE;
    f->handler.extra = flags & FUZZ_LARGE ? 20000 : 0;
    CHECK(attach(&f->carrier.s, &f->options));
}

static inline void fuzz_http_out(struct fuzz_http *f)
{
    struct buf *out = &f->carrier.s.out;

    /* Above the mark by one message and frames at most, or all that a burst of hits kept. */
    CHECK(buf_len(out) <= STREAM_OUT_HIGH + 70000);
    if (f->check)
        f->check(out);
    CHECK(!f->keep || buf_append(&f->all, buf_data(out), buf_len(out)));
    buf_consume(out, buf_len(out));
}

/* One wake-up; then the carrier's promises: what is not used comes again, after a drain too. */
static inline void fuzz_http_data(struct fuzz_http *f, const uint8_t *data, size_t len)
{
    size_t left;

    fake_data(&f->carrier, data, len);
    CHECK(f->handler.n_held <= f->options.max_streams);
    do {
        left = buf_len(&f->carrier.rest);
        if (f->flags & FUZZ_DRAIN)
            fuzz_http_out(f);
        fake_data(&f->carrier, NULL, 0);
    } while (!f->carrier.ended && (f->flags & FUZZ_DRAIN) && buf_len(&f->carrier.rest) < left);
    f->carrier.s.rider->mid_message(&f->carrier.s);
    CHECK(f->carrier.s.rider->in_flight(&f->carrier.s) <= f->handler.n_held);
}

/* The whole input, then what the flags say, then the end. */
static inline void fuzz_http_run(struct fuzz_http *f, const uint8_t *data, size_t size)
{
    size_t at = 0, piece = 1;

    while (at < size && !f->carrier.ended) {
        size_t n = f->flags & FUZZ_PIECES ? piece : size;

        if (n > size - at)
            n = size - at;
        fuzz_http_data(f, data + at, n);
        at += n;
        piece = piece * 5 % 23 + 1;
        if (f->handler.n_held > 5)
            fake_release(&f->handler, at % f->handler.n_held);
    }
    if (f->flags & FUZZ_SHUTDOWN)
        f->carrier.s.rider->on_shutdown(&f->carrier.s);
    else if (f->flags & FUZZ_EOF)
        f->carrier.s.rider->on_eof(&f->carrier.s);
    fake_flush(&f->carrier);
    while (f->handler.n_held > 2)
        fake_release(&f->handler, f->handler.n_held / 2);
    fake_flush(&f->carrier);
    fuzz_http_out(f);
    fake_carrier_deinit(&f->carrier);
    CHECK(f->handler.n_held == 0); /* the session's end leaves none */
}

#endif
