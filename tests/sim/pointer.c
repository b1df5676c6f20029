/* pointer.c: what the driver tells about an address. */
#include "sim.h"
#include <string.h>

static bool is_host(const struct alloc *a)
{
    return a->kind == ALLOC_PINNED || a->kind == ALLOC_REGISTERED;
}

/* The value of one attribute of p, in a (not NULL). Writes as many bytes as the attribute has. */
static CUresult attribute_of(const struct alloc *a, CUdeviceptr p, CUpointer_attribute attribute, void *out)
{
    bool host_sees = is_host(a) || a->kind == ALLOC_MANAGED;
    uintptr_t base = a->base;
    size_t bytes = a->bytes;
    memory_reserved(p, &base, &bytes);
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)out = a->context; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)out = is_host(a) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)out = a->base ? p : 0; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)out = host_sees ? (void *)(uintptr_t)p : NULL;
        return host_sees ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: *(unsigned *)out = a->synchronous; break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(unsigned long long *)out = memory_mapping_id(a); break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned char *)out = a->kind == ALLOC_MANAGED; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = a->device; break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *(unsigned char *)out = a->kind == ALLOC_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)out = base; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)out = bytes; break;
    case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned char *)out = 1; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out = a->kind == ALLOC_MAPPED ? (unsigned long long)memory_mapping_types(a) : 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE: *(unsigned char *)out = 0; break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: *(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE; break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(void **)out = a->kind == ALLOC_POOL ? (void *)&contexts : NULL;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* cuPointerGetAttributes' answer for an address that the driver does not know; ordinals are -2 there. */
static CUresult attribute_of_unknown(CUdeviceptr p, CUpointer_attribute attribute, void *out)
{
    static const struct alloc nothing;
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
        *(int *)out = -2;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
        *(unsigned *)out = 0;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_MAPPED || attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) {
        *(unsigned char *)out = 0;
        return CUDA_SUCCESS;
    }
    if (attribute == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS) {
        *(unsigned *)out = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
        return CUDA_SUCCESS;
    }
    return attribute_of(&nothing, p, attribute, out);
}

static struct alloc *known(CUdeviceptr p)
{
    struct alloc *a = memory_find(p);
    return a && !a->dying ? a : NULL;
}

CUresult CUDAAPI cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr p)
{
    ENTER_ANY();
    const struct alloc *a = known(p);
    sim_counts.questions++;
    if (!out || !a) return CUDA_ERROR_INVALID_VALUE;
    return attribute_of(a, p, attribute, out);
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attribute, void **out, CUdeviceptr p)
{
    ENTER_ANY();
    const struct alloc *a = known(p);
    sim_counts.questions++;
    if (!n || !attribute || !out) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        CUresult r = a ? attribute_of(a, p, attribute[i], out[i]) : attribute_of_unknown(p, attribute[i], out[i]);
        if (r && attribute[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER) return r;
    }
    return CUDA_SUCCESS;
}

/* Sets what holds for the whole allocation, wherever in it p lies; of a failed context, too. */
CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr p)
{
    ENTER_ANY();
    struct alloc *a = memory_find(p);
    if (!context_current()) return CUDA_ERROR_INVALID_CONTEXT;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !a) return CUDA_ERROR_INVALID_VALUE;
    if (a->kind == ALLOC_MAPPED) return CUDA_ERROR_NOT_SUPPORTED;
    a->synchronous = *(const unsigned *)value != 0;
    return CUDA_SUCCESS;
}
