/* launcher.c: see launcher.h. */
#include "launcher.h"
#include "mpi_abi.h"
#include <stdbool.h>
#include <stdlib.h>

/* Returns the number in the first variable that is set; -1 if none is. */
static int first_env(const char *const variables[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *value = getenv(variables[i]);
        if (value) return atoi(value);
    }
    return -1;
}

int launcher_rank(void)
{
    static const char *const VARIABLES[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    return first_env(VARIABLES, sizeof VARIABLES / sizeof *VARIABLES);
}

/* ORDER family. A job started from within a job of another MPI also has that MPI's variables. */
static const struct {
    const char *local_size, *local, *rank, *size;
} LAUNCHERS[] = {
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"},
};

static bool env_differs(const char *variable, int from)
{
    int value = first_env(&variable, 1);
    return value >= 0 && value != from;
}

/* Returns the value of a launcher's variable; -1 if no launcher or more than one gives it. */
static int launcher_value(bool local, int rank, int size)
{
    int found = -1;
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++) {
        bool others = MPI_FAMILY <= MPI_FAMILY_MPICH && MPI_FAMILY != (enum mpi_family)i;
        int value = others ? -1 : first_env(local ? &LAUNCHERS[i].local : &LAUNCHERS[i].local_size, 1);
        if (value < 0 || env_differs(LAUNCHERS[i].rank, rank) || env_differs(LAUNCHERS[i].size, size)) continue;
        if (found >= 0) return -1;
        found = value;
    }
    return found;
}

int launcher_local_size(int rank, int size)
{
    return launcher_value(false, rank, size);
}

int launcher_local_rank(int rank, int size)
{
    static const char *const slurm[] = {"SLURM_LOCALID"};
    int found = launcher_value(true, rank, size);
    return found < 0 && !env_differs("SLURM_PROCID", rank) && !env_differs("SLURM_NTASKS", size) ? first_env(slurm, 1)
                                                                                                 : found;
}
