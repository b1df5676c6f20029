/* abi_check.c: a library built for one MPI and preloaded under another finds out before it uses a handle.
 *
 * Open MPI's handles are pointers, those of MPICH and its descendants are ints, and those of MPI-5's standard ABI
 * are pointers of other values. MPI_Get_library_version has no handle among its arguments: any MPI can be asked. */
#include "abi_check.h"
#include "activity.h"
#include "log.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER FAMILY */
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

/* The first of some variables; -1 where there is none. */
static int first_of(const char *const variables[], size_t n)
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
    return first_of(VARIABLES, sizeof VARIABLES / sizeof *VARIABLES);
}

/* ORDER family. A job may have been started from within one of another MPI's, whose variables it has too. */
static const struct {
    const char *neighbors, *local, *rank, *size;
} LAUNCHERS[] = {
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE"},
};

static bool differs(const char *variable, int from)
{
    int value = first_of(&variable, 1);
    return value >= 0 && value != from;
}

/* Returns the value of one of the launcher's variables; -1 where none tells, or two do. */
static int told_by(bool local, int rank, int size)
{
    int told = -1;
    for (size_t i = 0; i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++) {
        bool others = BUILT_FOR <= MPICH_FAMILY && BUILT_FOR != (enum family)i;
        int value = others ? -1 : first_of(local ? &LAUNCHERS[i].local : &LAUNCHERS[i].neighbors, 1);
        if (value < 0 || differs(LAUNCHERS[i].rank, rank) || differs(LAUNCHERS[i].size, size)) continue;
        if (told >= 0) return -1;
        told = value;
    }
    return told;
}

int launcher_neighbors(int rank, int size)
{
    return told_by(false, rank, size);
}

int launcher_local_rank(int rank, int size)
{
    static const char *const slurm[] = {"SLURM_LOCALID"};
    int told = told_by(true, rank, size);
    return told < 0 && !differs("SLURM_PROCID", rank) && !differs("SLURM_NTASKS", size) ? first_of(slurm, 1) : told;
}

/* A program that loads its MPI only once it runs (an interpreter) finds the calls of the MPI that came with this
 * library first, and they can't be taken back. NULL unless an MPI of another family is loaded. */
static const char *loaded_beside(void)
{
    static const struct {
        const char *soname;
        enum family family;
    } LIBRARIES[] = {
        {"libmpi.so.40", OPEN_MPI_FAMILY}, {"libmpi.so.12", MPICH_FAMILY}, {"libmpich.so.12", MPICH_FAMILY},
        {"libmpi_abi.so.0", STANDARD_ABI}, {"libmpi_abi.so.1", STANDARD_ABI},
    };
    for (size_t i = 0; BUILT_FOR != UNKNOWN_FAMILY && i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) {
        void *library = LIBRARIES[i].family == BUILT_FOR ? NULL : dlopen(LIBRARIES[i].soname, RTLD_NOLOAD | RTLD_LAZY);
        if (!library) continue;
        dlclose(library);
        return LIBRARIES[i].soname;
    }
    return NULL;
}

static void say(const char *what, const char *then)
{
    if (launcher_rank() > 0) return;
    log_set_rank(0);
    log_write(LOG_ERROR, "built for %s, but %s: %s; use a libstridec.so built with the program's mpicc",
              FAMILY[BUILT_FOR], what, then);
}

static bool same_object(void *a, void *b)
{
    Dl_info one, other;
    return dladdr(a, &one) && dladdr(b, &other) && one.dli_fbase == other.dli_fbase;
}

EXPORT int stridec_serves(void)
{
    return which_mpi_fits();
}

/* Two would take each other's descriptors for messages: of several copies (a system's, and one of the user's) the
 * first serves. An older one does not tell whether it does. */
static bool comes_first(void)
{
    int (*serves)(void);
    Dl_info one, own;
    void *first = dlsym(RTLD_DEFAULT, "stridec_calls_of"), *here = (void *)(uintptr_t)FAMILY;
    if (!first || same_object(first, here)) return true;
    *(void **)&serves = dlsym(RTLD_DEFAULT, "stridec_serves");
    if (same_object(*(void **)&serves, first) && !serves()) return true;
    if (launcher_rank() <= 0 && dladdr(first, &one) && dladdr(here, &own))
        log_write(LOG_WARN, "%s is loaded before %s, which does nothing", one.dli_fname, own.dli_fname);
    return false;
}

static bool look(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "", what[512];   /* the other MPI's version may be longer */
    const char *beside = loaded_beside();
    int length = 0;
    int (*get_version)(char *, int *);
    *(void **)&get_version = dlsym(RTLD_NEXT, "MPI_Get_library_version");
    if (!get_version || get_version(version, &length)) return comes_first();
    enum family found = family_of(*(void **)&get_version, version);
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t'));) *tab = ' ';
    if (BUILT_FOR != UNKNOWN_FAMILY && found != UNKNOWN_FAMILY && found != BUILT_FOR) {
        snprintf(what, sizeof what, "the program runs on %s (%.99s)", FAMILY[found], version);
        say(what, "stridec steps aside");
        return false;
    }
    if (beside) {
        snprintf(what, sizeof what, "the program has loaded %s", beside);
        say(what, "its calls may have reached the wrong one of the two, stridec does nothing");
    }
    return !beside && comes_first();
}

bool which_mpi_fits(void)
{
    static atomic_int known;   /* 0: not looked; it is said once */
    if (!atomic_load(&known)) atomic_store(&known, look() ? 1 : -1);
    return atomic_load(&known) > 0;
}
