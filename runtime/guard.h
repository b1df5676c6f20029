/* guard.h: reads of memory that may go, or never was there: windows of XPMEM on what its owner can't share, or has taken away. */
#ifndef STRIDEC_GUARD_H
#define STRIDEC_GUARD_H
#include <stdbool.h>
#include <stddef.h>

/* Runs read(arg), which has to leave nothing behind where it is ended. False where it was, by a SIGBUS at one of the `bytes` at
 * `memory`. The handler for that is made at the first call; all other SIGBUS are for whom they were for. Any thread. */
bool guard_run(void (*read)(void *), void *arg, const void *memory, size_t bytes);

#endif
