/* output.c: see output.h. */
#include "output.h"
#include "file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a new descriptor for standard output if that is the file, else -1: with `-o /dev/stdout >>FILE` it is a
 * regular one. */
static int standard_output(const struct stat *st)
{
    struct stat own;
    if (fstat(STDOUT_FILENO, &own) || own.st_dev != st->st_dev || own.st_ino != st->st_ino) return -1;
    fflush(stdout);
    return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* Opens a new file beside o->path. The process's number names it: mkostemp does not apply the umask, and who reads that
 * changes it for other threads. */
static void open_draft(struct output *o, mode_t mode, const struct stat *old)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    if (asprintf(&o->draft, "%s.%d", o->path, (int)getpid()) < 0) {
        o->draft = NULL, errno = ENOMEM;
        return;
    }
    o->fd = open(o->draft, flags, mode);
    if (o->fd < 0 && errno == EEXIST && !unlink(o->draft)) o->fd = open(o->draft, flags, mode);
    o->fd = file_above_stdio(o->fd);
    if (o->fd >= 0 && old) (void)!fchmod(o->fd, old->st_mode & mode);
}

bool output_open(struct output *o, const char *path, mode_t mode)
{
    struct stat st;
    bool there = !stat(path, &st), dangling = !there && !lstat(path, &st);
    *o = (struct output){.fd = there ? standard_output(&st) : -1};
    if (o->fd >= 0) return true;
    bool replaced = !dangling && (!there || S_ISREG(st.st_mode));
    if (replaced && (o->path = there ? realpath(path, NULL) : strdup(path))) open_draft(o, mode, there ? &st : NULL);
    if (o->fd >= 0) return true;
    int error = errno;
    free(o->path), free(o->draft);
    o->path = o->draft = NULL, errno = error;
    if (replaced && error != EACCES) return false;
    o->fd = file_above_stdio(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, mode));
    return o->fd >= 0;
}

bool output_close(struct output *o, bool good)
{
    bool done = o->draft ? file_publish(o->draft, o->path, good) : good;
    int error = errno;
    free(o->path);
    errno = error;
    return done;
}

bool output_write(const char *path, mode_t mode, const void *data, size_t bytes)
{
    struct output o;
    return output_open(&o, path, mode) && output_close(&o, file_write(o.fd, data, bytes));
}
