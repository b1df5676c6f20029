/* sigbus_guard.h: memory that may go, or never was there: windows of XPMEM on what its owner can't share, or has
 * taken away; files of /dev/shm that another process has made shorter.
 *
 * One handler of SIGBUS serves all. It is made at the first call of either kind, and hands all other SIGBUS to the
 * one before it. A program that sets its own handler later is on its own. */
#ifndef STRIDEC_GUARD_H
#define STRIDEC_GUARD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Runs read(arg), which may be ended anywhere: it holds no lock, nor anything else that is to be given back. False
 * where it was ended, by a SIGBUS at one of the `bytes` at `memory`. Any thread. */
bool sigbus_guard_run(void (*read)(void *), void *arg, const void *memory, size_t bytes);

/* Maps bytes [at, at + bytes) of a file, shared. Where a byte turns out to be past the file's end, zeros of this
 * process's own take the place of all of them, and *lost becomes true: who reads or writes there goes on, and looks
 * at that before it trusts what it has read. Returns NULL where it can't be mapped. Any thread. */
void *sigbus_guard_map(int fd, size_t bytes, int protection, off_t at, atomic_bool *lost);
/* Takes what sigbus_guard_map returned, or NULL. */
void sigbus_guard_unmap(void *memory);

#endif
