/* policy.c - replacement policies over whole caches of unit entries; see trace.h. */
#include <stdlib.h>
#include <string.h>

#include "trace.h"

enum { NONE = UINT32_MAX };

/* A doubly linked list over ids. */
struct list {
    uint32_t *older, *newer;
    uint32_t oldest, newest;
    uint32_t n;
};

struct sim {
    const struct trace *t;
    uint32_t capacity;
    uint32_t *expires_s;
    uint8_t *in; /* 0: not held */
    uint8_t *uses;
    struct list list;
    uint64_t hits;
};

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);
    if (p == NULL)
        abort();
    return p;
}

static void list_init(struct list *l, size_t ids)
{
    *l = (struct list){.oldest = NONE, .newest = NONE};
    l->older = allocate(ids, sizeof *l->older);
    l->newer = allocate(ids, sizeof *l->newer);
}

static void list_push(struct list *l, uint32_t id)
{
    l->older[id] = l->newest;
    l->newer[id] = NONE;
    *(l->newest != NONE ? &l->newer[l->newest] : &l->oldest) = id;
    l->newest = id;
    l->n++;
}

static void list_remove(struct list *l, uint32_t id)
{
    *(l->older[id] != NONE ? &l->newer[l->older[id]] : &l->oldest) = l->newer[id];
    *(l->newer[id] != NONE ? &l->older[l->newer[id]] : &l->newest) = l->older[id];
    l->n--;
}

static void list_deinit(struct list *l)
{
    free(l->older);
    free(l->newer);
}

static void sim_init(struct sim *s, const struct trace *t, uint32_t capacity)
{
    *s = (struct sim){.t = t, .capacity = capacity > 1 ? capacity : 1};
    s->expires_s = allocate(t->ids, sizeof *s->expires_s);
    s->in = allocate(t->ids, 1);
    s->uses = allocate(t->ids, 1);
    list_init(&s->list, t->ids);
}

static uint64_t sim_deinit(struct sim *s)
{
    free(s->expires_s);
    free(s->in);
    free(s->uses);
    list_deinit(&s->list);
    return s->hits;
}

/* Counts a request; an answer that is not there or past its time gets a new life. True when the
 * id is held, expired or not. */
static bool sim_ask(struct sim *s, uint32_t request, uint32_t *id)
{
    uint32_t now_s = trace_now_s(s->t, request);
    *id = s->t->id[request];
    if (s->in[*id] && s->expires_s[*id] > now_s)
        s->hits += request >= trace_warm(s->t);
    else
        s->expires_s[*id] = now_s + s->t->ttl_s[*id];
    return s->in[*id];
}

uint64_t policy_lru(const struct trace *t, uint32_t capacity)
{
    struct sim s;
    sim_init(&s, t, capacity);
    for (uint32_t i = 0; i < t->o.requests; i++) {
        uint32_t id;
        if (sim_ask(&s, i, &id)) {
            list_remove(&s.list, id);
        } else if (s.list.n >= s.capacity) {
            s.in[s.list.oldest] = 0;
            list_remove(&s.list, s.list.oldest);
        }
        s.in[id] = 1;
        list_push(&s.list, id);
    }
    return sim_deinit(&s);
}

uint64_t policy_sieve(const struct trace *t, uint32_t capacity)
{
    struct sim s;
    sim_init(&s, t, capacity);
    uint32_t hand = NONE;
    for (uint32_t i = 0; i < t->o.requests; i++) {
        uint32_t id;
        if (sim_ask(&s, i, &id)) {
            s.uses[id] = 1;
            continue;
        }
        if (s.list.n >= s.capacity) {
            uint32_t victim = hand != NONE ? hand : s.list.oldest;
            while (s.uses[victim] && s.expires_s[victim] > trace_now_s(t, i)) {
                s.uses[victim] = 0;
                victim = s.list.newer[victim] != NONE ? s.list.newer[victim] : s.list.oldest;
            }
            hand = s.list.newer[victim];
            s.in[victim] = 0;
            list_remove(&s.list, victim);
        }
        s.in[id] = 1;
        s.uses[id] = 0;
        list_push(&s.list, id);
    }
    return sim_deinit(&s);
}

enum { SMALL = 1, MAIN = 2, USES_MAX = 3 };

/* Ghosts are numbered as they leave the small queue: one is remembered while it is among the
 * last `capacity of main` of them. */
struct s3fifo {
    struct sim s; /* s.list is the small queue */
    struct list main;
    uint32_t small_max;
    uint8_t promote;
    uint64_t *ghost, ghosts;
};

static void s3fifo_evict_main(struct s3fifo *q, uint32_t now_s)
{
    for (;;) {
        uint32_t id = q->main.oldest;
        list_remove(&q->main, id);
        if (q->s.uses[id] == 0 || q->s.expires_s[id] <= now_s) {
            q->s.in[id] = 0;
            return;
        }
        q->s.uses[id]--;
        list_push(&q->main, id);
    }
}

/* Moves on the oldest of the small queue; one step, which need not make room. */
static void s3fifo_evict_small(struct s3fifo *q, uint32_t now_s)
{
    uint32_t id = q->s.list.oldest;
    list_remove(&q->s.list, id);
    if (q->s.uses[id] >= q->promote && q->s.expires_s[id] > now_s) {
        q->s.in[id] = MAIN;
        q->s.uses[id] = 0;
        list_push(&q->main, id);
    } else {
        q->s.in[id] = 0;
        q->ghost[id] = ++q->ghosts;
    }
}

static void s3fifo_insert(struct s3fifo *q, uint32_t id, uint32_t now_s)
{
    bool ghost = q->ghost[id] != 0 && q->ghosts - q->ghost[id] < q->s.capacity - q->small_max;
    while (q->s.list.n + q->main.n >= q->s.capacity) {
        if (q->s.list.n >= q->small_max || q->main.n == 0)
            s3fifo_evict_small(q, now_s);
        else
            s3fifo_evict_main(q, now_s);
    }
    q->s.uses[id] = 0;
    q->ghost[id] = 0;
    q->s.in[id] = ghost ? MAIN : SMALL;
    list_push(ghost ? &q->main : &q->s.list, id);
}

uint64_t policy_s3fifo(const struct trace *t, uint32_t capacity, uint8_t promote)
{
    struct s3fifo q = {.promote = promote};
    sim_init(&q.s, t, capacity);
    list_init(&q.main, t->ids);
    q.ghost = allocate(t->ids, sizeof *q.ghost);
    q.small_max = q.s.capacity / 10 > 0 ? q.s.capacity / 10 : 1;
    for (uint32_t i = 0; i < t->o.requests; i++) {
        uint32_t id;
        if (sim_ask(&q.s, i, &id))
            q.s.uses[id] = (uint8_t)(q.s.uses[id] < USES_MAX ? q.s.uses[id] + 1 : USES_MAX);
        else
            s3fifo_insert(&q, id, trace_now_s(t, i));
    }
    free(q.ghost);
    list_deinit(&q.main);
    return sim_deinit(&q.s);
}

/* ---- the optimum: a heap of held ids, the one asked for last on top; stale items are skipped
 */

struct heap {
    uint64_t *item; /* next request << 32 | id */
    size_t n;
};

static void heap_push(struct heap *h, uint64_t item)
{
    size_t at = h->n++;
    for (; at > 0 && h->item[(at - 1) / 2] < item; at = (at - 1) / 2)
        h->item[at] = h->item[(at - 1) / 2];
    h->item[at] = item;
}

static uint64_t heap_pop(struct heap *h)
{
    uint64_t top = h->item[0], last = h->item[--h->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        child += child + 1 < h->n && h->item[child + 1] > h->item[child];
        if (h->item[child] <= last)
            break;
        h->item[at] = h->item[child];
    }
    h->item[at] = last;
    return top;
}

uint64_t policy_optimum(const struct trace *t, uint32_t capacity)
{
    struct sim s;
    sim_init(&s, t, capacity);
    struct heap heap = {allocate(t->o.requests + 1u, sizeof(uint64_t)), 0};
    uint32_t *next = allocate(t->ids, sizeof *next), held = 0;
    for (uint32_t i = 0; i < t->o.requests; i++) {
        uint32_t id;
        bool in = sim_ask(&s, i, &id);
        uint32_t again = t->next[i];
        bool useful = again != NONE && trace_now_s(t, again) < s.expires_s[id];
        held = held - in + useful;
        s.in[id] = useful;
        if (!useful)
            continue;
        next[id] = again;
        heap_push(&heap, (uint64_t)again << 32 | id);
        while (held > s.capacity) {
            uint64_t top = heap_pop(&heap);
            uint32_t victim = (uint32_t)top;
            if (s.in[victim] && next[victim] == top >> 32) {
                s.in[victim] = 0;
                held--;
            }
        }
    }
    free(heap.item);
    free(next);
    return sim_deinit(&s);
}
