/* cudart.c: the CUDA runtime calls that MPI programs make, over the driver's. Kernels compiled by nvcc are
 * not among them. */
#include "cudart.h"
#include <string.h>

static _Thread_local cudaError_t last;
static _Thread_local int wanted;   /* cudaSetDevice's; the current context tells once there is one */

/* Runtime and driver errors have the same numbers; the runtime has names of its own for a few. */
cudaError_t rt_keep(CUresult r)
{
    cudaError_t e = (cudaError_t)r;
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY) last = e;
    return e;
}

/* The primary context of each device is retained once per process, and after each reset, and never given back. */
static CUresult primary_context(int device, CUcontext *out)
{
    enum { DEVICES_MAX = 64 };
    static CUcontext retained[DEVICES_MAX];
    CUresult r = cuInit(0);
    if (r || device < 0 || device >= DEVICES_MAX) return r ? r : CUDA_ERROR_INVALID_DEVICE;
    *out = __atomic_load_n(&retained[device], __ATOMIC_ACQUIRE);
    unsigned flags;
    int active = 0;
    if (*out) cuDevicePrimaryCtxGetState(device, &flags, &active);
    if (active) return CUDA_SUCCESS;
    r = cuDevicePrimaryCtxRetain(out, device);
    if (!r) __atomic_store_n(&retained[device], *out, __ATOMIC_RELEASE);
    return r;
}

CUresult rt_ensure(void)
{
    CUcontext c = NULL;
    CUdevice device;
    CUresult r = cuInit(0);
    if (r || (!cuCtxGetCurrent(&c) && c && !cuCtxGetDevice(&device))) return r;
    r = primary_context(wanted, &c);
    return r ? r : cuCtxSetCurrent(c);
}

/* --- devices --- */

cudaError_t cudaGetDeviceCount(int *count)
{
    CUresult r = cuInit(0);
    return rt_keep(r ? r : cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device)
{
    CUcontext c;
    CUresult r = primary_context(device, &c);
    if (!r) r = cuCtxSetCurrent(c);
    if (!r) wanted = device;
    return rt_keep(r);
}

cudaError_t cudaGetDevice(int *device)
{
    CUcontext c = NULL;
    CUresult r = cuInit(0);
    if (!device) return rt_keep(CUDA_ERROR_INVALID_VALUE);
    if (!r && !cuCtxGetCurrent(&c) && c) return rt_keep(cuCtxGetDevice(device));
    *device = wanted;
    return rt_keep(r);
}

cudaError_t cudaDeviceSynchronize(void)
{
    CALL(cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void)
{
    CUresult r = rt_ensure();
    CUdevice device;
    if (!r) r = cuCtxGetDevice(&device);
    return rt_keep(r ? r : cuDevicePrimaryCtxReset(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    CUresult r = cuInit(0);
    return rt_keep(r ? r : cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device)
{
    CUresult r = cuInit(0);
    return rt_keep(r ? r : cuDeviceGetPCIBusId(id, length, device));
}

static void read_properties(struct cudaDeviceProp *p, int device)
{
    const struct {
        int *to;
        CUdevice_attribute from;
    } row[] = {
        {&p->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&p->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {&p->warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
        {&p->maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
        {&p->maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X},
        {&p->maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y},
        {&p->maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z},
        {&p->maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X},
        {&p->maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y},
        {&p->maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z},
        {&p->multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {&p->maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
        {&p->unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
        {&p->managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
        {&p->concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
        {&p->canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
        {&p->asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
        {&p->l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
        {&p->memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
        {&p->pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) cuDeviceGetAttribute(row[i].to, row[i].from, device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    CUresult r = cuInit(0);
    if (!p) return rt_keep(CUDA_ERROR_INVALID_VALUE);
    memset(p, 0, sizeof *p);
    if (!r) r = cuDeviceGetName(p->name, sizeof p->name, device);
    if (!r) r = cuDeviceTotalMem(&p->totalGlobalMem, device);
    if (!r) read_properties(p, device);
    return rt_keep(r);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    CUresult r = cuInit(0);
    return rt_keep(r ? r : cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
    CUcontext c;
    CUresult r = rt_ensure();
    if (!r) r = primary_context(peer, &c);
    return rt_keep(r ? r : cuCtxEnablePeerAccess(c, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peer)
{
    CUcontext c;
    CUresult r = rt_ensure();
    if (!r) r = primary_context(peer, &c);
    return rt_keep(r ? r : cuCtxDisablePeerAccess(c));
}

cudaError_t cudaDriverGetVersion(int *version)
{
    return rt_keep(cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version) return rt_keep(CUDA_ERROR_INVALID_VALUE);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    CALL(cuMemGetInfo(available, total));
}

/* --- errors --- */

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

const char *cudaGetErrorString(cudaError_t e)
{
    const char *text;
    return cuGetErrorString((CUresult)e, &text) ? "unrecognized error code" : text;
}

const char *cudaGetErrorName(cudaError_t e)
{
    static const struct {
        cudaError_t code;
        const char *name;
    } row[] = {
        {cudaSuccess, "cudaSuccess"},
        {cudaErrorInvalidValue, "cudaErrorInvalidValue"},
        {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation"},
        {cudaErrorInitializationError, "cudaErrorInitializationError"},
        {cudaErrorNoDevice, "cudaErrorNoDevice"},
        {cudaErrorInvalidDevice, "cudaErrorInvalidDevice"},
        {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized"},
        {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle"},
        {cudaErrorNotReady, "cudaErrorNotReady"},
        {cudaErrorIllegalAddress, "cudaErrorIllegalAddress"},
        {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled"},
        {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled"},
        {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported"},
        {cudaErrorLaunchFailure, "cudaErrorLaunchFailure"},
        {cudaErrorNotSupported, "cudaErrorNotSupported"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].code == e) return row[i].name;
    return "cudaErrorUnknown";
}
