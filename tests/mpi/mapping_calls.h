/* mapping_calls.h: the driver's calls for memory that a program maps, which no test links with. */
#ifndef STRIDEC_TEST_MAPPING_CALLS_H
#define STRIDEC_TEST_MAPPING_CALLS_H
#include "check.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#define MAPPING_CALLS                                                                                               \
    X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease)        \
    X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemAllocFromPoolAsync)
static struct {
#define X(name) __typeof__(name) *name;
    MAPPING_CALLS
#undef X
} cu;

static void find_calls(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define X(name) *(void **)&cu.name = dlsym(driver, #name);
    MAPPING_CALLS
#undef X
}

#define OK(call)                                                               \
    do {                                                                       \
        CUresult r_ = (call);                                                  \
        expect(r_ == CUDA_SUCCESS, "%s: %d", #call, (int)r_);                  \
    } while (0)

/* Memory of the current device that can be shared by these types of handles; 0: not. */
static CUmemAllocationProp memory_of_device(unsigned types)
{
    int device = 0;
    cudaGetDevice(&device);
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = (CUmemAllocationHandleType)types,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

#endif
