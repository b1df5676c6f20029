/* elsewhere.c: in the program that `run` is part of, the subcommands that need the MPI: stridec-mpi is called for them. Each rank
 * of a job goes through `run`, so its program loads no MPI: with Debian's MPICH 4.0, `stridec run -- true` took 4.1 ms and takes
 * 2.6. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const PROGRAM[] = {"stridec-mpi", "../lib/stridec/stridec-mpi", NULL};

static int elsewhere(int argc, char **argv)
{
    char path[PATH_MAX], **all = calloc((size_t)argc + 2, sizeof *all);
    if (!all)
        return failure(argv[0], "out of memory");
    if (find_beside(PROGRAM, path)) {
        all[0] = (char *)(uintptr_t)"stridec";
        memcpy(all + 1, argv, (size_t)argc * sizeof *all);
        execv(path, all);
        failure(argv[0], "%s: %s", path, strerror(errno));
    } else {
        failure(argv[0], "stridec-mpi is neither beside this program nor in ../lib/stridec");
    }
    free(all);
    return 1;
}

int inspect_main(int argc, char **argv)
{
    return elsewhere(argc, argv);
}

int gen_main(int argc, char **argv)
{
    return elsewhere(argc, argv);
}

int tune_main(int argc, char **argv)
{
    return elsewhere(argc, argv);
}

int doctor_main(int argc, char **argv)
{
    return elsewhere(argc, argv);
}
