/* run.c: stridec run: runs a program with libstridec.so preloaded. */
#include "command.h"
#include "flavour.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const SIMULATOR[] = {"sim/libcuda.so.1", NULL};   /* in the build folder */

static int set_variable(const char *variable, const char *value)
{
    return setenv(variable, value, 1) == 0 ? 0 : failure("run", "%s can't be set: %s", variable, strerror(errno));
}

/* Sets the variable to "first:second"; leaves out an empty part. */
static int set_list(const char *variable, const char *first, const char *second)
{
    char *value;
    if (asprintf(&value, "%s%s%s", first, *first && *second ? ":" : "", second) < 0)
        return failure("run", "out of memory");
    int status = set_variable(variable, value);
    free(value);
    return status;
}

/* Returns true if the list holds the library. The loader splits the list at colons and spaces. */
static bool holds(const char *list, const char *library)
{
    for (size_t n; *list; list += n + (list[n] != '\0')) {
        n = strcspn(list, ": ");
        if (n == strlen(library) && !memcmp(list, library, n)) return true;
    }
    return false;
}

/* Puts the library's folder into LD_LIBRARY_PATH and leaves its name: LD_PRELOAD can't hold a path with a space. */
static int preload_by_name(char *library)
{
    if (strpbrk(library, ":;"))
        return failure("run", "LD_PRELOAD can't hold a path with a colon or a semicolon: %s", library);
    char *name = strrchr(library, '/');
    *name++ = '\0';
    const char *present = getenv("LD_LIBRARY_PATH");
    if (set_list("LD_LIBRARY_PATH", library, present ? present : "") != 0)
        return 1;
    memmove(library, name, strlen(name) + 1);
    return 0;
}

static int preload(const struct args *a)
{
    char library[PATH_MAX], why[FLAVOUR_WHY];
    const struct flavour_wish wish = {"libstridec.so", option(a, "--mpi"), a->word[0], false};
    if (!flavour_find(&wish, library, why))
        return failure("run", "%s", why);
    if (strpbrk(library, ": ") && preload_by_name(library) != 0)
        return 1;
    const char *present = getenv("LD_PRELOAD");
    if (!present)
        present = "";
    if (holds(present, library))
        return 0;
    /* The address sanitizer must be the first library. */
    const char *rest = strchr(present, ':');
    size_t first = rest ? (size_t)(rest - present) : strlen(present);
    const char *asan = strstr(present, "asan");
    if (!asan || asan >= present + first)
        return set_list("LD_PRELOAD", library, present);
    char list[2 * PATH_MAX];
    if ((size_t)snprintf(list, sizeof list, "%.*s:%s", (int)first, present, library) >= sizeof list)
        return failure("run", "LD_PRELOAD is too long");
    return set_list("LD_PRELOAD", list, rest ? rest + 1 : "");
}

int run_simulated(const char *name)
{
    char path[PATH_MAX];
    if (!find_beside(SIMULATOR, path) && !flavour_shared("sim/libcuda.so.1", path))
        return failure(name, "--sim: the simulated GPU is not built: sim/libcuda.so.1 is neither beside this "
                              "program nor in ../lib/stridec; `make sim` builds it");
    *strrchr(path, '/') = '\0';
    if (strpbrk(path, ":;"))
        return failure(name, "LD_LIBRARY_PATH can't hold a path with a colon: %s", path);
    const char *present = getenv("LD_LIBRARY_PATH");
    setenv("STRIDEC_AOT", "none", 0);   /* the installed kernels are real GPUs' */
    return set_list("LD_LIBRARY_PATH", path, present ? present : "");
}

static const char *reason_of(const char *program, int error)
{
    struct stat st;
    return error == EACCES && stat(program, &st) == 0 && S_ISDIR(st.st_mode) ? strerror(EISDIR) : strerror(error);
}

/* Sets STRIDEC_STATS, STRIDEC_RECORD and STRIDEC_TRACE as the options say. */
static int report(const struct args *a)
{
    const char *stats = option(a, "--stats"), *record = option(a, "--record"), *trace = option(a, "--trace");
    if (stats && !strcmp(stats, "--stats"))
        stats = "1";
    if (stats && strcmp(stats, "1") && strcmp(stats, "all") && (strncmp(stats, "json:", 5) || !stats[5]))
        return usage_error("run", "--stats=%s: it is --stats, --stats=all or --stats=json:FILE", stats);
    if (stats && set_variable("STRIDEC_STATS", stats) != 0)
        return EXIT_FAILED;
    if (record && set_variable("STRIDEC_RECORD", record) != 0)
        return EXIT_FAILED;
    return trace ? set_variable("STRIDEC_TRACE", trace) : 0;
}

int run_main(const struct args *a)
{
    int status;
    if (!a->words)
        return usage_error("run", "which program?");
    if ((status = report(a)) != 0)
        return status;
    if ((option(a, "--sim") && run_simulated("run") != 0) || preload(a) != 0)
        return EXIT_FAILED;
    execvp(a->word[0], a->word);
    int error = errno;
    failure("run", "%s: %s", a->word[0], reason_of(a->word[0], error));
    return error == ENOENT ? EXIT_NO_PROGRAM : EXIT_NO_RUN;
}
