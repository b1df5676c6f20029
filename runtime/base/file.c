/* file.c: see file.h. */
#include "file.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reject(const char *reason, const char **why)
{
    *why = reason;
    errno = EPERM;
    return false;
}

static bool owned(const struct stat *st, enum file_from from)
{
    return st->st_uid == geteuid() || (from == FILE_INSTALLED && st->st_uid == 0);
}

bool file_trusted(const struct stat *st, mode_t kind, enum file_from from, const char **why)
{
    if (S_ISLNK(st->st_mode)) return reject("it is a link", why);
    if (kind == S_IFDIR && !S_ISDIR(st->st_mode)) return reject("it is no folder", why);
    if (kind == S_IFREG && !S_ISREG(st->st_mode)) return reject("it is no regular file", why);
    if (!owned(st, from)) return reject("it belongs to another user", why);
    if (st->st_mode & (S_IWGRP | S_IWOTH)) return reject("others may write to it (chmod go-w)", why);
    return true;
}

/* Sets *why unless it is set, and closes fd. Returns -1, with errno. */
static int close_failed(int fd, const char **why)
{
    int error = errno;
    if (!*why) *why = error == ELOOP ? "it is a link" : strerror(error);
    if (fd >= 0) close(fd);
    errno = error == ELOOP ? EPERM : error;
    return -1;
}

int file_open(const char *path, int flags, enum file_from from, const char **why)
{
    struct stat st;
    *why = NULL;
    int fd = file_above_stdio(open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600));
    if (fd < 0 || fstat(fd, &st) || !file_trusted(&st, S_IFREG, from, why)) return close_failed(fd, why);
    return fd;
}

int file_look(const char *path)
{
    struct stat st;
    int fd = file_above_stdio(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))) return fd;
    close(fd);
    errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    return -1;
}

int file_make(const char *path, const char **why)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    *why = NULL;
    int fd = open(path, flags, 0600);
    bool taken = fd < 0 && errno == EEXIST;
    if (taken && !unlink(path)) fd = open(path, flags, 0600);
    if (taken && fd < 0) errno = EPERM, *why = "another user has taken its name";
    fd = file_above_stdio(fd);
    return fd < 0 || fchmod(fd, 0600) ? close_failed(fd, why) : fd;
}

/* Returns false on a read error. Reads fewer bytes if the file has become shorter. */
static bool read_all(int fd, char *text, size_t *bytes)
{
    size_t all = *bytes;
    for (*bytes = 0; *bytes < all;) {
        ssize_t got = read(fd, text + *bytes, all - *bytes);
        if (got == 0) break;
        if (got < 0 && errno != EINTR) return false;
        if (got > 0) *bytes += (size_t)got;
    }
    text[*bytes] = '\0';
    return true;
}

char *file_read(const char *path, enum file_from from, size_t most, size_t *bytes, const char **why)
{
    struct stat st;
    char *text = NULL;
    int fd = file_open(path, O_RDONLY, from, why);
    if (fd < 0) return NULL;
    bool fits = !fstat(fd, &st) && (uintmax_t)st.st_size <= most;
    if (!fits) errno = EFBIG;
    *bytes = (size_t)st.st_size;
    if (fits && (text = malloc(*bytes + 1)) && read_all(fd, text, bytes)) return close(fd), text;
    close_failed(fd, why);
    free(text);
    return NULL;
}

char *file_read_input(const char *path, size_t most, size_t *bytes, const char **why)
{
    FILE *f = fopen(path, "rbe");
    char *text = NULL;
    *bytes = 0, *why = NULL;
    for (size_t room = 1 << 16; f && !feof(f) && !ferror(f); room *= 2) {
        char *more = *bytes <= most ? realloc(text, room + 1) : NULL;
        if (!more) {
            errno = *bytes <= most ? ENOMEM : EFBIG;
            break;
        }
        text = more;
        *bytes += fread(text + *bytes, 1, room - *bytes, f);
    }
    if (!f || !feof(f)) {
        *why = strerror(errno);
        free(text);
        text = NULL;
    }
    if (f) fclose(f);
    if (text) text[*bytes] = '\0';
    return text;
}

bool file_folder(const char *folder, enum file_from from, const char **why)
{
    struct stat st;
    *why = NULL;
    if (lstat(folder, &st)) return close_failed(-1, why) == 0;
    if (S_ISLNK(st.st_mode) && owned(&st, from) && stat(folder, &st)) return close_failed(-1, why) == 0;
    return file_trusted(&st, S_IFDIR, from, why);
}

bool file_make_folder(const char *folder, mode_t mode)
{
    struct stat st;
    char *path = strdup(folder);
    int error = path ? 0 : ENOMEM;
    for (char *at = path; at && *at; *at = folder[at - path]) {
        at += 1 + strcspn(at + 1, "/");
        *at = '\0';
        if (mkdir(path, mode) != 0 && errno != EEXIST && !error) error = errno;
    }
    free(path);
    bool ok = stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
    if (!ok) errno = error ? error : *folder ? ENOTDIR : ENOENT;
    return ok;
}

int file_draft(const char *path, mode_t mode, char **draft)
{
    if (asprintf(draft, "%s.XXXXXX", path) < 0) return *draft = NULL, errno = ENOMEM, -1;
    int fd = mkostemp(*draft, O_CLOEXEC);
    if (fd >= 0 && !fchmod(fd, mode)) return fd;
    int error = errno;
    if (fd >= 0) close(fd), unlink(*draft);
    free(*draft);
    *draft = NULL, errno = error;
    return -1;
}

bool file_publish(char *draft, const char *path, bool good)
{
    bool done = good && !rename(draft, path);
    int error = errno;
    if (!done) unlink(draft);
    free(draft);
    errno = error;
    return done;
}

bool file_runs(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool file_program(const char *list, bool here, const char *name, char path[PATH_MAX])
{
    for (const char *at = list; at;) {
        size_t n = strcspn(at, ":");
        bool fits = snprintf(path, PATH_MAX, "%.*s%s%s", (int)n, at, n ? "/" : "./", name) < PATH_MAX;
        if ((n || here) && fits && file_runs(path)) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

bool file_put(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n, bytes -= (size_t)n;
    }
    return true;
}

bool file_write(int fd, const void *data, size_t bytes)
{
    bool done = file_put(fd, data, bytes);
    int error = errno;
    if (close(fd) != 0 && done) return false;
    errno = error;
    return done;
}

bool file_replace(const char *path, mode_t mode, const void *data, size_t bytes)
{
    char *draft;
    int fd = file_draft(path, mode, &draft);
    return fd >= 0 && file_publish(draft, path, file_write(fd, data, bytes));
}

/* Opens a new file beside `target`, whose mode is `mode`, or the umask's if that is 0. The process's number names the
 * draft: the umask can't be read without a change, so mkostemp doesn't serve. */
static int open_draft(const char *target, mode_t mode, char **draft)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    if (asprintf(draft, "%s.%d", target, (int)getpid()) < 0) return *draft = NULL, errno = ENOMEM, -1;
    int fd = open(*draft, flags, 0666);
    if (fd < 0 && errno == EEXIST && !unlink(*draft)) fd = open(*draft, flags, 0666);
    if (fd >= 0 && mode) (void)!fchmod(fd, mode);
    int error = errno;
    if (fd < 0) free(*draft), *draft = NULL;
    return errno = error, fd;
}

bool file_write_output(const char *path, const void *data, size_t bytes)
{
    struct stat st;
    char *draft = NULL, *target = NULL;
    int fd = -1;
    bool there = !stat(path, &st);
    if (there && S_ISREG(st.st_mode)) target = realpath(path, NULL);
    else if (!there && lstat(path, &st)) target = strdup(path);
    if (target) fd = open_draft(target, there ? st.st_mode & 0777 : 0, &draft);
    bool done = fd >= 0 && file_publish(draft, target, file_write(fd, data, bytes));
    if (fd < 0 && (!target || errno == EACCES)) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
        done = fd >= 0 && file_write(fd, data, bytes);
    }
    int error = errno;
    free(target);
    errno = error;
    return done;
}
