/* nvtx.h: ranges of NVTX, which profilers of NVIDIA's show. They name the library that takes them by
 * NVTX_INJECTION64_PATH. */
#ifndef STRIDEC_NVTX_H
#define STRIDEC_NVTX_H

/* Begin and end a range of this thread in the domain "stridec"; ranges are nested. Both do nothing in a library
 * that was built without NVTX's header, which is part of CUDA. */
void nvtx_push(const char *text);
void nvtx_pop(void);

#endif
