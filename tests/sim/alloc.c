/* alloc.c: calls that allocate and free memory of every kind. */
#include "sim.h"
#include <stdlib.h>

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    ENTER();
    return out ? memory_device_alloc(ctx->device, ctx, ALLOC_DEVICE, bytes, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    ENTER();
    void *p;
    if (!out || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = memory_host_alloc(ctx, ALLOC_MANAGED, bytes, &p);
    if (!r) *out = (CUdeviceptr)(uintptr_t)p;
    return r;
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    ENTER();
    if (!out || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    return memory_host_alloc(ctx, ALLOC_PINNED, bytes, out);
}

CUresult CUDAAPI cuMemAllocHost(void **out, size_t bytes)
{
    ENTER();
    return out ? memory_host_alloc(ctx, ALLOC_PINNED, bytes, out) : CUDA_ERROR_INVALID_VALUE;
}

/* Freeing waits for whatever may still use the memory. */
static CUresult free_at(uintptr_t p, bool (*suits)(enum alloc_kind))
{
    struct alloc *a = memory_find(p);
    if (!a || a->base != p || a->dying || !suits(a->kind)) return CUDA_ERROR_INVALID_VALUE;
    for (int d = 0; d < device_count(); d++) device_run(d);
    a = memory_find(p);
    if (!a || a->base != p) return CUDA_ERROR_INVALID_VALUE;   /* another thread was faster */
    memory_release(a);
    return CUDA_SUCCESS;
}

static bool suits_free(enum alloc_kind k)
{
    return k == ALLOC_DEVICE || k == ALLOC_POOL || k == ALLOC_MANAGED;
}

static bool suits_host_free(enum alloc_kind k)
{
    return k == ALLOC_PINNED;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr p)
{
    ENTER();
    sim_hold();
    return p ? free_at(p, suits_free) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    ENTER();
    return free_at((uintptr_t)p, suits_host_free);
}

static bool suits_unregister(enum alloc_kind k)
{
    return k == ALLOC_REGISTERED;
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
    ENTER();
    uintptr_t base = (uintptr_t)p;
    if (!p || !bytes || flags > 15) return CUDA_ERROR_INVALID_VALUE;
    if (memory_find(base) || memory_find(base + bytes - 1)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct alloc a = {.base = base, .bytes = bytes, .view = p, .kind = ALLOC_REGISTERED, .device = ctx->device,
                      .context = ctx};
    return memory_add(&a) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    ENTER();
    CUresult r = free_at((uintptr_t)p, suits_unregister);
    return r ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : r;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned int flags)
{
    ENTER();
    const struct alloc *a = memory_find((uintptr_t)p);
    if (!out || flags || !a || (a->kind != ALLOC_PINNED && a->kind != ALLOC_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
    ENTER();
    const struct alloc *a = memory_find(p);
    if (!a || a->dying) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = a->base;
    if (bytes) *bytes = a->bytes;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = capture_excludes(s);
    if (r) return r;
    return memory_device_alloc(s->context->device, NULL, ALLOC_POOL, bytes, out);
}

struct free_op {
    struct op op;
    uintptr_t base;
};

static CUresult run_free(struct op *o)
{
    memory_close();
    memory_release(memory_find(((struct free_op *)o)->base));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr p, CUstream stream)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    struct alloc *a = memory_find(p);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!a || a->base != p || a->dying || !suits_free(a->kind)) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = capture_excludes(s);
    if (r) return r;
    struct free_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    a->dying = true;
    o->op.run = run_free;
    o->base = p;
    stream_add(s, &o->op);
    return CUDA_SUCCESS;
}
