/* together.c: see together.h. */
#include "together.h"
#include "../runtime/api/stridec.h"
#include "common.h"
#include <stdlib.h>
#include <string.h>

#define BATCH 10
#define CALLS_MAX 1000
#define GAP 0x5a

bool together_past(double end_us)
{
    int past = now_us() >= end_us;

    MPI_Bcast(&past, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return past;
}

void together_ready(int n, const MPI_Datatype types[], const void *memory)
{
    if (stridec_loaded())
        stridec_register(MPI_COMM_WORLD, n, types, memory, 1);
}

void together_warm(void (*run)(void *arg), void *arg, double us)
{
    double end = now_us() + us;

    do {
        for (int i = 0; i < BATCH; i++)
            run(arg);
    } while (!together_past(end));
}

int together_calls(void (*run)(void *arg), void *arg, double us, int least)
{
    double t = now_us();
    int calls;

    run(arg);
    calls = (int)(us / (now_us() - t + 1));
    calls = calls < least ? least : calls > CALLS_MAX ? CALLS_MAX : calls;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return calls;
}

/* Times calls that all begin at once, on this rank. */
static void time_each(void (*run)(void *arg), void *arg, int calls, double us[])
{
    for (int i = 0; i < calls; i++) {
        double begun;

        MPI_Barrier(MPI_COMM_WORLD);
        begun = now_us();
        run(arg);
        us[i] = now_us() - begun;
    }
}

double together_us(void (*run)(void *arg), void *arg, int calls)
{
    double *sample = host_new((size_t)calls * sizeof(double)), us;

    time_each(run, arg, calls, sample);
    MPI_Allreduce(MPI_IN_PLACE, sample, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    us = median_of(sample, calls);
    free(sample);
    return us;
}

static size_t span_of(const struct together_fields *d)
{
    size_t all = 0;

    for (int i = 0; i < d->n; i++)
        all += d->span[i];
    return all;
}

static void gaps_set(const struct together_fields *d, char *at, size_t span)
{
    for (size_t gap = d->run; d->run && gap < span; gap += d->stride)
        memset(at + gap, GAP, d->stride - d->run);
}

bool together_right(const struct together_fields *d, void (*trip)(void *arg), void *arg, const char *what, double *us)
{
    static uint64_t seed;
    size_t all = span_of(d), at = 0;
    char *own = host_new(all), *want = host_new(all);
    double begun;
    bool ok = true;
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    seed += 2;
    random_bytes(own, all, seed + (uint64_t)rank);
    random_bytes(want, all, seed + (uint64_t)(1 - rank));
    for (int i = 0; i < d->n; at += d->span[i++]) {
        gaps_set(d, want + at, d->span[i]);
        device_write(d->from[i], own + at, d->span[i]);
        device_set(d->to[i], GAP, d->span[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    begun = now_us();
    trip(arg);
    if (us)
        *us = (now_us() - begun) / 2;
    at = 0;
    for (int i = 0; i < d->n; at += d->span[i++])
        ok = device_equals(d->to[i], want + at, d->span[i]) && ok;
    if (!ok)
        fprintf(stderr, "%s: rank %d has wrong bytes\n", what, rank);
    MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    free(own);
    free(want);
    return ok;
}

void together_trips(void (*trip)(void *arg), void *arg, int trips, double us[])
{
    time_each(trip, arg, trips, us);
    for (int i = 0; i < trips; i++)
        us[i] /= 2;
}
