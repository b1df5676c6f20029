/* capture.h: runs another program and keeps what it writes. */
#ifndef STRIDEC_COMMAND_CAPTURE_H
#define STRIDEC_COMMAND_CAPTURE_H

#include <stddef.h>

/* Runs argv[0], looked up on PATH, without LD_PRELOAD and standard input. Writes what it prints (both streams) to
 * `out`, at most bytes - 1 and a final 0; drops the rest. Ends it after so many seconds. Returns its exit status;
 * -1 if it can't be run, was ended, or ended by a signal. */
int capture(char *const argv[], char *out, size_t bytes, int seconds);

#endif
