/* launcher.c: see launcher.h. */
#include "launcher.h"
#include "mpi_abi.h"
#include <stdlib.h>

/* Returns the variable's number; -1 if it is not set. */
static int number(const char *variable)
{
    const char *value = getenv(variable);
    return value ? atoi(value) : -1;
}

int launcher_rank(void)
{
    static const char *const VARIABLES[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++)
        if (getenv(VARIABLES[i])) return number(VARIABLES[i]);
    return -1;
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
    int value = number(variable);
    return value >= 0 && value != from;
}

/* Returns the value of a launcher's variable; -1 if no launcher or more than one gives it. */
static int launcher_value(bool local, int rank, int size)
{
    int found = -1;
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++) {
        bool others = MPI_FAMILY <= MPI_FAMILY_MPICH && MPI_FAMILY != (enum mpi_family)i;
        int value = others ? -1 : number(local ? LAUNCHERS[i].local : LAUNCHERS[i].local_size);
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
    int found = launcher_value(true, rank, size);
    bool slurm = found < 0 && !env_differs("SLURM_PROCID", rank) && !env_differs("SLURM_NTASKS", size);
    return slurm ? number("SLURM_LOCALID") : found;
}

bool launcher_one_node(void)
{
    int size = MPI_FAMILY <= MPI_FAMILY_MPICH ? number(LAUNCHERS[MPI_FAMILY].size) : -1;
    return size > 0 && number(LAUNCHERS[MPI_FAMILY].local_size) == size;
}
