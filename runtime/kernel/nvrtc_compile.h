/* nvrtc_compile.h: compiles CUDA C to a cubin or PTX by NVRTC. No state; any thread. */
#ifndef STRIDEC_NVRTC_COMPILE_H
#define STRIDEC_NVRTC_COMPILE_H
#include "../../gen/tree.h"

/* Compiles for arch ("sm_90"); `ptx` gives PTX ("compute_90") instead of machine code. Returns 0 and malloc'd *data
 * (PTX: terminated text), or -1 with *why: the first line of NVRTC's log, or the known architectures. */
int compile(const char *source, const char *name, const char *arch, bool ptx, void **data, size_t *bytes,
            struct reason *why);
/* Returns the newest architecture that NVRTC compiles for ("sm_121"), or NULL. Static storage. */
const char *nvrtc_newest_arch(void);
/* Returns all of them, *n numbers such as 90; NULL without NVRTC. Static storage. */
const int *nvrtc_archs(int *n);

#endif
