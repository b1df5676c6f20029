/* doctor_mpi.c: checks of the MPI and of what starts its jobs. */
#include "base/abi_check.h"
#include "base/file.h"
#include "capture.h"
#include "command.h"
#include "doctor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define OPEN_MPI "Open MPI" /* as abi_check.h names them */
#define MPICH "MPICH"

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

/* Variables that launchers leave in the environment. `family`: the only MPI that joins such a job; NULL: any may. */
static const struct launcher {
    const char *rank, *size, *name, *family;
    bool alone;   /* a job of one rank is none: the shell of a job also has the variables */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun", OPEN_MPI, false},
    {"PMI_RANK", "PMI_SIZE", "MPICH's mpirun, or another one with PMI", MPICH, false},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "a launcher with PMIx", NULL, false},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun, without PMIx or PMI", "", true},
};
#define LAUNCHERS (sizeof launchers / sizeof *launchers)

/* Returns true if this MPI takes part in jobs of the launcher. `first`: one that also left its variables, or NULL. PMIx
 * counts for nothing beside a launcher that names another MPI. */
static bool joins_jobs(const struct launcher *l, const struct launcher *first)
{
    const char *own = abi_check_built_for();
    if (!l->family) return !first;
    if (!*l->family) return false;
    return !own || strcmp(own, l->family) == 0 || (strcmp(own, OPEN_MPI) != 0 && strcmp(own, MPICH) != 0);
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
    if (!l) {
        checkup_add(c, LEVEL_OK, "none: `mpirun -n 2 stridec doctor` looks at all ranks of a job");
    } else if (joins) {
        checkup_add(c, LEVEL_OK, "%s", l->name);
    } else if (!*l->family) {
        checkup_add(c, LEVEL_BAD, "%s: each rank would be a job of its own", l->name);
        checkup_fix(c, "srun --mpi=pmix, or another of `srun --mpi=list` that the MPI knows; or start by its mpirun");
    } else {
        checkup_add(c, LEVEL_BAD, "%s, and stridec is for %s: each rank would be a job of its own", l->name,
                    abi_check_built_for());
        checkup_fix(c, "start by the mpirun of %s, or take a stridec for %s", abi_check_built_for(), l->family);
    }
}

const char *doctor_mpirun_family(const char *path)
{
    static const struct {
        const char *words, *family;
    } names[] = {
        {"Open MPI", OPEN_MPI}, {"OpenRTE", OPEN_MPI}, {"PRRTE", OPEN_MPI},     {"prterun", OPEN_MPI},
        {"HYDRA", MPICH},       {"MPICH", MPICH},      {"Intel(R) MPI", MPICH}, {"MVAPICH", MPICH},
    };
    char out[4096];
    if (capture((char *[]){(char *)(uintptr_t)path, (char *)(uintptr_t) "--version", NULL}, out, sizeof out, 10) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(out, names[i].words)) return names[i].family;
    return NULL;
}

bool doctor_mpirun_fits(const char *family)
{
    const char *own = abi_check_built_for();
    bool any = !own || (strcmp(own, OPEN_MPI) != 0 && strcmp(own, MPICH) != 0);   /* the standard ABI */
    return !family || any || strcmp(family, own) == 0;
}

/* Finds an mpirun of the MPI that stridec is for, under another name. */
static bool find_own_mpirun(char path[PATH_MAX])
{
    static const char *const names[] = {"mpirun.openmpi", "mpirun.mpich", "mpiexec", "orterun", "mpiexec.hydra"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *family = file_program(names[i], path) ? doctor_mpirun_family(path) : NULL;
        if (family && doctor_mpirun_fits(family)) return true;
    }
    return false;
}

void doctor_mpirun(struct checkup *c)
{
    const char *own = abi_check_built_for();
    char path[PATH_MAX], other[PATH_MAX];
    if (!file_program("mpirun", path) && !file_program("mpiexec", path)) {
        checkup_add(c, LEVEL_OK, "none on PATH");
        return;
    }
    const char *family = doctor_mpirun_family(path);
    if (doctor_mpirun_fits(family)) {
        checkup_add(c, LEVEL_OK, "%s, %s", path, family ? family : "of an MPI that it does not name");
        return;
    }
    checkup_add(c, LEVEL_WARN, "%s belongs to %s, and stridec is for %s: by it each rank is a job of its own", path,
                family, own);
    if (find_own_mpirun(other)) checkup_fix(c, "start jobs by %s", other);
    else checkup_fix(c, "load the module of %s, or build stridec with the mpicc beside that mpirun", own);
}
