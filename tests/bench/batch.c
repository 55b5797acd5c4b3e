/* batch.c - see batch.h. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

void batch_key(const struct workload_key *source, struct cache_key *key)
{
    *key = (struct cache_key){
        .qname = source->qname,
        .qname_len = source->qname_len,
        .qtype = source->qtype,
        .subnet = source->scoped ? &source->subnet : NULL,
    };
}

struct batch *batch_create(void)
{
    struct batch *b = malloc(sizeof *b);
    if (b == NULL)
        abort();
    memset(b, 0, sizeof *b);
    b->bytes = malloc(BATCH_BYTES);
    if (b->bytes == NULL)
        abort();
    memset(b->bytes, 1, BATCH_BYTES);
    return b;
}

void batch_destroy(struct batch *b)
{
    if (b == NULL)
        return;
    free(b->bytes);
    free(b);
}

void batch_clear(struct batch *b)
{
    b->n = 0;
    b->raw = 0;
    b->used = 0;
}

bool batch_add_key(struct batch *b, const struct workload *w, uint64_t i)
{
    if (b->n == BATCH_MAX)
        return false;
    workload_key(w, i, &b->source[b->n]);
    batch_key(&b->source[b->n], &b->key[b->n]);
    b->n++;
    return true;
}

bool batch_add(struct batch *b, const struct workload *w, uint64_t i)
{
    if (b->used + WORKLOAD_MESSAGE_MAX > BATCH_BYTES || !batch_add_key(b, w, i))
        return false;
    size_t at = b->n - 1;
    struct workload_reply made;
    uint8_t *msg = b->bytes + b->used;
    workload_reply(w, i, &b->source[at], msg, &made);
    if (!reply_parse(&b->reply[at], msg, made.len))
        abort(); /* the workload is broken, no figure would mean anything */
    b->ttl_s[at] = made.ttl_s;
    b->scope[at] = made.scope;
    b->raw += made.raw;
    b->used += made.len;
    return true;
}

uint64_t batch_put(const struct batch *b, const struct engine *e, void *engine, uint32_t now_s)
{
    uint64_t start = measure_wall_ns();
    for (size_t k = 0; k < b->n; k++)
        e->put(engine, &b->key[k], &b->reply[k], b->ttl_s[k], b->scope[k], now_s);
    return measure_wall_ns() - start;
}

uint64_t batch_get(const struct batch *b, const struct engine *e, void *engine, uint32_t now_s,
                   uint8_t *out, size_t *hits)
{
    size_t found = 0;
    uint64_t start = measure_wall_ns();
    for (size_t k = 0; k < b->n; k++)
        found += e->get(engine, &b->key[k], out, now_s) > 0;
    uint64_t ns = measure_wall_ns() - start;
    if (hits != NULL)
        *hits += found;
    return ns;
}
