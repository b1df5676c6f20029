/* elsewhere.c: calls stridec-mpi for subcommands that need the MPI. Each rank runs `stridec run`, which loads no MPI:
 * `stridec run -- true` takes 2.6 ms instead of 4.1 (Debian's MPICH 4.0). */
#include "command.h"
#include "flavour.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Removes libstridec.so from LD_PRELOAD: stridec-mpi has that code, and would take the loaded copy for the MPI. */
static void drop_library(void)
{
    static const char NAME[] = "libstridec.so";
    char *list = getenv("LD_PRELOAD"), *kept = list ? malloc(strlen(list) + 1) : NULL, *to = kept;
    if (!kept)
        return;
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ": ");
        bool own = n >= sizeof NAME - 1 && strncmp(at + n - (sizeof NAME - 1), NAME, sizeof NAME - 1) == 0;
        if (n && !own)
            to += sprintf(to, "%s%.*s", to > kept ? ":" : "", (int)n, at);
        at += n + (at[n] != '\0');
    }
    *to = '\0';
    setenv("LD_PRELOAD", kept, 1);
    free(kept);
}

/* Inspect and gen have no such option: they call no MPI. */
static bool takes_mpi(const struct command *c)
{
    for (const struct option *o = c->options; o->name; o++)
        if (strcmp(o->name, "--mpi") == 0) return true;
    return false;
}

/* Serves the subcommands of stridec-mpi. Returns only if that fails. */
static int elsewhere(const struct args *a)
{
    const char *name = a->command->name;
    char path[PATH_MAX], why[FLAVOUR_WHY], **all = calloc((size_t)a->argc + 2, sizeof *all);
    if (!all)
        return failure(name, "out of memory");
    if (options_has(a, "--sim") && run_simulated(name) != 0) {
        free(all);
        return EXIT_FAILED;
    }
    bool takes = takes_mpi(a->command);
    const struct flavour_wish wish = {"stridec-mpi", takes ? option(a, "--mpi") : NULL, NULL, !takes};
    if (flavour_find(&wish, path, why)) {
        all[0] = (char *)(uintptr_t)"stridec";
        memcpy(all + 1, a->argv, (size_t)a->argc * sizeof *all);
        drop_library();
        execv(path, all);
        failure(name, "%s: %s", path, strerror(errno));
    } else {
        failure(name, "%s", why);
    }
    free(all);
    return 1;
}

int inspect_main(const struct args *a) __attribute__((alias("elsewhere")));
int gen_main(const struct args *a) __attribute__((alias("elsewhere")));
int report_main(const struct args *a) __attribute__((alias("elsewhere")));
int tune_main(const struct args *a) __attribute__((alias("elsewhere")));
int trace_main(const struct args *a) __attribute__((alias("elsewhere")));
int doctor_main(const struct args *a) __attribute__((alias("elsewhere")));
