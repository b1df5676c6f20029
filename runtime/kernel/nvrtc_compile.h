/* nvrtc_compile.h: CUDA C to a cubin or PTX by NVRTC. No state; any thread. */
#ifndef STRIDEC_COMPILE_H
#define STRIDEC_COMPILE_H
#include "../../gen/tree.h"

/* arch is "sm_90"; ptx asks for PTX ("compute_90") instead of machine code. 0 and malloc'd *data (PTX is terminated
 * text), or -1 with the first line of NVRTC's log in *why, or, where it does not compile for arch, which it does
 * for. */
int compile(const char *source, const char *name, const char *arch, bool ptx, void **data, size_t *bytes,
            struct reason *why);
/* The newest architecture that the found NVRTC compiles for ("sm_121"), or NULL. Static storage. */
const char *compile_newest_arch(void);
/* All of them; *n entries such as 90. Static storage, NULL without NVRTC. */
const int *compile_archs(int *n);

#endif
