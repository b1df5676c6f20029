/* disassemble.c: runs nvdisasm or cuobjdump on a cubin. */
#include "base/file.h"
#include "command.h"
#include "programs.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The tools by preference; option is NULL if the tool needs none. */
static const struct {
    const char *name, *option;
} TOOLS[] = {{"nvdisasm", NULL}, {"cuobjdump", "-sass"}};

static bool find_tool(const char *name, char path[PATH_MAX])
{
    if (programs_tool(name, path))
        return true;
    const char *roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (roots[i] && *roots[i] && (size_t)snprintf(path, PATH_MAX, "%s/bin/%s", roots[i], name) < PATH_MAX &&
            file_runs(path))
            return true;
    return false;
}

static int run_tool(const char *path, const char *option, const char *cubin, struct reason *why)
{
    char *argv[] = {(char *)path, (char *)(option ? option : cubin), (char *)(option ? cubin : NULL), NULL};
    pid_t child;
    int status = 0;
    fflush(stdout);
    int error = posix_spawn(&child, path, NULL, NULL, argv, environ);
    while (error == 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            error = errno;
    if (error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    snprintf(why->text, sizeof why->text, "%.150s failed: %s", path, error ? strerror(error) : "see its message");
    return -1;
}

int disassemble(const void *cubin, size_t bytes, struct reason *why)
{
    char path[PATH_MAX], name[PATH_MAX];
    size_t tool = 0;
    while (tool < sizeof TOOLS / sizeof *TOOLS && !find_tool(TOOLS[tool].name, path))
        tool++;
    if (tool == sizeof TOOLS / sizeof *TOOLS) {
        snprintf(why->text, sizeof why->text, "neither nvdisasm nor cuobjdump is on PATH or in CUDA_HOME/bin; "
                                              "both come with the CUDA toolkit");
        return -1;
    }
    const char *folder = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/stridec-XXXXXX.cubin", folder && *folder ? folder : "/tmp");
    int fd = mkstemps(name, 6), status = -1;
    if (fd >= 0 && file_write(fd, cubin, bytes))
        status = run_tool(path, TOOLS[tool].option, name, why);
    else
        snprintf(why->text, sizeof why->text, "no temporary file could be written: %s", strerror(errno));
    if (fd >= 0)
        unlink(name);
    return status;
}
