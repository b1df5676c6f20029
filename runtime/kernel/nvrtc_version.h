/* nvrtc_version.h: NVRTC's version and architectures from a note in the cache folder, without loading NVRTC. */
#ifndef STRIDEC_NVRTC_VERSION_H
#define STRIDEC_NVRTC_VERSION_H
#include <stdbool.h>

/* Sets NVRTC's version and its best target for a device of architecture arch (90). Returns false without a note. */
bool nvrtc_version_guess(int arch, int *target, int *major, int *minor);
/* Writes the note if it is missing or wrong; called after a compile. */
void nvrtc_version_note(void);
/* Returns the newest of n architectures that is no newer than arch; 0 if none. */
int nvrtc_version_target(const int *archs, int n, int arch);

#endif
