/* measure.h - clocks, resident memory, medians. */
#ifndef PITH_BENCH_MEASURE_H
#define PITH_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of the monotonic clock, and of CPU this thread has had. */
uint64_t measure_wall_ns(void);
uint64_t measure_cpu_ns(void);

/* Resident octets of the process, exact: from /proc/self/smaps_rollup (statm is off by
 * what the kernel has not yet summed up); 0 when it cannot be read. */
size_t measure_resident(void);

/* The middle value; reorders v. 0 for none. */
double measure_median(double *v, size_t n);

/* Time of batches of equal work: the median hides what interrupts a batch. */
enum { MEASURE_BATCHES = 65536 };
struct measure_batches {
    double ns[MEASURE_BATCHES]; /* an operation */
    size_t n;
};
void measure_batch(struct measure_batches *b, uint64_t ns, size_t operations);
/* Median; *p10, when not NULL, gets the time that a tenth of the batches stayed under: about
 * what a quiet machine would give. Empties b. */
double measure_batches_median(struct measure_batches *b, double *p10);

#endif
