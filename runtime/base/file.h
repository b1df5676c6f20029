/* file.h: files and folders whose names others know, and files that the library keeps open.
 *
 * Nobody else on a machine is trusted. /dev/shm is open to all, and so may be any folder that a variable names. All
 * files that the library finds by name are opened here: without following a link, and without waiting for a pipe's
 * other end. They are looked at once they are open. Only a regular file of this user counts, to which nobody else may
 * write. A function that fails sets `why` to the reason, a text that lives on, and errno: EPERM where the file is not
 * trusted. */
#ifndef STRIDEC_FILE_H
#define STRIDEC_FILE_H
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Owners that a file may have: this process's user's, or also root's (modules made ahead of time, tuned tables). */
enum file_from { FILE_OWN, FILE_INSTALLED };

/* Returns true if these facts are of a regular file (S_IFREG) or a folder (S_IFDIR) that may be used. */
bool file_trusted(const struct stat *st, mode_t kind, enum file_from from, const char **why);
/* Returns a descriptor above the standard ones, closed on exec, or -1. O_CREAT makes a file for this user alone. */
int file_open(const char *path, int flags, enum file_from from, const char **why);
/* Makes a file for this user alone, open for reading and writing. An own one of that name, left behind, goes first. */
int file_make(const char *path, const char **why);
/* Returns the file's bytes and a terminator, malloc'd; NULL where it has more than `most`, or can't be read. */
char *file_read(const char *path, enum file_from from, size_t most, size_t *bytes, const char **why);
/* Returns true if files may be taken from a folder. A link to it must be of the same owners as the folder. */
bool file_folder(const char *folder, enum file_from from, const char **why);
/* Makes a folder with the given mode, and those above it. True if it is there, else errno says why it can't be made. */
bool file_make_folder(const char *folder, mode_t mode);
/* Begins to replace a file: returns a descriptor of a new one beside it, whose name is malloc'd; -1 with errno. The
 * caller closes it. */
int file_draft(const char *path, mode_t mode, char **draft);
/* Gives a draft the file's name, or removes it where it is not good. Frees the draft's name. Keeps errno on failure. */
bool file_publish(char *draft, const char *path, bool good);

/* Moves a descriptor above the standard ones: a program that has closed those may still write there. Closes fd if it
 * moves. Returns -1 where that can't be. */
static inline int file_above(int fd)
{
    int above = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above != fd) close(fd);
    return above;
}

/* Memory or room for these bytes of it: a store there does not end the process. Signals that come again and again
 * may prevent it. */
static inline bool file_filled(int fd, off_t at, off_t bytes)
{
    int rc = EINTR;
    for (int i = 0; i < 100 && rc == EINTR; i++) rc = posix_fallocate(fd, at, bytes);
    return !rc;
}

/* Of what a process makes for a moment: that one was killed. Nothing of the library's takes a day. */
static inline bool file_is_left(const struct stat *st)
{
    return time(NULL) - st->st_mtime > 86400;
}

#endif
