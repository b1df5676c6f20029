/* file.h: files that the library keeps open, or finds. */
#ifndef STRIDEC_FILE_H
#define STRIDEC_FILE_H
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The same file above the standard ones: a program that has closed those may still write there. -1 where that can't be. */
static inline int file_above(int fd)
{
    int above = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above != fd) close(fd);
    return above;
}

/* Memory or room for these bytes of it: a store there does not end the process. Signals that come again and again may prevent it. */
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
