/* cudart_memory.c: the runtime's memory, copies, streams, captured graphs, events and IPC. */
#include "cudart.h"
#include <stdbool.h>
#include <string.h>

/* --- allocation --- */

static CUresult allocate(void **out, size_t bytes)
{
    CUdeviceptr p = 0;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = bytes ? cuMemAlloc(&p, bytes) : CUDA_SUCCESS;
    *out = (void *)(uintptr_t)p;
    return r;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    CALL(allocate(out, bytes));
}

cudaError_t cudaFree(void *p)
{
    CALL(cuMemFree(ADDRESS(p)));
}

cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    size_t row = (width + 511) / 512 * 512, bytes;
    if (!pitch || __builtin_mul_overflow(row, height, &bytes)) return rt_keep(CUDA_ERROR_INVALID_VALUE);
    *pitch = row;
    CALL(allocate(out, bytes));
}

cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned int flags)
{
    CUdeviceptr p = 0;
    CUresult r = out ? rt_ensure() : CUDA_ERROR_INVALID_VALUE;
    if (!r && !(r = cuMemAllocManaged(&p, bytes, flags))) *out = (void *)(uintptr_t)p;
    return rt_keep(r);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    CALL(cuMemAllocHost(out, bytes));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    CALL(cuMemHostAlloc(out, bytes, flags));
}

cudaError_t cudaFreeHost(void *p)
{
    CALL(p ? cuMemFreeHost(p) : CUDA_SUCCESS);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int flags)
{
    CALL(cuMemHostRegister(p, bytes, flags));
}

cudaError_t cudaHostUnregister(void *p)
{
    CALL(cuMemHostUnregister(p));
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned int flags)
{
    CUdeviceptr d = 0;
    CUresult r = out ? rt_ensure() : CUDA_ERROR_INVALID_VALUE;
    if (!r && !(r = cuMemHostGetDevicePointer(&d, p, flags))) *out = (void *)(uintptr_t)d;
    return rt_keep(r);
}

cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    CUdeviceptr p = 0;
    CUresult r = out ? rt_ensure() : CUDA_ERROR_INVALID_VALUE;
    if (!r && !(r = cuMemAllocAsync(&p, bytes, stream))) *out = (void *)(uintptr_t)p;
    return rt_keep(r);
}

cudaError_t cudaFreeAsync(void *p, cudaStream_t stream)
{
    CALL(cuMemFreeAsync(ADDRESS(p), stream));
}

/* --- copies --- */

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    CALL(cuMemcpy(ADDRESS(to), ADDRESS(from), bytes));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    CALL(cuMemcpyAsync(ADDRESS(to), ADDRESS(from), bytes, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream)
{
    (void)to_device, (void)from_device;
    CALL(cuMemcpyAsync(ADDRESS(to), ADDRESS(from), bytes, stream));
}

static CUDA_MEMCPY2D rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = ADDRESS(from), .srcPitch = from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = ADDRESS(to), .dstPitch = to_pitch,
                           .WidthInBytes = width, .Height = height};
}

cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                         enum cudaMemcpyKind kind)
{
    (void)kind;
    CUDA_MEMCPY2D d = rows(to, to_pitch, from, from_pitch, width, height);
    CALL(cuMemcpy2DUnaligned(&d));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    CUDA_MEMCPY2D d = rows(to, to_pitch, from, from_pitch, width, height);
    CALL(cuMemcpy2DAsync(&d, stream));
}

cudaError_t cudaMemset(void *p, int value, size_t bytes)
{
    CALL(cuMemsetD8(ADDRESS(p), (unsigned char)value, bytes));
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    CALL(cuMemsetD8Async(ADDRESS(p), (unsigned char)value, bytes, stream));
}

/* --- attributes, IPC --- */

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p)
{
    unsigned type = 0;
    unsigned char managed = 0;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    if (!out) return rt_keep(CUDA_ERROR_INVALID_VALUE);
    memset(out, 0, sizeof *out);
    void *values[] = {&type, &managed, &out->device};
    CUresult r = rt_ensure();
    if (!r) r = cuPointerGetAttributes(3, what, values, ADDRESS(p));
    if (r) return rt_keep(r);
    out->type = managed                       ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                               : cudaMemoryTypeUnregistered;
    if (type) out->devicePointer = (void *)(uintptr_t)p;
    if (managed || type == CU_MEMORYTYPE_HOST || !type) out->hostPointer = (void *)(uintptr_t)p;
    return cudaSuccess;
}

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "handles are the same");

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
    CALL(cuIpcGetMemHandle((CUipcMemHandle *)out, ADDRESS(p)));
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUipcMemHandle h;
    CUdeviceptr p = 0;
    memcpy(&h, &handle, sizeof h);
    CUresult r = out ? rt_ensure() : CUDA_ERROR_INVALID_VALUE;
    if (!r && !(r = cuIpcOpenMemHandle(&p, h, flags))) *out = (void *)(uintptr_t)p;
    return rt_keep(r);
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
    CALL(cuIpcCloseMemHandle(ADDRESS(p)));
}

_Static_assert(sizeof(cudaIpcEventHandle_t) == sizeof(CUipcEventHandle), "handles are the same");

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t event)
{
    CALL(cuIpcGetEventHandle((CUipcEventHandle *)out, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t handle)
{
    CUipcEventHandle h;
    memcpy(&h, &handle, sizeof h);
    CALL(cuIpcOpenEventHandle(out, h));
}

/* --- streams, events --- */

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    CALL(cuStreamCreate(out, CU_STREAM_DEFAULT));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    CALL(cuStreamCreate(out, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    CALL(cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CALL(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    CALL(cuStreamQuery(stream));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    CALL(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    CALL(cuStreamEndCapture(stream, graph));
}

_Static_assert((int)cudaStreamCaptureStatusInvalidated == (int)CU_STREAM_CAPTURE_STATUS_INVALIDATED,
               "statuses are the same");

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    CUstreamCaptureStatus now = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult r = status ? rt_ensure() : CUDA_ERROR_INVALID_VALUE;
    if (!r && !(r = cuStreamIsCapturing(stream, &now))) *status = (enum cudaStreamCaptureStatus)now;
    return rt_keep(r);
}

#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    CALL(cuGraphInstantiateWithFlags(out, graph, flags));
}
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, cudaGraphNode_t *at, char *log, size_t bytes)
{
    (void)at, (void)log, (void)bytes;
    CALL(cuGraphInstantiateWithFlags(out, graph, 0));
}
#endif

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    CALL(cuGraphInstantiateWithFlags(out, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    CALL(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    CALL(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    CALL(cuGraphDestroy(graph));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    CALL(cuLaunchHostFunc((CUstream)stream, function, data));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    CALL(cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    CALL(cuEventCreate(out, CU_EVENT_DEFAULT));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
{
    CALL(cuEventCreate(out, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CALL(cuEventRecord(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    CALL(cuEventSynchronize(event));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    CALL(cuEventQuery(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    CALL(cuEventElapsedTime(ms, start, end));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    CALL(cuEventDestroy(event));
}
