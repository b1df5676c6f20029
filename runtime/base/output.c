/* output.c: see output.h. */
#include "output.h"
#include "file.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRAFTS 100   /* numbers that are tried for a name that is free */

/* Returns the file's descriptor among standard output and error, or the one that its name is; -1 if it is none. */
static int open_already(const char *path, const struct stat *st)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    struct stat own;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *number = path + strlen(folders[i]);
        if (!strncmp(path, folders[i], strlen(folders[i])) && isdigit((unsigned char)*number)) return atoi(number);
    }
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (!fstat(fd, &own) && own.st_dev == st->st_dev && own.st_ino == st->st_ino) return fd;
    return -1;
}

bool output_is_standard(const char *path)
{
    struct stat st;
    return !stat(path, &st) && open_already(path, &st) == STDOUT_FILENO;
}

/* Opens a new file beside o->path. The process's number and another name it: mkostemp does not apply the umask, and who
 * reads that changes it for other threads. */
static void open_draft(struct output *o, mode_t mode, const struct stat *old)
{
    mode_t first = old ? old->st_mode & mode : mode;
    errno = EEXIST;
    for (int i = 0; i < DRAFTS && o->fd < 0 && errno == EEXIST; i++) {
        free(o->draft);
        if (asprintf(&o->draft, "%s.%d.%d", o->path, (int)getpid(), i) < 0) {
            o->draft = NULL, errno = ENOMEM;
            return;
        }
        o->fd = open(o->draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, first);
    }
    o->fd = file_above_stdio(o->fd);
    if (o->fd >= 0 && old) (void)!fchmod(o->fd, first);
}

/* Forgets the draft, which could not be made; keeps errno. */
static void forget_draft(struct output *o)
{
    int error = errno;
    free(o->path), free(o->draft);
    o->path = o->draft = NULL, errno = error;
}

bool output_open(struct output *o, const char *path, mode_t mode)
{
    struct stat st;
    bool there = !stat(path, &st), dangling = !there && !lstat(path, &st);
    int own = there ? open_already(path, &st) : -1;
    *o = (struct output){.fd = -1};
    if (own >= 0) {
        fflush(stdout);
        o->fd = fcntl(own, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        return o->fd >= 0;
    }
    if (!dangling && (!there || S_ISREG(st.st_mode))) {
        o->path = there ? realpath(path, NULL) : strdup(path);
        if (o->path) open_draft(o, mode, there ? &st : NULL);
        if (o->fd >= 0) return true;
        forget_draft(o);
        if (errno != EACCES && errno != EROFS) return false;
    }
    o->fd = file_above_stdio(open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY | (there ? 0 : O_CREAT), mode));
    return o->fd >= 0;
}

/* Writes the draft's bytes over the file. */
static bool copy_over(const char *draft, const char *path)
{
    char text[65536];
    int from = open(draft, O_RDONLY | O_CLOEXEC), to = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    ssize_t n = from < 0 || to < 0 ? -1 : 0;
    if (n == 0)
        while ((n = read(from, text, sizeof text)) > 0 && file_put(to, text, (size_t)n)) continue;
    int error = errno;
    if (from >= 0) close(from);
    if (to >= 0 && close(to) && n == 0) return false;
    errno = error;
    return n == 0;
}

/* Renames the draft. A file that is a mount of its own, or another user's in a folder like /tmp, can't be replaced, but
 * it can be written. */
static bool publish(const struct output *o)
{
    return !rename(o->draft, o->path) || ((errno == EBUSY || errno == EPERM) && copy_over(o->draft, o->path));
}

bool output_close(struct output *o, bool good)
{
    bool done = good && (!o->draft || publish(o));
    int error = errno;
    if (o->draft) unlink(o->draft);
    free(o->draft), free(o->path);
    errno = error;
    return done;
}

bool output_write(const char *path, mode_t mode, const void *data, size_t bytes)
{
    struct output o;
    return output_open(&o, path, mode) && output_close(&o, file_write(o.fd, data, bytes));
}
