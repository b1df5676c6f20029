/* ranks.c: see ranks.h. */
#include "ranks.h"
#include "base/activity.h"
#include "base/env.h"
#include "device/driver.h"
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void ranks_begin(void)
{
    env_unobserved();
    driver_load();   /* before MPI_Init, which looks for a driver */
    MPI_Init(NULL, NULL);
}

void ranks_end(void)
{
    MPI_Finalize();
}

int ranks_own(void)
{
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int ranks_count(void)
{
    int size = 1;
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

int ranks_follow(int value)
{
    PMPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
}

bool ranks_any(bool value)
{
    int own = value, any = 0;
    PMPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

/* Cuts what was received into a list. Returns NULL without memory. */
static char **list_of(const char *all, const int *at, const int *bytes, int n)
{
    char **list = calloc((size_t)n, sizeof *list);
    for (int i = 0; list && i < n; i++)
        if (!(list[i] = strndup(all + at[i], (size_t)bytes[i]))) return NULL;   /* the command ends then */
    return list;
}

char **ranks_gather(const char *text)
{
    int own = (int)strlen(text), n = ranks_count(), root = ranks_own() == 0;
    int *bytes = calloc((size_t)n, sizeof *bytes), *at = calloc((size_t)n + 1, sizeof *at);
    int can = bytes && at, all_can = 0;
    PMPI_Allreduce(&can, &all_can, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    char *all = NULL, **list = NULL;
    if (all_can) {
        PMPI_Gather(&own, 1, MPI_INT, bytes, 1, MPI_INT, 0, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) at[i + 1] = at[i] + bytes[i];
        all = root ? malloc((size_t)at[n] + 1) : NULL;
        if (ranks_follow(!root || all)) {
            PMPI_Gatherv((char *)(uintptr_t)text, own, MPI_BYTE, all, bytes, at, MPI_BYTE, 0, MPI_COMM_WORLD);
            list = root ? list_of(all, at, bytes, n) : NULL;
        }
    }
    free(bytes), free(at), free(all);
    return list;
}
