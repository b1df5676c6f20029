/* needs.c: which MPI a program loads. The loader's own list of libraries answers for ELF files, mpi4py for Python. */
#include "flavour.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- the flavour of a library ---- */

struct mapping {
    const char *data;
    size_t bytes;
};

static struct mapping map_file(const char *path)
{
    struct mapping m = {NULL, 0};
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) m = (struct mapping){data, (size_t)st.st_size};
    }
    if (fd >= 0) close(fd);
    return m;
}

static void unmap(struct mapping m)
{
    if (m.data) munmap((void *)(uintptr_t)m.data, m.bytes);
}

/* Both call their library libmpi.so.40: sessions came with Open MPI 5. */
static flavour_set open_mpi_version(const char *path)
{
    static const char FUNCTION[] = "\0MPI_Session_init";
    struct mapping m = map_file(path);
    if (!m.data) return 1u << OPEN_MPI_4 | 1u << OPEN_MPI_5;
    bool five = memmem(m.data, m.bytes, FUNCTION, sizeof FUNCTION);
    unmap(m);
    return 1u << (five ? OPEN_MPI_5 : OPEN_MPI_4);
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Notes a library that is loaded from `path`, "" if it is not found. The first MPI counts. Vendors' names of the ABI of
 * MPICH differ (libmpich.so.12, libmpi_gnu.so.12); its number does not. */
static void note_library(struct needs *n, const char *name, const char *path)
{
    const char *version = strstr(name, ".so.");
    if (*n->library || !begins(name, "libmpi") || !version) return;
    long number = strtol(version + 4, NULL, 10);
    if (begins(name, "libmpi_abi.so."))
        n->set = 1u << STANDARD;
    else if (number == 12)
        n->set = 1u << MPICH;
    else if (begins(name, "libmpi.so.40"))
        n->set = open_mpi_version(path);
    else if (begins(name, "libmpi.so.") || begins(name, "libmpich.so."))
        n->set = 0;
    else
        return;
    snprintf(n->library, sizeof n->library, "%s", name);
}

/* ---- other programs' answers ---- */

struct child {
    pid_t pid;
    FILE *out;
};

static char **environment_without_preloads(void)
{
    size_t n = 0, kept = 0;
    while (environ[n]) n++;
    char **out = calloc(n + 1, sizeof *out);
    for (size_t i = 0; out && i < n; i++)
        if (!begins(environ[i], "LD_PRELOAD=")) out[kept++] = environ[i];
    return out;
}

/* Starts a program whose standard output is read; neither its input nor its errors are the caller's. */
static bool start(struct child *c, const char *const argv[])
{
    int ends[2];
    char **environment = environment_without_preloads();
    if (!environment || pipe2(ends, O_CLOEXEC) != 0) return free(environment), false;
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    bool started = posix_spawnp(&c->pid, argv[0], &files, NULL, (char *const *)(uintptr_t)argv, environment) == 0;
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    close(ends[1]);
    c->out = started ? fdopen(ends[0], "r") : NULL;
    if (!c->out) close(ends[0]);
    return started;
}

static void finish(struct child *c)
{
    if (c->out) fclose(c->out);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Reads a line of the child without its end. */
static bool next_line(struct child *c, char *line, size_t bytes)
{
    if (!c->out || !fgets(line, (int)bytes, c->out)) return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* ---- ELF files ---- */

/* Returns the loader that an executable names, within the mapping; NULL if it has none. */
static const char *loader_of(struct mapping m)
{
    Elf64_Ehdr head;
    if (m.bytes < sizeof head) return NULL;
    memcpy(&head, m.data, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) return NULL;
    for (size_t i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        size_t at = head.e_phoff + i * sizeof part;
        if (at > m.bytes || m.bytes - at < sizeof part) return NULL;
        memcpy(&part, m.data + at, sizeof part);
        if (part.p_type == PT_INTERP && part.p_offset < m.bytes && part.p_filesz <= m.bytes - part.p_offset &&
            part.p_filesz > 0 && m.data[part.p_offset + part.p_filesz - 1] == '\0')
            return m.data + part.p_offset;
    }
    return NULL;
}

/* "libmpi.so.40 => /usr/lib/libmpi.so.40 (0x7f...)", or "=> not found". */
static void ask_loader(const char *loader, const char *path, struct needs *n)
{
    char line[PATH_MAX + 256];
    struct child c;
    if (!start(&c, (const char *const[]){loader, "--list", path, NULL})) return;
    while (next_line(&c, line, sizeof line)) {
        char *arrow = strstr(line, " => "), *end;
        if (!arrow) continue;
        *arrow = '\0';
        char *found = arrow + 4;
        if ((end = strstr(found, " (0x"))) *end = '\0';
        note_library(n, line + strspn(line, " \t"), *found == '/' ? found : "");
    }
    finish(&c);
}

void needs_of_file(const char *path, struct needs *n)
{
    *n = (struct needs){.set = FLAVOUR_ALL};
    struct mapping own = map_file("/proc/self/exe");
    const char *loader = own.data ? loader_of(own) : NULL;   /* a library names none */
    if (loader) ask_loader(loader, path, n);
    unmap(own);
}

/* ---- programs ---- */

/* Finds a program as execvp does. */
static bool find_program(const char *word, char path[PATH_MAX])
{
    struct stat st;
    if (strchr(word, '/')) return (size_t)snprintf(path, PATH_MAX, "%s", word) < PATH_MAX;
    const char *list = getenv("PATH");
    for (const char *at = list ? list : "/bin:/usr/bin";; at++) {
        size_t n = strcspn(at, ":");
        bool fits = snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, at, n ? "/" : "./", word) < PATH_MAX;
        if (fits && access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)) return true;
        if (!*(at += n)) return false;
    }
}

/* Reads a script's first line, "#!/usr/bin/env python3" or "#!/bin/sh -e". Returns false if there is none. */
static bool interpreter_of(struct mapping m, char word[PATH_MAX])
{
    char line[PATH_MAX], *rest = NULL;
    if (m.bytes < 3 || memcmp(m.data, "#!", 2) != 0) return false;
    size_t most = m.bytes - 2 < sizeof line - 1 ? m.bytes - 2 : sizeof line - 1;
    snprintf(line, sizeof line, "%.*s", (int)most, m.data + 2);
    line[strcspn(line, "\n")] = '\0';
    char *first = strtok_r(line, " \t", &rest), *next = first ? strtok_r(NULL, " \t", &rest) : NULL;
    const char *slash = first ? strrchr(first, '/') : NULL;
    if (next && slash && strcmp(slash, "/env") == 0) {
        first = strcmp(next, "-S") == 0 ? strtok_r(NULL, " \t", &rest) : next;
    }
    return first && snprintf(word, PATH_MAX, "%s", first) < PATH_MAX;
}

void needs_read(const char *program, struct needs *n)
{
    enum { SCRIPTS_MAX = 4 };   /* as Linux follows them */
    char word[PATH_MAX], path[PATH_MAX];
    *n = (struct needs){.set = FLAVOUR_ALL};
    if (snprintf(word, sizeof word, "%s", program) >= PATH_MAX) return;
    for (int i = 0; i <= SCRIPTS_MAX && find_program(word, path); i++) {
        struct mapping m = map_file(path);
        bool script = m.data && interpreter_of(m, word);
        const char *loader = m.data && !script ? loader_of(m) : NULL, *slash = strrchr(path, '/');
        if (loader) ask_loader(loader, path, n);
        /* Pyenv's python3 is a script. */
        if (!*n->python && begins(slash ? slash + 1 : path, "python")) memcpy(n->python, path, sizeof path);
        unmap(m);
        if (!script) return;
    }
}

void needs_ask_python(struct needs *n)
{
    static const char IMPORT[] = "import mpi4py; mpi4py.rc.initialize = mpi4py.rc.finalize = False\n"
                                 "from mpi4py import MPI; print(open('/proc/self/maps').read())";
    char line[PATH_MAX + 256];
    struct child c;
    if (!start(&c, (const char *const[]){n->python, "-c", IMPORT, NULL})) return;
    while (next_line(&c, line, sizeof line)) {
        const char *path = strchr(line, '/');
        if (path) note_library(n, strrchr(path, '/') + 1, path);
    }
    finish(&c);
}

flavour_set needs_of_mpirun(void)
{
    char line[256];
    struct child c;
    flavour_set set = FLAVOUR_ALL;
    if (!start(&c, (const char *const[]){"mpirun", "--version", NULL})) return set;
    while (next_line(&c, line, sizeof line)) {
        const char *open = strstr(line, "(Open MPI) ");
        if (open) set = 1u << (strtol(open + strlen("(Open MPI) "), NULL, 10) >= 5 ? OPEN_MPI_5 : OPEN_MPI_4);
        if (strstr(line, "HYDRA")) set = 1u << MPICH | 1u << STANDARD;
    }
    finish(&c);
    return set;
}
