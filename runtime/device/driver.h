/* driver.h: the calls of the CUDA driver, loaded at run time; nothing is linked to CUDA. cuda.c fills them.
 *
 * A process without libcuda.so.1 has no device pointers: stridec loads no driver, and serves host memory alone. */
#ifndef STRIDEC_DRIVER_H
#define STRIDEC_DRIVER_H
#include <cuda.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Every driver call of stridec. Names go through cuda.h's macros (cuMemAlloc_v2), so prototype and symbol agree. */
#define DRIVER_CALLS(X) \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorString) \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute) X(cuDeviceTotalMem) \
    X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) \
    X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) \
    X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuPointerSetAttribute) \
    X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) \
    X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
    X(cuMemcpyAsync) X(cuMemcpy2DAsync) X(cuMemcpy3DAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyHtoDAsync) \
    X(cuMemsetD8Async) \
    X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority) X(cuStreamCreate) X(cuStreamDestroy) \
    X(cuStreamSynchronize) X(cuStreamIsCapturing) X(cuThreadExchangeStreamCaptureMode) \
    X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventDestroy) X(cuStreamWaitEvent) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)
/* Older drivers may lack these versions; then no graphs are used (launch_graph.c). */
#define DRIVER_GRAPH_CALLS(X) \
    X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode) X(cuGraphKernelNodeSetAttribute) \
    X(cuGraphInstantiateWithFlags) X(cuGraphExecDestroy) X(cuGraphExecKernelNodeSetParams) X(cuGraphLaunch)

/* Older drivers may lack the first; then streams do not wait for other ranks (channel.h, stream_posts.h). */
#define DRIVER_MEMORY_CALLS(X) X(cuStreamBatchMemOp) X(cuStreamGetCtx)

/* Older drivers may lack these, or not put them into a graph; then a kernel begins when the one before it has ended. */
#define DRIVER_EARLY_CALLS(X) X(cuLaunchKernelEx) X(cuFuncGetAttribute)

/* Older drivers may lack these; then memory mapped by cuMemMap is not shared (mapping.h). */
#define DRIVER_MAPPING_CALLS(X) \
    X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) \
    X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemGetAddressRange) X(cuMemRetainAllocationHandle) \
    X(cuMemGetAllocationPropertiesFromHandle) X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle)

#define DRIVER_FIELD(name) __typeof__(name) *name;
struct driver {
    DRIVER_CALLS(DRIVER_FIELD)
    DRIVER_GRAPH_CALLS(DRIVER_FIELD)
    DRIVER_MAPPING_CALLS(DRIVER_FIELD)
    DRIVER_MEMORY_CALLS(DRIVER_FIELD)
    DRIVER_EARLY_CALLS(DRIVER_FIELD)
    /* All calls of a list exist. early_launches: in a capture too. */
    bool graphs, mappings, memory_operations, early_launches;
};

/* Returns true if no libcuda.so.1 is loaded: driver_last_object was the loader's last object then, and still is. */
extern _Atomic(struct link_map *) driver_last_object __attribute__((visibility("hidden")));
static inline __attribute__((always_inline)) bool driver_absent(void)
{
    struct link_map *map = atomic_load_explicit(&driver_last_object, memory_order_acquire);
    return map && !__atomic_load_n(&map->l_next, __ATOMIC_ACQUIRE);
}
/* Hides the driver from stubs from now on: every call passes to the MPI. */
void driver_hide(void);
/* Returns the driver's table, NULL if the process has not loaded libcuda.so.1. Cheap enough for every call. */
const struct driver *driver_get(void);
/* Loads the driver, for commands (doctor, tune, gen). Returns NULL if there is none. */
const struct driver *driver_load(void);

#endif
