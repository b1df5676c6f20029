/* beside.c: finds files beside the program, in the build folder and installed. */
#include "command.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the folder of this program. Returns false if the system does not tell it. */
static bool program_folder(char *folder, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", folder, bytes - 1);
    if (n <= 0 || (size_t)n >= bytes - 1)
        return false;
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
    return true;
}

bool find_beside(const char *const places[], char path[PATH_MAX])
{
    char folder[PATH_MAX], try[PATH_MAX];
    if (!program_folder(folder, sizeof folder))
        return false;
    for (int i = 0; places[i]; i++)
        if ((size_t)snprintf(try, sizeof try, "%s/%s", folder, places[i]) < sizeof try && realpath(try, path))
            return true;
    return false;
}
