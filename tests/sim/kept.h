/* kept.h: compiled kernels that are kept, so that the simulated NVRTC needs no compiler for them. A folder "kernels"
 * beside libnvrtc.so is read; or SIMGPU_KEEP=DIR, where also is written what is compiled. */
#ifndef SIM_KEPT_H
#define SIM_KEPT_H
#include <stddef.h>
#include <stdint.h>

/* Returns the name of what is compiled from these texts; `options` end with NULL. */
uint64_t kept_key(const char *prelude, const char *source, unsigned arch, char *const options[]);
/* Returns a kept image, malloc'd, or NULL. */
void *kept_read(uint64_t key, size_t *bytes);
void kept_write(uint64_t key, const void *image, size_t bytes);

#endif
