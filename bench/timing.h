/* timing.h: the clock, the median and the random bytes of all benchmarks, those without an MPI or a GPU too. */
#ifndef STRIDEC_BENCH_TIMING_H
#define STRIDEC_BENCH_TIMING_H
#include <stddef.h>
#include <stdint.h>

double now_us(void);
double median_of(double *sample, int n);   /* sorts them */
/* The same bytes for the same seed. */
void random_bytes(void *to, size_t bytes, uint64_t seed);

#endif
