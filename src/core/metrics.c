/* metrics.c - the sets of all threads. */
#include "core/metrics.h"

#include <stdlib.h>

struct set {
    struct metrics metrics;
    struct set *next;
};

static struct set shared;
static _Atomic(struct set *) sets = &shared;

_Thread_local struct metrics *metrics_self = &shared.metrics;

void metrics_attach(void)
{
    /* Own cache lines, so that counting never waits for another core. */
    struct set *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    struct set *head = atomic_load(&sets);

    if (!s)
        return; /* counts on in the shared set, at worst losing a few */
    for (size_t i = 0; i < METRIC_COUNT; i++)
        atomic_init(&s->metrics.value[i], 0);
    do
        s->next = head;
    while (!atomic_compare_exchange_weak(&sets, &head, s));
    metrics_self = &s->metrics;
}

uint64_t metrics_sum(enum metric m)
{
    uint64_t sum = 0;

    for (struct set *s = atomic_load(&sets); s; s = s->next)
        sum += atomic_load_explicit(&s->metrics.value[m], memory_order_relaxed);
    return sum;
}

const char *metrics_name(enum metric m)
{
    static const char *const names[] = {
#define METRICS_ROW(symbol, name, help) name,
        METRICS_TABLE(METRICS_ROW)
#undef METRICS_ROW
    };

    return names[m];
}

const char *metrics_help(enum metric m)
{
    static const char *const helps[] = {
#define METRICS_ROW(symbol, name, help) help,
        METRICS_TABLE(METRICS_ROW)
#undef METRICS_ROW
    };

    return helps[m];
}
