/* guard.h: reads of memory that may go, or never was there: windows of XPMEM on what its owner can't share, or has taken away. */
#ifndef STRIDEC_GUARD_H
#define STRIDEC_GUARD_H
#include <stdbool.h>
#include <stddef.h>

/* Runs read(arg), which may be ended anywhere: it holds no lock, nor anything else that is to be given back. False where it was
 * ended, by a SIGBUS at one of the `bytes` at `memory`. The handler for that is made at the first call, and hands all other
 * SIGBUS to the one before it. Any thread. */
bool guard_run(void (*read)(void *), void *arg, const void *memory, size_t bytes);

#endif
