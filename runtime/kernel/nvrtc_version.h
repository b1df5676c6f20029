/* nvrtc_version.h: NVRTC's version and architectures from a note in the cache folder, so that a cached module is found
 * without loading NVRTC. */
#ifndef STRIDEC_TOOLCHAIN_H
#define STRIDEC_TOOLCHAIN_H
#include <stdbool.h>

/* What NVRTC most likely compiles for on a device of this architecture (90), and its version. False without a note. */
bool nvrtc_version_guess(int arch, int *target, int *major, int *minor);
/* Leaves the note, where it is missing or wrong; after a compile. */
void nvrtc_version_note(void);
/* The newest of n architectures that is no newer than arch; 0 if none. */
int nvrtc_version_target(const int *archs, int n, int arch);

#endif
