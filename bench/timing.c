/* timing.c: see timing.h. */
#include "timing.h"
#include <stdlib.h>
#include <string.h>
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

/* splitmix64, one step a word. */
static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void random_bytes(void *to, size_t bytes, uint64_t seed)
{
    unsigned char *p = to;
    uint64_t state = mixed(seed + 1);

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = mixed(state += 0x9e3779b97f4a7c15u);

        memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}
