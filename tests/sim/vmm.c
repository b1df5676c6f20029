/* vmm.c: virtual-memory mappings: ranges of addresses that are reserved, and memory that is put behind parts of them. A range
 * is there twice, too: where the program sees it, and where the simulator reads and writes. Kernels reach mappings of their own
 * device's memory alone. */
#include "sim.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULARITY ((size_t)2 << 20)

struct range {
    uintptr_t base;
    size_t bytes;
    char *view;
    struct range *next;
};
static struct range *ranges;

/* Memory has the number of its allocation, which lies in the device's arena and which nobody knows the address of. */
struct memory {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t bytes;
    int uses;                 /* mappings, and who created it */
    struct memory *next;
};
static struct memory *memories;
static CUmemGenericAllocationHandle last_handle;

static struct range *range_of(uintptr_t p, size_t bytes)
{
    for (struct range *r = ranges; r; r = r->next)
        if (p - r->base < r->bytes && bytes <= r->bytes - (p - r->base)) return r;
    return NULL;
}

bool memory_reserved(uintptr_t p, uintptr_t *base, size_t *bytes)
{
    const struct range *r = range_of(p, 1);
    if (r) *base = r->base, *bytes = r->bytes;
    return r;
}

static bool whole(size_t bytes)
{
    return bytes && bytes % GRANULARITY == 0;
}

static char *reserve(size_t bytes)
{
    char *p = mmap(NULL, bytes + GRANULARITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)p % GRANULARITY;
    if (before) munmap(p, before);
    munmap(p + before + bytes, GRANULARITY - before);
    return p + before;
}

/* Nothing lies there. */
static void empty(char *p, size_t bytes)
{
    mmap(p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags which)
{
    ENTER_ANY();
    (void)which;
    if (!out || !prop) return CUDA_ERROR_INVALID_VALUE;
    *out = GRANULARITY;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr at,
                                     unsigned long long flags)
{
    ENTER_ANY();
    (void)at;
    if (!out || !whole(bytes) || alignment > GRANULARITY || flags) return CUDA_ERROR_INVALID_VALUE;
    struct range *r = calloc(1, sizeof *r);
    char *base = r ? reserve(bytes) : NULL, *view = base ? reserve(bytes) : NULL;
    if (!view) {
        if (base) munmap(base, bytes);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (struct range){(uintptr_t)base, bytes, view, ranges};
    ranges = r;
    fault_install();
    fault_range(r->base, bytes);
    *out = r->base;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    ENTER_ANY();
    for (struct range **at = &ranges, *r; (r = *at); at = &r->next) {
        if (r->base != p || r->bytes != bytes || memory_within(p, bytes)) continue;
        *at = r->next;
        munmap(r->view, bytes);   /* the addresses stay reserved, so that a late access is still told from other memory */
        free(r);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                             unsigned long long flags)
{
    ENTER_ANY();
    if (!out || !prop || !whole(bytes) || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.id < 0 || prop->location.id >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    struct memory *m = calloc(1, sizeof *m);
    CUresult r = m ? memory_device_alloc(prop->location.id, NULL, ALLOC_BEHIND, bytes, &m->at) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r) return free(m), r;
    m->handle = ++last_handle, m->bytes = bytes, m->uses = 1, m->next = memories;
    memories = m;
    *out = m->handle;
    return CUDA_SUCCESS;
}

static struct memory *memory_of(CUmemGenericAllocationHandle handle)
{
    struct memory *m = memories;
    while (m && m->handle != handle) m = m->next;
    return m;
}

static void unuse(struct memory *m)
{
    struct memory **at = &memories;
    if (--m->uses) return;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    memory_release(memory_find(m->at));
    free(m);
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
    ENTER_ANY();
    struct memory *m = memory_of(handle);
    if (m) unuse(m);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
    ENTER_ANY();
    struct range *r = range_of(p, bytes);
    struct memory *m = memory_of(handle);
    if (!r || !m || offset || bytes != m->bytes || p % GRANULARITY || flags || memory_within(p, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    const struct alloc *behind = memory_find(m->at);
    struct alloc a = {.base = p, .bytes = bytes, .span = bytes, .view = r->view + (p - r->base), .kind = ALLOC_MAPPED,
                      .device = behind->device, .behind = handle};
    int fd = memory_file(behind);
    off_t at = (off_t)behind->file;
    if (mmap((void *)p, bytes, memory_closed(), MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED ||
        mmap(a.view, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED || !memory_add(&a))
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->uses++;
    return CUDA_SUCCESS;
}

static struct alloc *mapping_at(CUdeviceptr p, size_t bytes)
{
    struct alloc *a = memory_find(p);
    return a && a->kind == ALLOC_MAPPED && a->base == p && a->bytes == bytes ? a : NULL;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    ENTER_ANY();
    struct alloc *a = mapping_at(p, bytes);
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    for (int d = 0; d < device_count(); d++) device_run(d);
    memory_close();
    struct memory *m = memory_of((a = mapping_at(p, bytes))->behind);
    empty((char *)p, bytes), empty(a->view, bytes);
    memory_release(a);
    unuse(m);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    ENTER_ANY();
    if (!access || !n || !memory_find(p) || !memory_view(p, bytes)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < bytes; at += memory_find(p + at)->bytes)
        for (size_t i = 0; i < n; i++)
            if (access[i].location.id == memory_find(p + at)->device)
                memory_find(p + at)->accessible = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
