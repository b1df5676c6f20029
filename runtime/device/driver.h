/* driver.h: the CUDA driver and NVRTC, loaded at run time; nothing here links to CUDA.
 *
 * The driver is never loaded by stridec: a process that has not loaded libcuda.so.1 by itself has no
 * device pointers, and every MPI call goes straight down. NVRTC is loaded on demand by the compile worker. */
#ifndef STRIDEC_DRIVER_H
#define STRIDEC_DRIVER_H
#include <cuda.h>
#include <link.h>
#include <nvrtc.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Every driver call that stridec makes. cuda.h maps some names to versioned symbols (cuMemAlloc to
 * cuMemAlloc_v2); the expansion follows it, so that the prototype and the symbol agree. */
#define DRIVER_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorString) X(cuGetErrorName) \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
    X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) \
    X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) \
    X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuPointerSetAttribute) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
    X(cuMemcpyAsync) X(cuMemcpy2DAsync) X(cuMemcpy3DAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoDAsync) X(cuMemsetD8Async) \
    X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority) X(cuStreamCreate) X(cuStreamDestroy) \
    X(cuStreamSynchronize) X(cuStreamIsCapturing) X(cuThreadExchangeStreamCaptureMode) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)
/* A driver older than the headers may lack these versions of them: launch_graph.c does without. */
#define DRIVER_GRAPH_CALLS(X) \
    X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode) X(cuGraphKernelNodeSetAttribute) \
    X(cuGraphInstantiateWithFlags) X(cuGraphExecDestroy) X(cuGraphExecKernelNodeSetParams) X(cuGraphLaunch)

#define NVRTC_CALLS(X) \
    X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs) \
    X(nvrtcCreateProgram) X(nvrtcCompileProgram) X(nvrtcDestroyProgram) \
    X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) \
    X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX)

#define DRIVER_FIELD(name) __typeof__(name) *name;
struct driver {
    DRIVER_CALLS(DRIVER_FIELD)
    DRIVER_GRAPH_CALLS(DRIVER_FIELD)
    bool graphs; /* all of the graph calls are there; else none may be made */
};
struct nvrtc {
    NVRTC_CALLS(DRIVER_FIELD)
    int major, minor;
};

/* True if the process had not loaded libcuda.so.1 at the last look, and nothing since: the last object of the loader's
 * list then is still the last. */
extern _Atomic(struct link_map *) driver_last __attribute__((visibility("hidden")));
static inline __attribute__((always_inline)) bool driver_absent(void)
{
    struct link_map *map = atomic_load_explicit(&driver_last, memory_order_acquire);
    return map && !__atomic_load_n(&map->l_next, __ATOMIC_ACQUIRE);
}
/* From now on the process has no driver, as far as stubs are concerned: every call goes straight down. */
void driver_hide(void);
/* The driver's table if the process has loaded libcuda.so.1, else NULL. Cheap enough for every call. */
const struct driver *driver_get(void);
/* For the commands that may load the driver themselves (doctor, tune, gen): NULL if there is none. */
const struct driver *driver_load(void);
/* NVRTC, loaded at the first call: the dynamic linker's own search, then beside a loaded libcudart,
 * then $CUDA_HOME and $CUDA_PATH, /usr/local/cuda, and the NVRTC wheels of the python3 on PATH.
 * Newest major version first. NULL if none is found; *why (may be NULL) then names the places tried. */
struct reason;
const struct nvrtc *nvrtc_get(struct reason *why);
/* Its library's file. Static storage. */
const char *nvrtc_file(const struct nvrtc *n);
/* True of an address in the code of the NVRTC that nvrtc_get has found. Takes no lock. */
bool nvrtc_contains(uintptr_t code);

#endif
