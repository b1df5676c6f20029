/* needs.c: which MPI a program loads. The loader's own list of libraries answers for ELF files, mpi4py for Python. */
#include "base/file.h"
#include "capture.h"
#include "flavour.h"
#include "libraries.h"
#include "programs.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OPEN_MPI (1u << OPEN_MPI_4 | 1u << OPEN_MPI_5)

/* Both call their library libmpi.so.40: sessions came with Open MPI 5. */
static flavour_set open_mpi_version(const char *path)
{
    static const char FUNCTION[] = "\0MPI_Session_init";
    flavour_set set = OPEN_MPI;
    struct stat st;
    int fd = file_look(path);
    void *data = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
        data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data != MAP_FAILED) {
        set = 1u << (memmem(data, (size_t)st.st_size, FUNCTION, sizeof FUNCTION) ? OPEN_MPI_5 : OPEN_MPI_4);
        munmap(data, (size_t)st.st_size);
    }
    if (fd >= 0) close(fd);
    return set;
}

static flavour_set flavours_of(enum mpi_family family, const char *path)
{
    return family == MPI_FAMILY_OPEN_MPI   ? open_mpi_version(path)
           : family == MPI_FAMILY_MPICH    ? 1u << MPICH
           : family == MPI_FAMILY_STANDARD ? 1u << STANDARD
                                           : 0;
}

/* Notes a library that is loaded from `path`, NULL if it is not found. The first MPI counts. */
static void note_library(const char *name, const char *path, void *arg)
{
    struct needs *n = arg;
    enum mpi_family family = mpi_family_of_library(name);
    if (!path && !*n->missing) snprintf(n->missing, sizeof n->missing, "%s", name);
    if (*n->library || family == MPI_FAMILY_NONE) return;
    const char *number = strstr(name, ".so.") + strlen(".so.");
    size_t length = (size_t)(number - name) + strspn(number, "0123456789");   /* without the release */
    n->family = family;
    snprintf(n->library, sizeof n->library, "%.*s", (int)length, name);
    if (!path) return;
    n->set = flavours_of(family, path);
    snprintf(n->path, sizeof n->path, "%s", path);
}

bool needs_of_file(const char *path, struct needs *n)
{
    *n = (struct needs){.set = FLAVOUR_ALL, .family = MPI_FAMILY_NONE};
    return libraries_of(path, note_library, n) == 0;
}

bool needs_is_python(const char *path)
{
    return strncmp(programs_name(path), "python", strlen("python")) == 0;
}

void needs_read(const char *program, struct needs *n)
{
    enum { SCRIPTS_MAX = 4 };   /* as Linux follows them */
    char path[PATH_MAX], next[PATH_MAX], python[PATH_MAX] = "";
    *n = (struct needs){.set = FLAVOUR_ALL, .family = MPI_FAMILY_NONE};
    bool found = programs_find(program, path);
    for (int i = 0; i <= SCRIPTS_MAX && found; i++) {
        /* Pyenv's python3 is a script. */
        if (!*python && needs_is_python(path)) memcpy(python, path, sizeof path);
        found = programs_interpreter(path, next);
        if (found) memcpy(path, next, sizeof path);
        else needs_of_file(path, n);
    }
    memcpy(n->python, python, sizeof python);
}

bool needs_ask_python(const char *python, struct needs *n)
{
    enum { SECONDS = 60 };   /* Python on a slow file system */
    /* Without the present folder, where `python -c` looks first: anybody may have put an mpi4py there. */
    static const char import[] = "import sys; sys.path[:] = [p for p in sys.path if p]\n"
                                 "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False\n"
                                 "print('mpi4py', flush=True); from mpi4py import MPI\n"
                                 "print(*[l for l in open('/proc/self/maps') if '/libmpi' in l], sep='')";
    static char out[1 << 16];
    char *words[] = {(char *)(uintptr_t)python, (char *)(uintptr_t) "-c", (char *)(uintptr_t)import, NULL};
    int status = capture(words, out, sizeof out, SECONDS);
    bool there = false;
    for (char *rest = out, *line; (line = strsep(&rest, "\n"));) {
        const char *path = strchr(line, '/');
        if (there && status == 0 && path) note_library(programs_name(path), path, n);
        there = there || strcmp(line, "mpi4py") == 0;
    }
    return there;
}

enum mpi_family needs_of_mpirun(const char *mpirun, flavour_set *set)
{
    enum { SECONDS = 10 };
    static const char before[] = "(Open MPI) ";
    char out[4096];
    char *words[] = {(char *)(uintptr_t)mpirun, (char *)(uintptr_t) "--version", NULL};
    bool ran = capture(words, out, sizeof out, SECONDS) >= 0;
    enum mpi_family family = ran ? mpi_family_of_text(out) : MPI_FAMILY_UNKNOWN;
    const char *version = strstr(out, before);
    *set = FLAVOUR_ALL;
    if (family == MPI_FAMILY_MPICH)
        *set = 1u << MPICH | 1u << STANDARD;
    else if (family == MPI_FAMILY_OPEN_MPI && version)
        *set = 1u << (strtol(version + strlen(before), NULL, 10) >= 5 ? OPEN_MPI_5 : OPEN_MPI_4);
    else if (family == MPI_FAMILY_OPEN_MPI)
        *set = OPEN_MPI;
    return family;
}
