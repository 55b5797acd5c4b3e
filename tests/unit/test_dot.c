/* test_dot.c - DNS framing on a stream in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the above */
#include <cmocka.h>

#include "core/metrics.h"
#include "echo_handler.h"
#include "tls/dot.h"

/* ---- malloc is counted: the linker's --wrap=malloc brings the library's calls here ---- */

static size_t n_malloc;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    n_malloc++;
    return __real_malloc(size);
}

/* ---- a carrier in memory ---- */

struct fixture {
    struct stream stream; /* first */
    struct buf in;        /* given, not yet used */
    struct echo_handler handler;
    struct dot_options options;
    unsigned kicks;
    bool flushed, aborted;
};

static void on_kick(struct stream *s)
{
    ((struct fixture *)s)->kicks++;
}

static void on_close(struct stream *s, enum stream_close how)
{
    struct fixture *f = (struct fixture *)s;
    if (how == STREAM_ABORT)
        f->aborted = true;
    else
        f->flushed = true;
}

static int setup(void **state)
{
    static const struct stream_carrier carrier = {on_kick, on_close};
    struct fixture *f = calloc(1, sizeof *f);
    echo_init(&f->handler);
    f->options = (struct dot_options){
        .handler = &f->handler.handler, .transport = QUERY_DOT, .max_in_flight = 4};
    f->stream.carrier = &carrier;
    addr_parse(&f->stream.client, "192.0.2.1:1234", 0);
    assert_true(dot_attach(&f->stream, &f->options));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (f->stream.rider)
        f->stream.rider->destroy(&f->stream);
    assert_int_equal(f->handler.n_held, 0);
    buf_release(&f->stream.out);
    buf_release(&f->in);
    free(f);
    return 0;
}

/* One wake-up with n more octets (none: as after a kick). */
static void feed(struct fixture *f, const void *data, size_t n)
{
    size_t used = 0;
    assert_true(buf_append(&f->in, data, n));
    if (buf_len(&f->in) > 0)
        assert_true(
            f->stream.rider->on_data(&f->stream, buf_data(&f->in), buf_len(&f->in), &used));
    assert_true(used <= buf_len(&f->in));
    buf_consume(&f->in, used);
    assert_true(f->stream.rider->on_flush(&f->stream));
}

static void feed_query(struct fixture *f, uint16_t id)
{
    uint8_t q[ECHO_QUERY_SIZE];
    echo_query(q, id);
    feed(f, q, sizeof q);
}

/* Takes the next answer from `out` and checks it; -1 when there is none. */
static int next_answer(struct fixture *f)
{
    struct buf *out = &f->stream.out;
    if (buf_len(out) == 0)
        return -1;
    const uint8_t *p = buf_data(out);
    size_t n = (size_t)p[0] << 8 | p[1];
    assert_true(buf_len(out) >= 2 + n && n >= 12);
    assert_true(p[4] & 0x80);
    int id = p[2] << 8 | p[3];
    buf_consume(out, 2 + n);
    return id;
}

static void one_query(void **state)
{
    struct fixture *f = *state;
    feed_query(f, 7);
    assert_int_equal(f->handler.transport, QUERY_DOT);
    assert_int_equal(f->handler.client.port, 1234);
    assert_int_equal(next_answer(f), 7);
    assert_int_equal(next_answer(f), -1);
    assert_int_equal(f->stream.requests, 1);
    assert_false(f->flushed);
}

/* cases.md's 25th: all messages of a record are answered, and half a one waits. */
static void row_25_several_in_one_read(void **state)
{
    struct fixture *f = *state;
    uint8_t q[3 * ECHO_QUERY_SIZE];
    for (uint16_t i = 0; i < 3; i++)
        echo_query(q + i * ECHO_QUERY_SIZE, (uint16_t)(i + 1));
    feed(f, q, 2 * ECHO_QUERY_SIZE + 10);
    assert_int_equal(next_answer(f), 1);
    assert_int_equal(next_answer(f), 2);
    assert_int_equal(next_answer(f), -1);
    assert_true(f->stream.rider->mid_message(&f->stream));
    feed(f, q + 2 * ECHO_QUERY_SIZE + 10, ECHO_QUERY_SIZE - 10);
    assert_int_equal(next_answer(f), 3);
    assert_false(f->stream.rider->mid_message(&f->stream));
}

static void row_25_an_octet_at_a_time(void **state)
{
    struct fixture *f = *state;
    uint8_t q[ECHO_QUERY_SIZE];
    for (uint16_t id = 1; id <= 3; id++) {
        echo_query(q, id);
        for (size_t i = 0; i < sizeof q; i++) {
            assert_int_equal(next_answer(f), -1);
            feed(f, q + i, 1);
            assert_int_equal(f->stream.rider->mid_message(&f->stream), i < sizeof q - 1);
        }
        assert_int_equal(next_answer(f), id);
    }
}

static void row_26_answers_out_of_order(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    feed_query(f, 0x8001);
    feed_query(f, 2);
    feed_query(f, 0x8003);
    assert_int_equal(next_answer(f), 2);
    assert_int_equal(next_answer(f), -1);
    assert_int_equal(f->stream.rider->in_flight(&f->stream), 2);
    assert_int_equal(f->kicks, 0);
    echo_release(&f->handler, 1);
    assert_int_equal(f->kicks, 1);
    assert_int_equal(next_answer(f), 0x8003);
    echo_release(&f->handler, 0);
    assert_int_equal(next_answer(f), 0x8001);
    assert_int_equal(f->stream.rider->in_flight(&f->stream), 0);
    assert_false(f->flushed);
}

static void row_28_end_of_input_waits_for_answers(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    feed_query(f, 0x8001);
    feed_query(f, 0x8002);
    f->stream.rider->on_eof(&f->stream);
    assert_false(f->flushed);
    echo_release(&f->handler, 0);
    assert_false(f->flushed);
    echo_release(&f->handler, 0);
    assert_true(f->flushed);
    assert_false(f->aborted);
    assert_int_equal(next_answer(f), 0x8001);
    assert_int_equal(next_answer(f), 0x8002);
}

static void end_of_input_when_idle(void **state)
{
    struct fixture *f = *state;
    f->stream.rider->on_eof(&f->stream);
    assert_true(f->flushed);
}

static void end_of_input_within_a_message(void **state)
{
    struct fixture *f = *state;
    feed(f, "\0\35\0", 3);
    assert_true(f->stream.rider->mid_message(&f->stream));
    f->stream.rider->on_eof(&f->stream);
    assert_true(f->flushed);
    assert_int_equal(next_answer(f), -1);
    assert_false(f->stream.rider->mid_message(&f->stream));
}

static void shutdown_finishes_what_was_accepted(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    feed_query(f, 0x8001);
    f->stream.rider->on_shutdown(&f->stream);
    assert_false(f->flushed);
    feed_query(f, 2); /* too late */
    assert_int_equal(f->handler.n_seen, 1);
    echo_release(&f->handler, 0);
    assert_true(f->flushed);
    assert_int_equal(next_answer(f), 0x8001);
    assert_int_equal(next_answer(f), -1);
}

static void malformed(struct fixture *f, const void *bad, size_t n)
{
    uint64_t before = metrics_sum(M_STREAM_ERRORS);
    f->handler.hold = true;
    feed_query(f, 0x8001);
    feed_query(f, 2);
    feed(f, bad, n);
    feed_query(f, 3); /* after it nothing counts */
    assert_int_equal(metrics_sum(M_STREAM_ERRORS), before + 1);
    assert_int_equal(buf_len(&f->in), 0);
    assert_int_equal(next_answer(f), 2);
    assert_false(f->flushed);
    echo_release(&f->handler, 0);
    assert_int_equal(next_answer(f), 0x8001);
    assert_int_equal(next_answer(f), -1);
    assert_true(f->flushed);
}

static void malformed_length_0(void **state)
{
    malformed(*state, "\0\0", 2);
}

static void malformed_short_header(void **state)
{
    malformed(*state, "\0\013abcdefghijk", 13);
}

static void malformed_is_a_response(void **state)
{
    malformed(*state, "\0\014\0\1\200\0\0\0\0\0\0\0\0\0", 14);
}

static void malformed_when_idle_ends_at_once(void **state)
{
    struct fixture *f = *state;
    feed(f, "\0\0", 2);
    assert_true(f->flushed);
}

static void malformed_seen_later(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    feed(f, "\0\014\200\1\200\0\0\0\0\0\0\0\0\0", 14); /* held, and refused when released */
    assert_false(f->flushed);
    echo_release(&f->handler, 0);
    assert_true(f->flushed);
}

static void in_flight_is_capped(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    for (uint16_t i = 0; i < 10; i++)
        feed_query(f, (uint16_t)(0x8000 + i));
    assert_int_equal(f->handler.n_held, 4);
    assert_int_equal(buf_len(&f->in), 6 * ECHO_QUERY_SIZE);
    assert_false(f->stream.rider->mid_message(&f->stream));
    for (int i = 0; i < 10; i++) {
        echo_release(&f->handler, 0);
        feed(f, NULL, 0);
        assert_true(f->handler.n_held <= 4);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(next_answer(f), 0x8000 + i);
    assert_int_equal(buf_len(&f->in), 0);
}

static void output_is_capped(void **state)
{
    struct fixture *f = *state;
    f->handler.grow = 60000;
    for (uint16_t i = 0; i < 10; i++)
        feed_query(f, i);
    assert_true(buf_len(&f->stream.out) < STREAM_OUT_HIGH + 65537);
    assert_true(f->handler.n_seen < 10);
    int last = -1;
    while (last < 9) { /* drained, it goes on where it stopped */
        assert_int_equal(next_answer(f), last + 1);
        last++;
        feed(f, NULL, 0);
    }
    assert_int_equal(next_answer(f), -1);
}

static void queries_of_a_connection_are_capped(void **state)
{
    struct fixture *f = *state;
    f->options.max_queries = 2;
    feed_query(f, 1);
    assert_false(f->flushed);
    feed_query(f, 2);
    feed_query(f, 3);
    assert_true(f->flushed);
    assert_int_equal(f->handler.n_seen, 2);
    assert_int_equal(next_answer(f), 1);
    assert_int_equal(next_answer(f), 2);
    assert_int_equal(next_answer(f), -1);
}

static void largest_message(void **state)
{
    struct fixture *f = *state;
    uint8_t *m = calloc(1, 2 + 65535);
    memset(m, 0xff, 2);
    m[3] = 9;
    feed(f, m, 1000);
    assert_true(f->stream.rider->mid_message(&f->stream));
    feed(f, m + 1000, 2 + 65535 - 1000);
    assert_int_equal(buf_len(&f->stream.out), 2 + 65535);
    assert_int_equal(next_answer(f), 9);
    free(m);
}

static void destroy_cancels(void **state)
{
    struct fixture *f = *state;
    f->handler.hold = true;
    for (uint16_t i = 0; i < 3; i++)
        feed_query(f, (uint16_t)(0x8000 + i));
    echo_release(&f->handler, 1);
    f->stream.rider->destroy(&f->stream);
    f->stream.rider = NULL;
    assert_int_equal(f->handler.n_cancelled, 2);
}

static void a_hit_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    uint8_t q[ECHO_QUERY_SIZE];
    size_t used;
    f->handler.hold = true;
    feed_query(f, 0x8001); /* one is under way all the time */
    feed_query(f, 1);
    buf_consume(&f->stream.out, buf_len(&f->stream.out));
    size_t before = n_malloc;
    for (uint16_t i = 0; i < 100; i++) {
        echo_query(q, i);
        assert_true(f->stream.rider->on_data(&f->stream, q, sizeof q, &used));
        assert_int_equal(next_answer(f), i);
    }
    assert_int_equal(n_malloc, before);
    echo_release(&f->handler, 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(one_query),
        T(row_25_several_in_one_read),
        T(row_25_an_octet_at_a_time),
        T(row_26_answers_out_of_order),
        T(row_28_end_of_input_waits_for_answers),
        T(end_of_input_when_idle),
        T(end_of_input_within_a_message),
        T(shutdown_finishes_what_was_accepted),
        T(malformed_length_0),
        T(malformed_short_header),
        T(malformed_is_a_response),
        T(malformed_when_idle_ends_at_once),
        T(malformed_seen_later),
        T(in_flight_is_capped),
        T(output_is_capped),
        T(queries_of_a_connection_are_capped),
        T(largest_message),
        T(destroy_cancels),
        T(a_hit_allocates_nothing),
    };
#undef T
    return cmocka_run_group_tests_name("dot", tests, NULL, NULL);
}
