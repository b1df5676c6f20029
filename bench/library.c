/* library.c: see library.h. */
#include "library.h"
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int find_mpi(struct dl_phdr_info *info, size_t size, void *path)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)size;
    if (!name || (strncmp(name, "/libmpi.so", 10) != 0 && strncmp(name, "/libmpich.so", 12) != 0))
        return 0;
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
    return 1;
}

void *mpi_library(void)
{
    char path[PATH_MAX];
    void *library = dl_iterate_phdr(find_mpi, path) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : NULL;

    if (!library) {
        fprintf(stderr, "bench: the MPI's library is not found among those loaded\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return library;
}
