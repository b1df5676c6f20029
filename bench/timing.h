/* timing.h: the clock and the median of all benchmarks, those without an MPI too. */
#ifndef STRIDEC_BENCH_TIMING_H
#define STRIDEC_BENCH_TIMING_H

double now_us(void);
double median_of(double *sample, int n);   /* sorts them */

#endif
