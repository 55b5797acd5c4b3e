/* client.c - see client.h. */
#include "http/client.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "http/base64url.h"

enum { BODY_MAX = 65535, DNS_PARAMETER = 8 /* "?dns=" and room */ };

struct h2_client {
    nghttp2_session *session;
    int32_t stream; /* of the request, -1 before the first */
    struct h2_response response;
    struct buf body;
    struct buf query; /* what is left to send of a POST */
};

/* --- from the server -------------------------------------------------------------------------
 */

static void copy_field(char out[H2_CLIENT_FIELD], const uint8_t *value, size_t len)
{
    if (len >= H2_CLIENT_FIELD)
        len = H2_CLIENT_FIELD - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = value[i] >= ' ' && value[i] <= '~' ? (char)value[i] : '?';
    out[len] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct h2_client *c = arg;
    char text[H2_CLIENT_FIELD];

    (void)session;
    (void)flags;
    if (frame->hd.stream_id != c->stream)
        return 0;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0) {
        copy_field(text, value, value_len);
        c->response.status = atoi(text);
    } else if (name_len == 12 && memcmp(name, "content-type", 12) == 0) {
        copy_field(c->response.type, value, value_len);
    } else if (name_len == 13 && memcmp(name, "cache-control", 13) == 0) {
        copy_field(c->response.cache_control, value, value_len);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t len, void *arg)
{
    struct h2_client *c = arg;

    (void)session;
    (void)flags;
    if (stream != c->stream)
        return 0;
    if (buf_len(&c->body) + len > BODY_MAX)
        c->response.too_long = true;
    else if (!buf_append(&c->body, data, len))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    c->response.body = buf_data(&c->body);
    c->response.body_len = buf_len(&c->body);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    struct h2_client *c = arg;

    (void)session;
    if (stream == c->stream) {
        c->response.done = error == NGHTTP2_NO_ERROR;
        c->response.reset = error != NGHTTP2_NO_ERROR;
    }
    return 0;
}

/* --- to the server ---------------------------------------------------------------------------
 */

static ssize_t on_read_query(nghttp2_session *session, int32_t stream, uint8_t *out,
                             size_t size, uint32_t *flags, nghttp2_data_source *source,
                             void *arg)
{
    struct h2_client *c = arg;
    size_t n = buf_len(&c->query) < size ? buf_len(&c->query) : size;

    (void)session;
    (void)stream;
    (void)source;
    if (n > 0)
        memcpy(out, buf_data(&c->query), n);
    buf_consume(&c->query, n);
    if (buf_len(&c->query) == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_session *create_session(struct h2_client *c)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    int result = nghttp2_session_client_new(&session, callbacks, c);
    nghttp2_session_callbacks_del(callbacks);
    if (result != 0)
        return NULL;
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
    if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1) == 0)
        return session;
    nghttp2_session_del(session);
    return NULL;
}

struct h2_client *h2_client_create(void)
{
    struct h2_client *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->stream = -1;
    c->session = create_session(c);
    if (c->session != NULL)
        return c;
    free(c);
    return NULL;
}

void h2_client_destroy(struct h2_client *c)
{
    if (c == NULL)
        return;
    nghttp2_session_del(c->session);
    buf_release(&c->body);
    buf_release(&c->query);
    free(c);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

/* PATH?dns=QUERY. NULL when memory is out. */
static char *write_get_path(const char *path, const uint8_t *query, size_t len)
{
    size_t size = strlen(path) + DNS_PARAMETER + base64url_encoded_size(len);
    char *out = malloc(size);

    if (out == NULL)
        return NULL;
    size_t n = (size_t)snprintf(out, size, "%s?dns=", path);
    base64url_encode(out + n, query, len);
    return out;
}

bool h2_client_request(struct h2_client *c, bool post, const char *authority, const char *path,
                       const uint8_t *query, size_t len)
{
    nghttp2_data_provider provider = {.read_callback = on_read_query};
    char length[24];

    c->response = (struct h2_response){.done = false};
    buf_release(&c->body);
    buf_release(&c->query);
    char *get_path = post ? NULL : write_get_path(path, query, len);
    if (post ? !buf_append(&c->query, query, len) : get_path == NULL)
        return false;
    snprintf(length, sizeof(length), "%zu", len);
    const nghttp2_nv fields[] = {
        field(":method", post ? "POST" : "GET"),
        field(":scheme", "https"),
        field(":authority", authority),
        field(":path", post ? path : get_path),
        field("accept", "application/dns-message"),
        field("content-type", "application/dns-message"),
        field("content-length", length),
    };
    size_t n = sizeof(fields) / sizeof(fields[0]);
    c->stream = nghttp2_submit_request(c->session, NULL, fields, post ? n : n - 2,
                                       post ? &provider : NULL, NULL);
    free(get_path);
    return c->stream >= 0;
}

int h2_client_output(struct h2_client *c, const uint8_t **data, size_t *len)
{
    ssize_t n = nghttp2_session_mem_send(c->session, data);

    *len = n > 0 ? (size_t)n : 0;
    if (n != 0)
        return n > 0 ? 1 : -1;
    return nghttp2_session_want_read(c->session) ? 0 : -1;
}

bool h2_client_input(struct h2_client *c, const uint8_t *data, size_t len)
{
    return nghttp2_session_mem_recv(c->session, data, len) == (ssize_t)len;
}

const struct h2_response *h2_client_response(const struct h2_client *c)
{
    return &c->response;
}
