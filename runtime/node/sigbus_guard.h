/* sigbus_guard.h: protects from SIGBUS at mapped files of /dev/shm that another process has truncated.
 *
 * One SIGBUS handler serves all. It is installed at the first call, and passes other SIGBUS to the previous handler. If
 * an application installs its own handler later, this protection is off. */
#ifndef STRIDEC_SIGBUS_GUARD_H
#define STRIDEC_SIGBUS_GUARD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Maps bytes [at, at + bytes) of a file, shared. If a byte proves to be past the file's end, private zeros replace the
 * mapping and *lost becomes true: readers check it before they trust data. Returns NULL on failure. Any thread. */
void *sigbus_guard_map(int fd, size_t bytes, int protection, off_t at, atomic_bool *lost);
/* Unmaps what sigbus_guard_map returned; NULL is allowed. */
void sigbus_guard_unmap(void *memory);

#endif
