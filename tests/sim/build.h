/* build.h: the inside of the simulated NVRTC: nvrtc.c has the calls, build.c runs the host compiler. */
#ifndef SIM_BUILD_H
#define SIM_BUILD_H
#include <stddef.h>

/* Runs the host compiler on CUDA C; options are NULL-terminated and already in its own language. Returns 0
 * and the simulated cubin, malloc'd, or -1; *log is malloc'd text in both cases (NULL if memory is out). */
int build(const char *source, const char *name, unsigned arch, char *const options[], void **image, size_t *bytes,
          char **log);

#endif
