/* doctor_mpi.c: checks of the MPI and of what starts its jobs. */
#include "base/abi_check.h"
#include "command.h"
#include "doctor.h"
#include "flavour.h"
#include "programs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* ---- the MPI ---- */

#define VERSION_BYTES 16384 /* no less than any MPI's MPI_MAX_LIBRARY_VERSION_STRING */

void doctor_mpi(struct checkup *c)
{
    static char version[VERSION_BYTES];
    int n = 0;
    int (*get_version)(char *, int *);
    *(void **)&get_version = dlsym(RTLD_DEFAULT, "PMPI_Get_library_version");
    if (!get_version || get_version(version, &n) != 0) {
        checkup_add(c, LEVEL_BAD, "no MPI library in reach");
        checkup_fix(c, "build stridec with the mpicc that your programs use");
        return;
    }
    version[strcspn(version, "\n")] = '\0';
    checkup_add(c, LEVEL_OK, "%.100s", version);
}

/* Returns 1 or 0 as the MPI says, -1 if it does not say. Asks in a child process: before MPI_Init some MPIs exit, with
 * a status of their own. */
static int ask_cuda_aware(void)
{
    enum { NO = 40, YES };
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        _exit(stridec_mpi_cuda_aware() ? YES : NO);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status) == YES ? 1 : WEXITSTATUS(status) == NO ? 0 : -1;
}

void doctor_cuda_aware(struct checkup *c)
{
    static const char *const answers[] = {
        "it does not say before MPI_Init; either way works",
        "no: stridec stages device buffers through host memory; a CUDA-aware MPI would add the device transport",
        "yes",
    };
    checkup_add(c, LEVEL_OK, "%s", answers[ask_cuda_aware() + 1]);
}

/* ---- the launcher ---- */

/* Variables that launchers leave in the environment. `family`: the only MPI that joins such a job; UNKNOWN:
 * any may. */
static const struct launcher {
    const char *rank, *size, *name;
    enum mpi_family family;
    bool alone;   /* a job of one rank is none: the shell of a job also has the variables */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", MPI_FAMILY_OPEN_MPI, false},
    {"PMI_RANK", "PMI_SIZE", "MPICH's mpirun, or another one with PMI", MPI_FAMILY_MPICH, false},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "a launcher with PMIx", MPI_FAMILY_UNKNOWN, false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun, without PMIx or PMI", MPI_FAMILY_NONE, true},
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

/* Returns true if this MPI takes part in jobs of the launcher. `first`: one that also left its variables, or NULL. PMIx
 * counts for nothing beside a launcher that names another MPI. */
static bool joins_jobs(const struct launcher *l, const struct launcher *first)
{
    enum mpi_family own = abi_check_built_for();
    if (l->family == MPI_FAMILY_UNKNOWN) return !first;
    return l->family != MPI_FAMILY_NONE && (own > MPI_FAMILY_MPICH || l->family == own);
}

static int size_of(const struct launcher *l)
{
    const char *size = getenv(l->size);
    return size ? atoi(size) : 1;
}

/* Returns the launcher that started this process, by preference one whose jobs this MPI joins; NULL for none. */
static const struct launcher *find_launcher(bool *joins)
{
    const struct launcher *first = NULL;
    *joins = false;
    for (size_t i = 0; i < LAUNCHERS && !*joins; i++) {
        const struct launcher *l = &launchers[i];
        if (!getenv(l->rank) || (l->alone && size_of(l) < 2)) continue;
        *joins = joins_jobs(l, first);
        first = *joins || !first ? l : first;
    }
    return first;
}

enum doctor_start doctor_start(void)
{
    bool joins;
    const struct launcher *l = find_launcher(&joins);
    return !l ? START_NONE : joins ? START_JOB : START_ALONE;
}

int doctor_start_rank(void)
{
    bool joins;
    const struct launcher *l = find_launcher(&joins);
    return l ? atoi(getenv(l->rank)) : 0;
}

int doctor_start_size(void)
{
    bool joins;
    const struct launcher *l = find_launcher(&joins);
    return l ? size_of(l) : 1;
}

void doctor_launcher(struct checkup *c)
{
    bool joins;
    const struct launcher *l = find_launcher(&joins);
    const char *own = mpi_family_name(abi_check_built_for());
    if (!l) {
        checkup_add(c, LEVEL_OK, "none: `mpirun -n 2 stridec doctor` looks at all ranks of a job");
    } else if (joins) {
        checkup_add(c, LEVEL_OK, "%s", l->name);
    } else if (l->family == MPI_FAMILY_NONE) {
        checkup_add(c, LEVEL_BAD, "%s: each rank would be a job of its own", l->name);
        checkup_fix(c, "srun --mpi=pmix, or another of `srun --mpi=list` that the MPI knows; or start by its mpirun");
    } else {
        checkup_add(c, LEVEL_BAD, "%s, and stridec is for %s: each rank would be a job of its own", l->name, own);
        checkup_fix(c, "start by the mpirun of %s, or take a stridec for %s", own, mpi_family_name(l->family));
    }
}

bool doctor_mpirun_fits(enum mpi_family family)
{
    enum mpi_family own = abi_check_built_for();
    return family == MPI_FAMILY_UNKNOWN || own > MPI_FAMILY_MPICH || family == own;   /* or the standard ABI */
}

/* Finds an mpirun of the MPI that stridec is for, under another name. */
static bool find_own_mpirun(char path[PATH_MAX])
{
    static const char *const names[] = {"mpirun.openmpi", "mpirun.mpich", "mpiexec", "orterun", "mpiexec.hydra"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        flavour_set set;
        if (programs_tool(names[i], path) && needs_of_mpirun(path, &set) == abi_check_built_for()) return true;
    }
    return false;
}

void doctor_mpirun(struct checkup *c)
{
    const char *own = mpi_family_name(abi_check_built_for());
    char path[PATH_MAX], other[PATH_MAX];
    if (!programs_tool("mpirun", path) && !programs_tool("mpiexec", path)) {
        checkup_add(c, LEVEL_OK, "none on PATH");
        return;
    }
    flavour_set set;
    enum mpi_family of = needs_of_mpirun(path, &set);
    const char *family = mpi_family_name(of);
    if (doctor_mpirun_fits(of)) {
        checkup_add(c, LEVEL_OK, "%s, %s", path, family ? family : "of an MPI that it does not name");
        return;
    }
    checkup_add(c, LEVEL_WARN, "%s belongs to %s, and stridec is for %s: by it each rank is a job of its own", path,
                family, own);
    if (find_own_mpirun(other)) checkup_fix(c, "start jobs by %s", other);
    else checkup_fix(c, "load the module of %s, or build stridec with the mpicc beside that mpirun", own);
}
