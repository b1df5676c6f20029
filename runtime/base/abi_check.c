/* abi_check.c: finds out whether the library was built for the program's MPI, before it uses a handle.
 *
 * Open MPI's handles are pointers; MPICH's and its descendants' are ints; those of MPI-5's standard ABI are
 * pointers of other values. MPI_Get_library_version takes no handle: it is safe to call in any MPI. */
#include "abi_check.h"
#include "activity.h"
#include "launcher.h"
#include "log.h"
#include "mpi_abi.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* An MPI may also have the standard ABI, in a library named libmpi_abi. */
static enum mpi_family family_of(void *function, const char *version)
{
    Dl_info where;
    if (dladdr(function, &where) && strstr(where.dli_fname, "/libmpi_abi.")) return MPI_FAMILY_STANDARD;
    return mpi_family_of_text(version);
}

enum mpi_family abi_check_built_for(void)
{
    return MPI_FAMILY;
}

/* Returns the name of a loaded MPI library of another family, else NULL. An interpreter loads its MPI late and finds
 * this library's own MPI first. Its calls to that MPI can't be taken back. */
static const char *other_mpi_loaded(void)
{
    for (const struct mpi_library *l = mpi_libraries; MPI_FAMILY != MPI_FAMILY_UNKNOWN && l->soname; l++) {
        void *library = l->family == MPI_FAMILY ? NULL : dlopen(l->soname, RTLD_NOLOAD | RTLD_LAZY);
        if (!library) continue;
        dlclose(library);
        return l->soname;
    }
    return NULL;
}

static void log_mismatch(const char *what, const char *then)
{
    if (launcher_rank() > 0) return;
    log_set_rank(0);
    log_write(LOG_ERROR,
              "built for %s, but %s: %s; use a libstridec.so built with the program's mpicc (stridec run --mpi)",
              mpi_family_name(MPI_FAMILY), what, then);
}

static bool in_same_library(void *a, void *b)
{
    Dl_info one, other;
    return dladdr(a, &one) && dladdr(b, &other) && one.dli_fbase == other.dli_fbase;
}

EXPORT int stridec_serves(void)
{
    return abi_check_ok();
}

/* Returns true if this is the first copy of stridec in the process: two copies would take each other's RTS headers
 * for messages. An older copy has no stridec_serves and counts as serving. */
static bool is_first_copy(void)
{
    int (*serves)(void);
    Dl_info one, own;
    void *first = dlsym(RTLD_DEFAULT, "stridec_calls_of"), *here = (void *)(uintptr_t)mpi_libraries;
    if (!first || in_same_library(first, here)) return true;
    *(void **)&serves = dlsym(RTLD_DEFAULT, "stridec_serves");
    if (in_same_library(*(void **)&serves, first) && !serves()) return true;
    if (launcher_rank() <= 0 && dladdr(first, &one) && dladdr(here, &own))
        log_write(LOG_WARN, "%s is loaded before %s, which does nothing", one.dli_fname, own.dli_fname);
    return false;
}

static bool check_mpi(void)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 8192] = "", what[512];   /* another MPI's version may be longer */
    const char *beside = other_mpi_loaded();
    int length = 0;
    int (*get_version)(char *, int *);
    *(void **)&get_version = dlsym(RTLD_NEXT, "MPI_Get_library_version");
    if (!get_version || get_version(version, &length)) return is_first_copy();
    enum mpi_family found = family_of(*(void **)&get_version, version);
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t'));) *tab = ' ';
    if (MPI_FAMILY != MPI_FAMILY_UNKNOWN && found != MPI_FAMILY_UNKNOWN && found != MPI_FAMILY) {
        snprintf(what, sizeof what, "the program runs on %s (%.99s)", mpi_family_name(found), version);
        log_mismatch(what, "stridec steps aside");
        return false;
    }
    if (beside) {
        snprintf(what, sizeof what, "the program has loaded %s", beside);
        log_mismatch(what, "its calls may have reached the wrong one of the two, stridec does nothing");
    }
    return !beside && is_first_copy();
}

bool abi_check_ok(void)
{
    static atomic_int known;   /* 0: not checked yet; the mismatch is logged once */
    if (!atomic_load(&known)) atomic_store(&known, check_mpi() ? 1 : -1);
    return atomic_load(&known) > 0;
}
