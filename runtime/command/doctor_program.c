/* doctor_program.c: `stridec doctor PROGRAM`: whether stridec can serve a program. */
#include "base/abi_check.h"
#include "base/file.h"
#include "capture.h"
#include "command.h"
#include "doctor.h"
#include "flavour.h"
#include "libraries.h"
#include "programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define SECONDS 20

/* Returns false, with a finding, if it can't be run. */
static bool can_run(struct checkup *c, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        checkup_add(c, LEVEL_BAD, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        checkup_add(c, LEVEL_BAD, "%s: it is a folder", path);
    } else if (access(path, X_OK) != 0) {
        checkup_add(c, LEVEL_BAD, "%s may not be run: %s", path, strerror(errno));
        checkup_fix(c, "chmod +x %s, if it is a program", path);
    } else {
        return true;
    }
    return false;
}

/* ---- what LD_PRELOAD can't reach ---- */

static bool is_privileged(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) return false;
    bool user = st.st_mode & S_ISUID && st.st_uid != getuid(), group = st.st_mode & S_ISGID && st.st_gid != getgid();
    return user || group || getxattr(path, "security.capability", NULL, 0) > 0;
}

/* Returns false, with a finding, if the loader would not preload a library. */
static bool takes_preload(struct checkup *c, const char *path, enum elf_kind kind)
{
    if (kind == ELF_OTHER) {
        checkup_add(c, LEVEL_BAD, "%s is for another processor, or of other word length than stridec", path);
        checkup_fix(c, "build stridec for it");
    } else if (kind == ELF_STATIC || kind == ELF_LIBRARY) {
        checkup_add(c, LEVEL_BAD,
                    "%s is linked statically (or is no program): it loads no libraries, stridec can't serve it", path);
        checkup_fix(c, "link it with the shared MPI, without -static");
    } else if (is_privileged(path)) {
        checkup_add(c, LEVEL_BAD,
                    "%s runs with rights of another user, or with capabilities: the loader ignores LD_PRELOAD", path);
        checkup_fix(c, "chmod u-s,g-s, or setcap -r; or link it with libstridec.so");
    } else {
        return true;
    }
    return false;
}

/* ---- which MPI ---- */

/* Says whether the MPI that `who` needs is that of stridec. */
static void compare_mpi(struct checkup *c, const char *who, const struct needs *n)
{
    const char *family = mpi_family_name(n->family), *path = *n->path ? n->path : "not found";
    enum mpi_family own = abi_check_built_for();
    if (own == MPI_FAMILY_UNKNOWN || n->family == own) {
        checkup_add(c, LEVEL_OK, "%s needs %s (%s, %s), for which stridec is", who, family, n->library, path);
        return;
    }
    checkup_add(c, LEVEL_BAD, "%s needs %s (%s, %s), and this stridec is for %s", who, family, n->library, path,
                mpi_family_name(own));
    checkup_fix(c, "take a stridec that was built with the program's mpicc (make MPICC=... BUILD=...)");
}

/* Returns true if the MPI has a name: one of an unknown family says nothing. */
static bool names_mpi(const struct needs *n)
{
    return mpi_family_name(n->family) != NULL;
}

/* Looks at the MPI of an interpreter's mpi4py. Returns false if it has none. */
static bool check_mpi4py(struct checkup *c, const char *python, struct needs *n)
{
    if (!needs_is_python(python) || !needs_ask_python(python, n)) return false;
    if (names_mpi(n)) compare_mpi(c, "its mpi4py", n);
    else
        checkup_add(c, LEVEL_OK,
                    "its mpi4py finds an MPI at run time: stridec steps aside if that is another one than its own");
    return true;
}

static void check_needs(struct checkup *c, const char *path)
{
    struct needs n;
    if (!needs_of_file(path, &n)) {
        checkup_add(c, LEVEL_WARN, "%s: the loader can't list its libraries", path);
        checkup_fix(c, "does `ldd %s` list them?", path);
        return;
    }
    if (*n.missing) {
        checkup_add(c, LEVEL_BAD, "%s needs %s, which the loader does not find", path, n.missing);
        checkup_fix(c, "load its module, or put its folder into LD_LIBRARY_PATH");
    }
    if (names_mpi(&n)) compare_mpi(c, path, &n);
    else if (!*n.missing && !check_mpi4py(c, path, &n))
        checkup_add(c, LEVEL_OK,
                    "%s is dynamic, and needs no MPI itself: one that it loads later, or that programs have which "
                    "it starts, is served; one linked into it statically is not",
                    path);
}

/* ---- scripts ---- */

/* Returns true if the first bytes look like text. */
static bool is_text(const char *path)
{
    char bytes[512];
    int fd = file_look(path);
    ssize_t n = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    if (fd >= 0) close(fd);
    return n > 0 && !memchr(bytes, '\0', (size_t)n);
}

/* Sets `program` to what the kernel starts for `path`. Returns false, with a finding, if that is nothing. */
static bool follow_script(struct checkup *c, const char *path, char program[PATH_MAX])
{
    if (programs_interpreter(path, program)) {
        checkup_add(c, LEVEL_OK,
                    "%s is a script for %s: programs that it starts are served too, unless it clears LD_PRELOAD", path,
                    program);
        return true;
    }
    checkup_add(c, LEVEL_BAD,
                is_text(path) ? "%s is text, and its first line names no interpreter that there is"
                              : "%s is neither a program of this system nor a script",
                path);
    if (is_text(path)) checkup_fix(c, "begin it with a line such as #!/bin/sh");
    return false;
}

/* ---- the launcher ---- */

/* Starts `stridec run -- env` by the mpirun on PATH, and looks whether the library is still preloaded there. */
static void check_preload(struct checkup *c)
{
    static const char *const places[] = {"stridec", "../../bin/stridec", "../../../bin/stridec",
                                         "../../../../bin/stridec", NULL};
    static char out[8 << 20];   /* Linux lets an environment have 6 MiB at most */
    char run[PATH_MAX], mpirun[PATH_MAX];
    flavour_set set;
    if (doctor_start() != START_NONE || !programs_tool("mpirun", mpirun)) return;
    if (!doctor_mpirun_fits(needs_of_mpirun(mpirun, &set))) return; /* doctor_mpirun has reported it */
    if (!find_beside(places, run)) {
        checkup_add_named(c, LEVEL_NONE, "preload", "not checked: no command stridec where this build looks for it");
        return;
    }
    int status =
        capture((char *[]){mpirun, (char *)(uintptr_t) "-n", (char *)(uintptr_t) "1", run, (char *)(uintptr_t) "run",
                           (char *)(uintptr_t) "--", (char *)(uintptr_t) "env", NULL},
                out, sizeof out, SECONDS);
    const char *list = strncmp(out, "LD_PRELOAD=", 11) == 0 ? out : strstr(out, "\nLD_PRELOAD=");
    if (status == 0 && list && strstr(list, "libstridec.so")) {
        checkup_add_named(c, LEVEL_OK, "preload", "%s leaves LD_PRELOAD of `stridec run` as it is", mpirun);
    } else if (status == 0) {
        checkup_add_named(c, LEVEL_BAD, "preload", "%s, or what it starts, clears LD_PRELOAD", mpirun);
        checkup_fix(c, "is mpirun, or env, a script of your site? Put `stridec run --` right before the program");
    } else {
        char *line = out + strspn(out, "- \n");
        line[strcspn(line, "\n")] = '\0';
        checkup_add_named(c, LEVEL_WARN, "preload", "`%s -n 1 stridec run -- env` fails: %s", mpirun, line);
        checkup_fix(c, "does `mpirun -n 1 env` work?");
    }
}

void doctor_program(struct checkup *c, const char *program)
{
    char path[PATH_MAX], interpreter[PATH_MAX], loader[PATH_MAX];
    if (!programs_find(program, path)) {
        checkup_add(c, LEVEL_BAD, "%s: there is no such program%s", program, strchr(program, '/') ? "" : " on PATH");
        return;
    }
    if (!can_run(c, path)) return;
    enum elf_kind kind = libraries_kind(path, loader);
    if (kind == ELF_NONE) {
        if (!follow_script(c, path, interpreter)) return;
        memcpy(path, interpreter, sizeof path);
        kind = libraries_kind(path, loader);
    }
    if (kind == ELF_NONE) {
        checkup_add(c, LEVEL_WARN, "%s: it can't be looked at", path);
        return;
    }
    if (!takes_preload(c, path, kind)) return;
    check_needs(c, path);
    check_preload(c);
}
