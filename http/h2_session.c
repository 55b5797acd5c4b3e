/* h2_session.c - options, SETTINGS and memory of nghttp2's sessions.
 *
 * Thread: a session is made, used and deleted by one thread; deleting by another is fine. */
#include "http/h2_session.h"

#include <pthread.h>
#include <string.h>

#include "autoconfig.h"
#include "http/doh.h"
#include "http/pool.h"

enum {
    /* HPACK's table of what we send: the constant fields and a few dates; nghttp2's own 4096
     * would keep 60 of them. */
    ENCODER_TABLE = 512,
    FRAME_ROOM_MIN = 16 * 1024,
};

/* ---- memory
 *
 * A session asks for room for a whole frame when it is made, and has it for life, though there
 * is something in it only from one nghttp2_session_mem_send() to the next. So all sessions of a
 * thread share it: 16 of 27 KB that an idle one takes. */

static _Thread_local bool making_session;

static void *mem_malloc(size_t size, void *user)
{
    void *room = NULL;

    (void)user;
    if (making_session && size >= FRAME_ROOM_MIN)
        room = pool_take_scratch(size);
    return room ? room : pool_take(size);
}

static void mem_free(void *block, void *user)
{
    (void)user;
    pool_give(block);
}

static void *mem_calloc(size_t n, size_t size, void *user)
{
    void *block;

    (void)user;
    if (n > 0 && size > SIZE_MAX / n)
        return NULL;
    block = pool_take(n * size);
    return block ? memset(block, 0, n * size) : NULL;
}

static void *mem_realloc(void *block, size_t size, void *user)
{
    return block ? pool_resize(block, size) : mem_malloc(size, user);
}

/* ---- sessions */

static nghttp2_option *options; /* of all sessions of the process */

static void init_once(void)
{
    if (nghttp2_option_new(&options) != 0)
        return;
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(options, ENCODER_TABLE);
#ifdef HAVE_NGHTTP2_OPTION_SET_STREAM_RESET_RATE_LIMIT
    /* Ours gives credit for answers that were taken; this one does not. */
    nghttp2_option_set_stream_reset_rate_limit(options, UINT32_MAX, UINT32_MAX);
#endif
}

nghttp2_session *h2_session_create(const nghttp2_session_callbacks *callbacks, void *user,
                                   uint32_t max_streams)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static nghttp2_mem mem = {NULL, mem_malloc, mem_free, mem_calloc, mem_realloc};
    const nghttp2_settings_entry settings[] = {
        /* the first one: h2_session_announce() */
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
         max_streams < UINT32_MAX / 4 ? 2 * max_streams + 100 : UINT32_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, DOH_HEADERS_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_session *session;
    int failed;

    pthread_once(&once, init_once);
    if (!options)
        return NULL;
    making_session = true;
    failed = nghttp2_session_server_new3(&session, callbacks, user, options, &mem);
    making_session = false;
    if (failed)
        return NULL;
    if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings,
                                sizeof(settings) / sizeof(settings[0])) != 0) {
        nghttp2_session_del(session);
        return NULL;
    }
    return session;
}

bool h2_session_announce(uint8_t *frame, size_t len, uint32_t max_streams)
{
    enum { FIRST_ID = 9, FIRST_VALUE = 11 }; /* behind the frame header */

    if (len >= FIRST_VALUE + 4 && frame[3] == NGHTTP2_SETTINGS &&
        frame[FIRST_ID + 1] == NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS) {
        for (int i = 0; i < 4; i++)
            frame[FIRST_VALUE + i] = (uint8_t)(max_streams >> (24 - 8 * i));
    }
    return true;
}
