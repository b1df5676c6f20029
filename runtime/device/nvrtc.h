/* nvrtc.h: NVRTC, loaded at run time: what the table of gpu_runtime.h says of a compiler (cuda.c). */
#ifndef STRIDEC_NVRTC_H
#define STRIDEC_NVRTC_H
#include "../../gen/reason.h"
#include <nvrtc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVRTC_CALLS(X) \
    X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs) \
    X(nvrtcCreateProgram) X(nvrtcCompileProgram) X(nvrtcDestroyProgram) \
    X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) \
    X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX)

#define NVRTC_FIELD(name) __typeof__(name) *name;
struct nvrtc {
    NVRTC_CALLS(NVRTC_FIELD)
    int major, minor;
};
/* Returns NVRTC, loaded at the first call; newest major version first. Searches like the dynamic linker, then beside
 * libcudart, in $CUDA_HOME, $CUDA_PATH, /usr/local/cuda and the wheels of python3. If NULL, *why (may be NULL) names
 * the places. */
const struct nvrtc *nvrtc_get(struct reason *why);
/* The functions of gpu_runtime.h: jit_version, jit_file, jit_archs, jit_compile and jit_contains. */
bool nvrtc_version(int *major, int *minor, struct reason *why);
const char *nvrtc_file(void);
const int *nvrtc_archs(int *n);
int nvrtc_compile(const char *source, const char *name, const char *arch, bool ptx, void **data, size_t *bytes,
                  struct reason *why);
bool nvrtc_contains(uintptr_t code);

#endif
