/* doctor_system.c: checks of the system: shared memory, other processes' memory, limits, variables. */
#include "base/abi_check.h"
#include "base/env.h"
#include "base/file.h"
#include "command.h"
#include "doctor.h"
#include "flavour.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define MIB ((uint64_t)1 << 20)

void doctor_version(struct checkup *c)
{
    checkup_add(c, LEVEL_OK, "%s, generator %s", stridec_version, gen_version());
}

/* ---- the library ---- */

void doctor_library(struct checkup *c)
{
    static const char *const places[] = {"libstridec.so", "../libstridec.so", NULL};
    const char *family = mpi_family_name(abi_check_built_for());
    struct needs mpi;
    char path[PATH_MAX];
    if (!find_beside(places, path)) {
        checkup_add(c, LEVEL_BAD,
                    "libstridec.so is neither beside this command nor in ../lib: `stridec run` can't load it");
        checkup_fix(c, "`make` and `make install` put it there");
        return;
    }
    needs_of_file(path, &mpi);
    checkup_add(c, *mpi.path || !*mpi.library ? LEVEL_OK : LEVEL_BAD, "%s, for %s%s%s%s%s", path,
                family ? family : "an MPI without a name", *mpi.library ? ": " : "", mpi.library,
                !*mpi.library ? ""
                : *mpi.path  ? " is "
                             : " is not found by the loader",
                mpi.path);
    if (*mpi.library && !*mpi.path) checkup_fix(c, "load the MPI's module, or put its folder into LD_LIBRARY_PATH");
}

/* ---- memory of the node ---- */

#define SHM_LEAST (64 * MIB) /* a rank's file has slots and signatures of some MiB, and blocks for messages */

void doctor_shm(struct checkup *c)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0 || !doctor_can_write("/dev/shm")) {
        checkup_add(c, LEVEL_WARN,
                    "can't be written: ranks of this machine share no memory, so that messages between them "
                    "are packed and go by the MPI");
        checkup_fix(c, "mount a tmpfs on /dev/shm with mode 1777; in a container --shm-size=1g");
        return;
    }
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize, left = (uint64_t)fs.f_bavail * fs.f_frsize, shown = MIB;
    while (shown * 2 <= left) /* a round figure, which other ranks see too */
        shown *= 2;
    if (left < SHM_LEAST) {
        checkup_add(c, LEVEL_WARN,
                    "%.0f MiB, less than %.0f MiB of it free: some messages between ranks will be packed and "
                    "go by the MPI",
                    (double)all / MIB, (double)SHM_LEAST / MIB);
        checkup_fix(c, "make /dev/shm larger (in a container --shm-size=1g), or remove old files from it");
        return;
    }
    checkup_add(c, LEVEL_OK, "%.0f MiB, at least %.0f MiB free, writable", (double)all / MIB, (double)shown / MIB);
}

/* Reads the parent's memory in a child, as ranks read each other's: neither is the other's descendant's reader. Returns
 * 0 or the error. */
static int read_parent(void)
{
    static volatile uint64_t word;
    word = 0x5eed;
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    int status;
    if (child == 0) {
        uint64_t copy = 0;
        struct iovec own = {&copy, sizeof copy}, theirs = {(void *)(uintptr_t)&word, sizeof copy};
        errno = 0;
        ssize_t got = process_vm_readv(parent, &own, 1, &theirs, 1, 0);
        _exit(got == (ssize_t)sizeof copy && copy == word ? 0 : errno > 0 && errno < 128 ? errno : EIO);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return EAGAIN;
    return WEXITSTATUS(status);
}

/* Returns Yama's setting, or -1 if the kernel has none. */
static int ptrace_scope(void)
{
    char digit = '\0';
    int fd = file_look("/proc/sys/kernel/yama/ptrace_scope");
    bool read_it = fd >= 0 && read(fd, &digit, 1) == 1;
    if (fd >= 0) close(fd);
    return read_it ? digit - '0' : -1;
}

void doctor_cma(struct checkup *c)
{
    int error = read_parent(), scope = ptrace_scope();
    char yama[64] = "";
    if (scope >= 0) snprintf(yama, sizeof yama, " (kernel.yama.ptrace_scope is %d)", scope);
    if (error == 0) {
        checkup_add(c, LEVEL_OK, "processes read each other's memory by process_vm_readv%s", yama);
        return;
    }
    checkup_add(c, LEVEL_WARN,
                "process_vm_readv fails: %s%s: ranks can't read each other's host memory; messages go by "
                "shared memory",
                strerror(error), yama);
    checkup_fix(c, scope > 0
                       ? "sysctl kernel.yama.ptrace_scope=0"
                       : "in a container --cap-add=SYS_PTRACE, or a seccomp profile that allows process_vm_readv");
}

/* ---- limits ---- */

#define FILES_LEAST 256
#define LOCKED_LEAST (64 * MIB)

static void limit_text(char text[32], rlim_t limit, rlim_t unit, const char *name)
{
    if (limit == RLIM_INFINITY) snprintf(text, 32, "unlimited");
    else snprintf(text, 32, "%llu%s", (unsigned long long)(limit / unit), name);
}

void doctor_limits(struct checkup *c)
{
    struct rlimit locked, space, files;
    char l[32], v[32], n[32];
    if (getrlimit(RLIMIT_MEMLOCK, &locked) != 0 || getrlimit(RLIMIT_AS, &space) != 0 ||
        getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    limit_text(l, locked.rlim_cur, 1024, " KiB"), limit_text(v, space.rlim_cur, 1024, " KiB");
    limit_text(n, files.rlim_cur, 1, "");
    bool fabric = access("/dev/infiniband", F_OK) == 0 && locked.rlim_cur < LOCKED_LEAST;
    bool bad = space.rlim_cur != RLIM_INFINITY || files.rlim_cur < FILES_LEAST || fabric;
    checkup_add(c, bad ? LEVEL_WARN : LEVEL_OK,
                "locked memory (ulimit -l) %s, address space (-v) %s, open files (-n) %s", l, v, n);
    if (fabric)
        checkup_fix(c, "ulimit -l unlimited: the network's driver locks memory; under Slurm PropagateResourceLimits");
    else if (space.rlim_cur != RLIM_INFINITY)
        checkup_fix(c, "ulimit -v unlimited: the GPU's driver reserves more addresses than there is memory");
    else if (bad) checkup_fix(c, "ulimit -n 1024: each rank of a machine opens files of the others");
}

/* ---- variables ---- */

struct variables {
    struct checkup *c;
    int set;
};

static void variable(void *arg, const char *name, const char *value, const char *problem)
{
    struct variables *v = arg;
    v->set++;
    if (!problem) {
        checkup_add(v->c, LEVEL_OK, "%s=%s", name, value);
        return;
    }
    checkup_add(v->c, LEVEL_WARN, "%s", problem);
    checkup_fix(v->c, "unset %s, or give it another %s", name,
                strstr(problem, " is not a variable") ? "name" : "value");
}

void doctor_variables(struct checkup *c)
{
    struct variables v = {.c = c};
    env_each(variable, &v);
    if (!v.set) checkup_add(c, LEVEL_OK, "no STRIDEC_* is set");
    if (env_get()->disable) {
        checkup_add(c, LEVEL_WARN, "STRIDEC_DISABLE leaves every call to the MPI%s",
                    stridec_mpi_cuda_aware() ? ""
                                             : "; this one is not CUDA-aware: programs that give it buffers on the GPU "
                                               "fail, or end in a crash");
        checkup_fix(c, "unset STRIDEC_DISABLE");
    }
}
