/* measure.c - see measure.h. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t measure_wall_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t measure_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

size_t measure_resident(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    if (f == NULL)
        return 0;
    char line[256];
    size_t kib = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "Rss: %zu kB", &kib) == 1)
            break;
    }
    fclose(f);
    return kib * 1024;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double measure_median(double *v, size_t n)
{
    if (n == 0)
        return 0;
    qsort(v, n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void measure_batch(struct measure_batches *b, uint64_t ns, size_t operations)
{
    if (b->n < MEASURE_BATCHES && operations > 0)
        b->ns[b->n++] = (double)ns / (double)operations;
}

double measure_batches_median(struct measure_batches *b, double *p10)
{
    double median = measure_median(b->ns, b->n);
    if (p10 != NULL)
        *p10 = b->n > 0 ? b->ns[b->n / 10] : 0;
    b->n = 0;
    return median;
}
