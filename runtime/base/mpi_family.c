/* mpi_family.c: see mpi_family.h. */
#include "mpi_family.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The number of the ABI that MPICH and its descendants have in common; the names of their libraries differ. */
#define MPICH_ABI 12

const struct mpi_library mpi_libraries[] = {
    {"libmpi.so.40", MPI_FAMILY_OPEN_MPI},    {"libmpi.so.12", MPI_FAMILY_MPICH},
    {"libmpich.so.12", MPI_FAMILY_MPICH},     {"libmpi_abi.so.0", MPI_FAMILY_STANDARD},
    {"libmpi_abi.so.1", MPI_FAMILY_STANDARD}, {NULL, MPI_FAMILY_NONE},
};

/* Words in the version texts of MPIs and of what starts their jobs. The MPI's own name goes before. */
static const struct {
    const char *words;
    enum mpi_family family;
} TEXTS[] = {
    {"Open MPI", MPI_FAMILY_OPEN_MPI}, {"Spectrum MPI", MPI_FAMILY_OPEN_MPI}, {"MPICH", MPI_FAMILY_MPICH},
    {"Intel(R) MPI", MPI_FAMILY_MPICH}, {"MVAPICH", MPI_FAMILY_MPICH}, {"OpenRTE", MPI_FAMILY_OPEN_MPI},
    {"PRRTE", MPI_FAMILY_OPEN_MPI}, {"prterun", MPI_FAMILY_OPEN_MPI}, {"HYDRA", MPI_FAMILY_MPICH},
};

const char *mpi_family_name(enum mpi_family family)
{
    static const char *const names[] = {"Open MPI", "MPICH", "MPI's standard ABI", NULL, NULL};
    return names[family];
}

enum mpi_family mpi_family_of_text(const char *version)
{
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (strstr(version, TEXTS[i].words)) return TEXTS[i].family;
    return MPI_FAMILY_UNKNOWN;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

enum mpi_family mpi_family_of_library(const char *name)
{
    const char *number = strstr(name, ".so.");
    if (!begins(name, "libmpi") || !number) return MPI_FAMILY_NONE;
    for (const struct mpi_library *l = mpi_libraries; l->soname; l++) {
        char next = begins(name, l->soname) ? name[strlen(l->soname)] : 'x';
        if (next == '\0' || next == '.') return l->family;
    }
    if (begins(name, "libmpi_abi.so.")) return MPI_FAMILY_STANDARD;
    bool beside = strstr(name, "fort") || strstr(name, "f90") || strstr(name, "cxx");
    if (!beside && strtol(number + 4, NULL, 10) == MPICH_ABI) return MPI_FAMILY_MPICH;
    return begins(name, "libmpi.so.") || begins(name, "libmpich.so.") ? MPI_FAMILY_UNKNOWN : MPI_FAMILY_NONE;
}
