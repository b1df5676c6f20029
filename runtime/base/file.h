/* file.h: opens files and folders by name, with file descriptors above the standard ones.
 *
 * No other user of the machine is trusted: /dev/shm is open to all, and so may be a folder in a variable. Files are
 * opened without following links or waiting for a pipe's other end, and checked when open. A file must be regular and
 * belong to this user; nobody else may write to it. A function that fails sets *why to a static text, and errno: EPERM
 * if the file is not trusted. */
#ifndef STRIDEC_FILE_H
#define STRIDEC_FILE_H
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Allowed owners: this user, or also root (modules compiled ahead of time, tuned tables). */
enum file_from { FILE_OWN, FILE_INSTALLED };

/* Returns true if the regular file (S_IFREG) or folder (S_IFDIR) with this status may be used. */
bool file_trusted(const struct stat *st, mode_t kind, enum file_from from, const char **why);
/* Returns a file descriptor above 2, closed on exec, or -1. O_CREAT makes a file with mode 0600. */
int file_open(const char *path, int flags, enum file_from from, const char **why);
/* Opens a regular file of anybody for reading, links followed: for content that is only looked at. Returns a descriptor
 * above 2, or -1 with errno. */
int file_look(const char *path);
/* Makes a file with mode 0600 and opens it for reading and writing. Removes this user's old file of that name. */
int file_make(const char *path, const char **why);
/* Returns the file's bytes and a terminator, malloc'd; NULL if it has more than `most` bytes or can't be read. */
char *file_read(const char *path, enum file_from from, size_t most, size_t *bytes, const char **why);
/* Returns the bytes of what the user names on a command line: anybody's, through links, pipes too; its content is not
 * trusted. malloc'd, with a terminator; NULL with *why if it has more than `most` bytes or can't be read. */
char *file_read_input(const char *path, size_t most, size_t *bytes, const char **why);
/* Returns true if files may be taken from the folder. A link to it must have an allowed owner, too. */
bool file_folder(const char *folder, enum file_from from, const char **why);
/* Makes a folder and its parents with the given mode. Returns true if the folder exists then, else sets errno. */
bool file_make_folder(const char *folder, mode_t mode);
/* Opens a new file beside `path` to replace it; *draft is its malloc'd name. Returns a descriptor, or -1 with errno. */
int file_draft(const char *path, mode_t mode, char **draft);
/* Renames a draft to `path`, or removes it if not good. Frees `draft`. Returns false with errno kept. */
bool file_publish(char *draft, const char *path, bool good);

/* Sets `path` to the first program of that name in a list of folders as PATH has it; NULL is an empty list. `here`: an
 * empty part of the list stands for the present folder, as execvp has it; else for nothing. Returns false if there is
 * none. */
bool file_program(const char *list, bool here, const char *name, char path[PATH_MAX]);
/* Returns true if it is a file that can be run. */
bool file_runs(const char *path);

/* Write all bytes; file_write closes fd, too. Return false with errno on failure. */
bool file_put(int fd, const void *data, size_t bytes);
bool file_write(int fd, const void *data, size_t bytes);
/* Writes a draft and publishes it: readers see the old file or all bytes of the new one. Returns false with errno. */
bool file_replace(const char *path, mode_t mode, const void *data, size_t bytes);

/* Moves a file descriptor above 2 and closes the old one: a program that closed 0 to 2 may still write there. -1 on
 * failure. */
static inline int file_above_stdio(int fd)
{
    int above = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above != fd) close(fd);
    return above;
}

/* Reserves memory or disk space, so that a later store can't end the process. Fails under endless signals. */
static inline bool file_allocate(int fd, off_t at, off_t bytes)
{
    int rc = EINTR;
    for (int i = 0; i < 100 && rc == EINTR; i++) rc = posix_fallocate(fd, at, bytes);
    return !rc;
}

/* Returns false if a file of `bytes` would end the process by SIGXFSZ (RLIMIT_FSIZE). */
static inline bool file_may_write(off_t bytes)
{
    struct rlimit l;
    return getrlimit(RLIMIT_FSIZE, &l) || l.rlim_cur == RLIM_INFINITY || (rlim_t)bytes <= l.rlim_cur;
}

/* Returns true if a temporary file is older than a day: its process was killed, as none needs that long. */
static inline bool file_is_stale(const struct stat *st)
{
    return time(NULL) - st->st_mtime > 86400;
}

#endif
