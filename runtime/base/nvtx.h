/* nvtx.h: ranges of NVTX, which profilers of NVIDIA's show. They name the library that takes them by
 * NVTX_INJECTION64_PATH. */
#ifndef STRIDEC_NVTX_H
#define STRIDEC_NVTX_H
#include <stdbool.h>

/* Returns true if the library was built with NVTX's header, which is part of CUDA. */
bool nvtx_built(void);
/* Begin and end a range of this thread in the domain "stridec"; ranges are nested. Without the header both do
 * nothing. */
void nvtx_push(const char *text);
void nvtx_pop(void);

#endif
