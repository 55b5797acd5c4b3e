/* fuzz_json.c - parameters of the JSON API: what is taken is a valid query, and its answer is
 * JSON. A first octet of 0 takes the rest as an answer instead. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "dns/message.h"
#include "fuzz.h"
#include "http/json.h"

static void answer(const uint8_t *msg, size_t len)
{
    size_t text_len;
    char *text = json_answer(msg, len, &text_len);
    json_t *root;

    if (!text)
        return;
    root = json_loadb(text, text_len, JSON_ALLOW_NUL, NULL);
    CHECK(root && strlen(text) == text_len);
    json_decref(root);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t query[JSON_QUERY_MAX];
    struct dns_query q;
    const char *why = NULL;
    size_t len;

    if (size > 0 && data[0] == 0) {
        answer(data + 1, size - 1);
        return 0;
    }
    len = json_query(query, (const char *)data, size, &why);
    CHECK((len == 0) == (why != NULL) && len <= sizeof(query));
    if (len == 0)
        return 0;
    CHECK(query_parse(&q, query, len) == QUERY_OK && q.has_opt && q.id == 0);
    query[2] |= 0x80;
    answer(query, len);
    return 0;
}
