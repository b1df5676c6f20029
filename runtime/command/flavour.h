/* flavour.h: builds for several MPIs in one prefix, and the choice among them. Installed builds lie in
 * ../lib/stridec/FLAVOUR; a build folder holds one, beside the program. */
#ifndef STRIDEC_FLAVOUR_H
#define STRIDEC_FLAVOUR_H

#include "base/mpi_family.h"
#include <limits.h>
#include <stdbool.h>

/* ORDER FLAVOURS: flavour_names. Also packaging/flavour.mk names them. */
enum flavour { OPEN_MPI_4, OPEN_MPI_5, MPICH, STANDARD, FLAVOURS };
extern const char *const flavour_names[FLAVOURS];   /* "openmpi-4", "openmpi-5", "mpich", "mpi-abi" */

/* A set of flavours: 1 << flavour. */
typedef unsigned flavour_set;
#define FLAVOUR_ALL ((1u << FLAVOURS) - 1)

struct flavour_wish {
    const char *file;      /* "libstridec.so" or "stridec-mpi" */
    const char *name;      /* --mpi; NULL if not given */
    const char *program;   /* whose MPI it should be; NULL: the MPI of the launcher, or of this system */
    bool any;              /* a build for any MPI will do */
};
#define FLAVOUR_WHY (PATH_MAX + 256)
/* Finds the file of the build beside this program, else of an installed build. These rules narrow the builds, in order,
 * until one is left; a hint that leaves none is not followed:
 * 1. --mpi;
 * 2. the MPI that the loader finds for the program, or for the interpreter of a script;
 * 3. the MPI whose mpirun started this process;
 * 4. a hint: for Python, the MPI that mpi4py loads (it is imported, without MPI_Init);
 * 5. a hint: the builds whose own MPI the loader finds;
 * 6. a hint: how Slurm and others started this process: PMIx for Open MPI, PMI for MPICH;
 * 7. a hint: the mpirun on PATH;
 * 8. MPICH goes before the standard ABI, which few programs use.
 * Returns false with the reason in `why`. */
bool flavour_find(const struct flavour_wish *wish, char path[PATH_MAX], char why[FLAVOUR_WHY]);

/* Finds a file of all builds, below ../lib/stridec: where LIBDIR is another folder, that is a link. */
bool flavour_shared(const char *file, char path[PATH_MAX]);

/* ---- which MPI a program loads (needs.c) ---- */

struct needs {
    flavour_set set;         /* of the MPI library, 0 if none fits; FLAVOUR_ALL if none is needed or found */
    enum mpi_family family;
    char library[64];        /* the soname of that library; "" if none */
    char path[PATH_MAX];     /* where it is; "" if the loader does not find it */
    char missing[128];       /* the first library that the loader does not find; "" if none */
    char python[PATH_MAX];   /* the interpreter, where the program is Python or a script for it; else "" */
};

/* Asks the loader which MPI it finds for an executable file or a script's interpreter. Runs nothing of the program but
 * the loader that it names: for one that the caller is about to start. */
void needs_read(const char *program, struct needs *n);
/* Asks the loader for the needs of one file, a library or program (libraries_of). Returns false if it can't tell. */
bool needs_of_file(const char *path, struct needs *n);
/* Returns true for a name of Python's interpreter. */
bool needs_is_python(const char *path);
/* Asks mpi4py which MPI it loads: a Python process imports it, without MPI_Init. Changes `n` if there is an answer.
 * Returns false if there is no mpi4py. */
bool needs_ask_python(const char *python, struct needs *n);
/* Asks an mpirun which MPI it belongs to; UNKNOWN if it does not say. Sets `set` to the flavours whose jobs it starts,
 * FLAVOUR_ALL if unknown. */
enum mpi_family needs_of_mpirun(const char *mpirun, flavour_set *set);

#endif
