/* which_mpi.c: a library built for one MPI and preloaded under another finds out before it uses a handle.
 *
 * Open MPI's handles are pointers, those of MPICH and its descendants are ints, and those of MPI-5's standard ABI
 * are pointers of other values. MPI_Get_library_version has no handle among its arguments: any MPI can be asked. */
#include "which_mpi.h"
#include "log.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum family { OPEN_MPI_FAMILY, MPICH_FAMILY, STANDARD_ABI, UNKNOWN_FAMILY };
static const char *const FAMILY[] = {"Open MPI", "MPICH", "MPI's standard ABI"};

/* What the MPIs call themselves. */
static const struct {
    const char *words;
    enum family family;
} NAMES[] = {
    {"Open MPI", OPEN_MPI_FAMILY}, {"Spectrum MPI", OPEN_MPI_FAMILY}, {"MPICH", MPICH_FAMILY},
    {"Intel(R) MPI", MPICH_FAMILY}, {"MVAPICH", MPICH_FAMILY},
};

#if defined(MPI_ABI_VERSION) && !defined(OPEN_MPI) && !defined(MPICH_VERSION)
static const enum family BUILT_FOR = STANDARD_ABI;
#elif defined(OPEN_MPI)
static const enum family BUILT_FOR = OPEN_MPI_FAMILY;
#elif defined(MPICH_VERSION)
static const enum family BUILT_FOR = MPICH_FAMILY;
#else
static const enum family BUILT_FOR = UNKNOWN_FAMILY;
#endif

/* One MPI may offer the standard ABI too, in a library of that name. */
static enum family family_of(void *function, const char *version)
{
    Dl_info where;
    if (dladdr(function, &where) && strstr(where.dli_fname, "/libmpi_abi.")) return STANDARD_ABI;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strstr(version, NAMES[i].words)) return NAMES[i].family;
    return UNKNOWN_FAMILY;
}

/* MPI_COMM_WORLD can't be asked. True where no launcher tells. */
static bool first_rank(void)
{
    static const char *const VARIABLES[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        const char *rank = getenv(VARIABLES[i]);
        if (rank) return !strcmp(rank, "0");
    }
    return true;
}

bool which_mpi_fits(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "";   /* the other MPI's may be longer */
    int length = 0;
    int (*get_version)(char *, int *);
    *(void **)&get_version = dlsym(RTLD_NEXT, "MPI_Get_library_version");
    if (!get_version || get_version(version, &length)) return true;
    enum family found = family_of(*(void **)&get_version, version);
    if (BUILT_FOR == UNKNOWN_FAMILY || found == UNKNOWN_FAMILY || found == BUILT_FOR) return true;
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t'));) *tab = ' ';
    if (first_rank()) {
        log_set_rank(0);
        log_write(LOG_ERROR, "built for %s, but the program runs on %s (%s): stridec steps aside; use a libstridec.so "
                  "built with the program's mpicc", FAMILY[BUILT_FOR], FAMILY[found], version);
    }
    return false;
}
