/* together.c: see together.h. */
#include "together.h"
#include "../runtime/api/stridec.h"
#include "common.h"
#include <stdlib.h>

#define BATCH 10
#define CALLS_MAX 1000

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

double together_us(void (*run)(void *arg), void *arg, int calls)
{
    double *sample = host_new((size_t)calls * sizeof(double)), us;

    for (int i = 0; i < calls; i++) {
        double t;

        MPI_Barrier(MPI_COMM_WORLD);
        t = now_us();
        run(arg);
        sample[i] = now_us() - t;
    }
    MPI_Allreduce(MPI_IN_PLACE, sample, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    us = median_of(sample, calls);
    free(sample);
    return us;
}
