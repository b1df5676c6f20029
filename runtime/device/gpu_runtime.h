/* gpu_runtime.h: what stridec asks of a GPU maker's software: calls of a driver, and a compiler of kernels.
 *
 * One table names it all. CUDA's is the only one (cuda.c); handles, addresses and results have CUDA's types, so that
 * another maker's calls would stand behind functions of these types. */
#ifndef STRIDEC_GPU_RUNTIME_H
#define STRIDEC_GPU_RUNTIME_H
#include "../../gen/reason.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct driver;
struct gpu_runtime {
    const char *library;   /* the driver's soname: a process that has not loaded it has no device memory */
    /* Fills all calls of driver.h from the library. Returns false, with a warning, if a needed one is missing. */
    bool (*read_driver)(void *library, struct driver *out);

    /* The compiler. The first of these calls loads it. Any thread. */

    /* Sets its version. Returns false, with *why (may be NULL) where it was looked for, if there is none. */
    bool (*jit_version)(int *major, int *minor, struct reason *why);
    /* Returns the file of its library. Static storage. Call jit_version first. */
    const char *(*jit_file)(void);
    /* Returns the architectures that it compiles for, *n numbers such as 90, upwards; NULL if none. Static storage. */
    const int *(*jit_archs)(int *n);
    /* Compiles for arch ("sm_90"); `text` gives what the driver compiles further (PTX) instead of machine code. Returns
     * 0 and malloc'd *data (text: terminated), or -1 with *why: the first line of its log, or what it knows. */
    int (*jit_compile)(const char *source, const char *name, const char *arch, bool text, void **data, size_t *bytes,
                       struct reason *why);
    /* Returns true if the address is in its code. Loads nothing, takes no lock. */
    bool (*jit_contains)(uintptr_t code);
};
/* The one that is in use. */
extern const struct gpu_runtime *const gpu_runtime;

#endif
