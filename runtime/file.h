/* file.h: files that the library keeps open. */
#ifndef STRIDEC_FILE_H
#define STRIDEC_FILE_H
#include <fcntl.h>
#include <unistd.h>

/* The same file above the standard ones: a program that has closed those may still write there. -1 where that can't be. */
static inline int file_above(int fd)
{
    int above = fd < 0 || fd > STDERR_FILENO ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (above != fd) close(fd);
    return above;
}

#endif
