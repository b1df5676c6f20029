/* timing.c: the clock and the median of all benchmarks. */
#include "timing.h"
#include <stdlib.h>
#include <time.h>

double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median_of(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof(double), ascending);
    return sample[n / 2];
}
