/* flavour.c: chooses which of the installed builds serves a program: one is there for each MPI. */
#include "flavour.h"
#include "command.h"
#include "programs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 64   /* all names, with commas */

const char *const flavour_names[FLAVOURS] = {"openmpi-4", "openmpi-5", "mpich", "mpi-abi"};

/* Writes the reason. Returns false. */
static bool __attribute__((format(printf, 2, 3))) fails(char why[FLAVOUR_WHY], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, FLAVOUR_WHY, format, args);
    va_end(args);
    return false;
}

bool flavour_shared(const char *file, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    return find_beside((const char *const[]){"../lib/stridec", NULL}, folder) &&
           snprintf(path, PATH_MAX, "%s/%s", folder, file) < PATH_MAX && access(path, F_OK) == 0;
}

static bool installed(enum flavour f, const char *file, char path[PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "%s/%s", flavour_names[f], file);
    return flavour_shared(name, path);
}

static flavour_set all_installed(const char *file)
{
    char path[PATH_MAX];
    flavour_set set = 0;
    for (enum flavour f = 0; f < FLAVOURS; f++)
        if (installed(f, file, path)) set |= 1u << f;
    return set;
}

/* Writes the names of a set, with commas. Returns the text. */
static const char *names_of(flavour_set set, char text[NAMES_MAX])
{
    size_t at = 0;
    *text = '\0';
    for (enum flavour f = 0; f < FLAVOURS; f++)
        if (set & 1u << f) at += (size_t)snprintf(text + at, NAMES_MAX - at, "%s%s", at ? ", " : "", flavour_names[f]);
    return text;
}

/* Returns the flavours whose own launcher started this process; FLAVOUR_ALL if none did. */
static flavour_set of_launcher(void)
{
    if (getenv("OMPI_COMM_WORLD_RANK")) return 1u << (getenv("PRTE_LAUNCHED") ? OPEN_MPI_5 : OPEN_MPI_4);
    if (getenv("MPI_LOCALNRANKS")) return 1u << MPICH | 1u << STANDARD;
    return FLAVOUR_ALL;
}

/* Returns the flavours that mostly start as Slurm, Flux and others started this process. */
static flavour_set of_start(void)
{
    if (getenv("PMIX_RANK")) return 1u << OPEN_MPI_4 | 1u << OPEN_MPI_5;
    if (getenv("PMI_RANK")) return 1u << MPICH | 1u << STANDARD;
    return FLAVOUR_ALL;
}

/* Returns those of a set whose own MPI the loader finds, with the version that they are built for. */
static flavour_set that_load(flavour_set set, const char *file)
{
    flavour_set out = 0;
    char path[PATH_MAX];
    struct needs n;
    for (enum flavour f = 0; f < FLAVOURS; f++)
        if (set & 1u << f && installed(f, file, path)) {
            needs_of_file(path, &n);
            if (n.set == 1u << f) out |= 1u << f;
        }
    return out;
}

static bool one(flavour_set set)
{
    return set && !(set & (set - 1));
}

/* Returns what a set and a hint have in common, or the set if that is nothing. */
static flavour_set prefer(flavour_set set, flavour_set hint)
{
    return set & hint ? set & hint : set;
}

/* Narrows the installed flavours for a program that does not tell which MPI it loads. */
static flavour_set guess(flavour_set set, const char *file, struct needs *n)
{
    flavour_set hint;
    char mpirun[PATH_MAX];
    if (!one(set) && *n->python) {
        needs_ask_python(n->python, n);
        set = prefer(set, n->set);
    }
    if (!one(set)) set = prefer(set, that_load(set, file));
    if (!one(set)) set = prefer(set, of_start());
    if (!one(set) && programs_tool("mpirun", mpirun)) {
        needs_of_mpirun(mpirun, &hint);
        set = prefer(set, hint);
    }
    /* Few programs are built for the standard ABI. */
    return set == (1u << MPICH | 1u << STANDARD) ? 1u << MPICH : set;
}

/* Narrows the installed flavours to those that fit the wish. Returns false with `why`. */
static bool choose(const struct flavour_wish *wish, flavour_set *set, char why[FLAVOUR_WHY])
{
    const char *program = wish->program;
    flavour_set had = *set;
    char text[NAMES_MAX], fit[NAMES_MAX];
    struct needs n = {.set = FLAVOUR_ALL, .family = MPI_FAMILY_NONE};
    if (program) needs_read(program, &n);
    if (!(*set &= n.set))
        return fails(why, "%s needs %s%s%s: installed are builds for %s", program, n.library, n.set ? ", " : "",
                     names_of(n.set, fit), names_of(had, text));
    if (*n.path && one(*set)) return true;
    if (wish->any) *set = prefer(*set, of_launcher());
    else if (!(*set &= of_launcher()))
        return fails(why, "this is a rank of %s: installed are builds for %s", names_of(of_launcher(), fit),
                     names_of(had & n.set, text));
    *set = guess(*set, wish->file, &n);
    return true;
}

static bool find_named(const struct flavour_wish *wish, char path[PATH_MAX], char why[FLAVOUR_WHY])
{
    char text[NAMES_MAX];
    for (enum flavour f = 0; f < FLAVOURS; f++)
        if (strcmp(wish->name, flavour_names[f]) == 0 && installed(f, wish->file, path)) return true;
    return fails(why, "--mpi %s: installed are builds for %s", wish->name, names_of(all_installed(wish->file), text));
}

bool flavour_find(const struct flavour_wish *wish, char path[PATH_MAX], char why[FLAVOUR_WHY])
{
    char text[NAMES_MAX];
    if (find_beside((const char *const[]){wish->file, NULL}, path))
        return !wish->name || fails(why, "--mpi %s: a build folder holds a build for one MPI alone", wish->name);
    flavour_set set = all_installed(wish->file);
    if (!set) return fails(why, "%s is neither beside this program nor in ../lib/stridec/MPI", wish->file);
    if (wish->name) return find_named(wish, path, why);
    if (!choose(wish, &set, why)) return false;
    if (!wish->any && !one(set))
        return fails(why, "which MPI%s%s? Say --mpi and one of %s", wish->program ? " does this program use: " : "",
                     wish->program ? wish->program : "", names_of(set, text));
    return installed((enum flavour)__builtin_ctz(set), wish->file, path);
}
