/* copy.c: copies of one, two and three dimensions and fills, at once or in stream order. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

/* depth slices of height rows of width bytes. */
struct copy {
    uintptr_t to, from;
    size_t width, height, depth;
    size_t to_row, from_row, to_slice, from_slice;   /* bytes from one to the next */
};

struct copy_op {
    struct op op;
    struct copy c;
    char *staged;      /* the bytes of a pageable source, packed; else NULL */
    unsigned char fill;
};

/* Bytes from the first to behind the last; 0 where the numbers overflow. */
static size_t reach(const struct copy *c, size_t row, size_t slice)
{
    size_t rows, slices, sum;
    if (__builtin_mul_overflow(row, c->height - 1, &rows) || __builtin_mul_overflow(slice, c->depth - 1, &slices) ||
        __builtin_add_overflow(rows, slices, &sum) || __builtin_add_overflow(sum, c->width, &sum))
        return 0;
    return sum;
}

static CUresult move_bytes(const struct copy *c, const char *staged)
{
    char *to = memory_view(c->to, reach(c, c->to_row, c->to_slice));
    const char *from = staged ? staged : memory_view(c->from, reach(c, c->from_row, c->from_slice));
    size_t from_row = staged ? c->width : c->from_row;
    size_t from_slice = staged ? c->width * c->height : c->from_slice;
    if (!to || !from) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++)
            memmove(to + z * c->to_slice + y * c->to_row, from + z * from_slice + y * from_row, c->width);
    return CUDA_SUCCESS;
}

static CUresult run_copy(struct op *o)
{
    const struct copy_op *m = (const struct copy_op *)o;
    return move_bytes(&m->c, m->staged);
}

static void drop_copy(struct op *o)
{
    free(((struct copy_op *)o)->staged);
}

/* A call that waits is waited for wholly where either side says so. */
static bool synchronous(const struct copy *c)
{
    const struct alloc *to = memory_find(c->to), *from = memory_find(c->from);
    return (to && to->synchronous) || (from && from->synchronous);
}

static bool pageable(uintptr_t p)
{
    return !memory_find(p);
}

static void count_copy(const struct copy *c)
{
    uint64_t bytes = (uint64_t)c->width * c->height * c->depth;
    bool from = memory_is_device(c->from), to = memory_is_device(c->to);
    sim_counts.copies++;
    if (c->height > 1 || c->depth > 1) sim_counts.copies_2d++;
    if (from && to)
        sim_counts.bytes_d2d += bytes;
    else if (to)
        sim_counts.bytes_h2d += bytes;
    else if (from)
        sim_counts.bytes_d2h += bytes;
}

/* Copies the source away now, as CUDA does for memory that it cannot read later. */
static char *stage(const struct copy *c)
{
    char *staged = malloc(c->width * c->height * c->depth);
    struct copy in = *c;
    in.to_row = c->width;
    in.to_slice = c->width * c->height;
    if (!staged) return NULL;
    for (size_t z = 0; z < c->depth; z++)
        for (size_t y = 0; y < c->height; y++)
            memcpy(staged + z * in.to_slice + y * in.to_row,
                   (const char *)c->from + z * c->from_slice + y * c->from_row, c->width);
    return staged;
}

/* Copies in any context reach what is some context's own. A pool's memory, and a mapping's, are in reach of its own device alone,
 * as on two H200s, driver 580, and a mapping's of devices that cuMemSetAccess names. */
static bool in_reach(CUcontext c, uintptr_t p)
{
    const struct alloc *a = memory_find(p);
    if (a && a->kind == ALLOC_MAPPED && a->accessible >> c->device & 1) return true;
    return !a || (a->kind != ALLOC_POOL && a->kind != ALLOC_MAPPED) || a->device == c->device || c->peer[a->device];
}

/* Enqueues; waits where the call is one that waits, or writes pageable memory. As in CUDA, a copy within devices
 * never waits, and one from pageable memory only until its source is read: the bytes arrive in stream order; but where
 * the memory is synchronous. */
static CUresult enqueue(struct CUstream_st *s, const struct copy *c, bool wait)
{
    if (!c->width || !c->height || !c->depth) return CUDA_SUCCESS;
    size_t to = reach(c, c->to_row, c->to_slice), from = reach(c, c->from_row, c->from_slice);
    if (!to || !from || !memory_view(c->to, to) || !memory_view(c->from, from)) return CUDA_ERROR_INVALID_VALUE;
    if (!in_reach(s->context, c->to) || !in_reach(s->context, c->from)) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pageable(c->from) || pageable(c->to) ? capture_excludes(s) : CUDA_SUCCESS;
    if (r) return r;
    struct copy_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_copy;
    o->op.drop = drop_copy;
    o->c = *c;
    if (pageable(c->from) && !(o->staged = stage(c))) {
        free(o);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    count_copy(c);
    bool on_device = memory_is_device(c->to) && memory_is_device(c->from);
    bool complete = (wait && ((!on_device && !o->staged) || synchronous(c))) || pageable(c->to);
    uint64_t seq = stream_add(s, &o->op);
    return complete ? stream_run(s, seq) : CUDA_SUCCESS;
}

static struct copy line(uintptr_t to, uintptr_t from, size_t bytes)
{
    return (struct copy){.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};
}

static CUresult copy_line(CUcontext ctx, CUstream stream, uintptr_t to, uintptr_t from, size_t bytes, bool wait)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    struct copy c = line(to, from, bytes);
    return s ? enqueue(s, &c, wait) : CUDA_ERROR_INVALID_HANDLE;
}

/* The calls whose name says where each side is: 'D' a device's memory or what devices may address, 'H'
 * anything but protected device memory. */
static bool side_is(char side, uintptr_t p)
{
    const struct alloc *a = memory_find(p);
    return side == 'D' ? a != NULL : !a || !a->span;
}

#define SIDED(call, to_side, to_type, from_side, from_type) \
    CUresult CUDAAPI call(to_type to, from_type from, size_t bytes) \
    { \
        ENTER(); \
        if (bytes && (!side_is(to_side, (uintptr_t)to) || !side_is(from_side, (uintptr_t)from))) \
            return CUDA_ERROR_INVALID_VALUE; \
        return copy_line(ctx, CU_STREAM_LEGACY, (uintptr_t)to, (uintptr_t)from, bytes, true); \
    }
#define SIDED_ASYNC(call, to_side, to_type, from_side, from_type) \
    CUresult CUDAAPI call(to_type to, from_type from, size_t bytes, CUstream stream) \
    { \
        ENTER(); \
        if (bytes && (!side_is(to_side, (uintptr_t)to) || !side_is(from_side, (uintptr_t)from))) \
            return CUDA_ERROR_INVALID_VALUE; \
        return copy_line(ctx, stream, (uintptr_t)to, (uintptr_t)from, bytes, false); \
    }
SIDED(cuMemcpyHtoD, 'D', CUdeviceptr, 'H', const void *)
SIDED(cuMemcpyDtoH, 'H', void *, 'D', CUdeviceptr)
SIDED(cuMemcpyDtoD, 'D', CUdeviceptr, 'D', CUdeviceptr)
SIDED_ASYNC(cuMemcpyHtoDAsync, 'D', CUdeviceptr, 'H', const void *)
SIDED_ASYNC(cuMemcpyDtoHAsync, 'H', void *, 'D', CUdeviceptr)
SIDED_ASYNC(cuMemcpyDtoDAsync, 'D', CUdeviceptr, 'D', CUdeviceptr)

CUresult CUDAAPI cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER();
    return copy_line(ctx, CU_STREAM_LEGACY, to, from, bytes, true);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER();
    return copy_line(ctx, stream, to, from, bytes, false);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                   size_t bytes, CUstream stream)
{
    ENTER();
    if (!context_live(to_context) || !context_live(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!memory_find(to) || !memory_find(from)) return CUDA_ERROR_INVALID_VALUE;
    return copy_line(ctx, stream, to, from, bytes, false);
}

/* --- pitched copies --- */

static bool address_of(CUmemorytype type, const void *host, CUdeviceptr device, uintptr_t *out)
{
    *out = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return false;
    return type == CU_MEMORYTYPE_UNIFIED || side_is(type == CU_MEMORYTYPE_HOST ? 'H' : 'D', *out);
}

/* A pitch of 0 stands for the row's own width; anything else must hold a row. */
static bool set_pitch(size_t pitch, size_t x, size_t width, size_t *out)
{
    size_t row;
    if (__builtin_add_overflow(x, width, &row)) return false;
    *out = pitch ? pitch : row;
    return *out >= row && *out <= 0x7fffffff;
}

/* Moves *at on to slice z, row y, byte x; false where that overflows. */
static bool advance(uintptr_t *at, size_t slice, size_t z, size_t row, size_t y, size_t x)
{
    size_t slices, rows;
    return !__builtin_mul_overflow(slice, z, &slices) && !__builtin_mul_overflow(row, y, &rows) &&
           !__builtin_add_overflow(*at, slices, at) && !__builtin_add_overflow(*at, rows, at) &&
           !__builtin_add_overflow(*at, x, at);
}

static CUresult copy_2d(CUcontext ctx, CUstream stream, const CUDA_MEMCPY2D *d, bool wait)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    if (!d->WidthInBytes || !d->Height) return CUDA_SUCCESS;
    struct copy c = {.width = d->WidthInBytes, .height = d->Height, .depth = 1};
    if (!set_pitch(d->srcPitch, d->srcXInBytes, c.width, &c.from_row) ||
        !set_pitch(d->dstPitch, d->dstXInBytes, c.width, &c.to_row) ||
        !address_of(d->srcMemoryType, d->srcHost, d->srcDevice, &c.from) ||
        !address_of(d->dstMemoryType, d->dstHost, d->dstDevice, &c.to))
        return CUDA_ERROR_INVALID_VALUE;
    if (!advance(&c.from, 0, 0, c.from_row, d->srcY, d->srcXInBytes) ||
        !advance(&c.to, 0, 0, c.to_row, d->dstY, d->dstXInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(s, &c, wait);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *d)
{
    ENTER();
    return copy_2d(ctx, CU_STREAM_LEGACY, d, true);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *d)
{
    ENTER();
    return copy_2d(ctx, CU_STREAM_LEGACY, d, true);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *d, CUstream stream)
{
    ENTER();
    return copy_2d(ctx, stream, d, false);
}

static CUresult copy_3d(CUcontext ctx, CUstream stream, const CUDA_MEMCPY3D *d, bool wait)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!d) return CUDA_ERROR_INVALID_VALUE;
    if (!d->WidthInBytes || !d->Height || !d->Depth) return CUDA_SUCCESS;
    struct copy c = {.width = d->WidthInBytes, .height = d->Height, .depth = d->Depth};
    if (!set_pitch(d->srcPitch, d->srcXInBytes, c.width, &c.from_row) ||
        !set_pitch(d->dstPitch, d->dstXInBytes, c.width, &c.to_row) ||
        !address_of(d->srcMemoryType, d->srcHost, d->srcDevice, &c.from) ||
        !address_of(d->dstMemoryType, d->dstHost, d->dstDevice, &c.to) ||
        (d->srcHeight && d->srcHeight < d->srcY + c.height) || (d->dstHeight && d->dstHeight < d->dstY + c.height) ||
        ((!d->srcHeight || !d->dstHeight) && c.depth > 1) || d->srcLOD || d->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->reserved0 || d->reserved1 || __builtin_mul_overflow(c.from_row, d->srcHeight, &c.from_slice) ||
        __builtin_mul_overflow(c.to_row, d->dstHeight, &c.to_slice) ||
        !advance(&c.from, c.from_slice, d->srcZ, c.from_row, d->srcY, d->srcXInBytes) ||
        !advance(&c.to, c.to_slice, d->dstZ, c.to_row, d->dstY, d->dstXInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(s, &c, wait);
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *d)
{
    ENTER();
    return copy_3d(ctx, CU_STREAM_LEGACY, d, true);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *d, CUstream stream)
{
    ENTER();
    return copy_3d(ctx, stream, d, false);
}

/* --- fills --- */

static CUresult run_fill(struct op *o)
{
    const struct copy_op *m = (const struct copy_op *)o;
    char *to = memory_view(m->c.to, m->c.width);
    if (!to) return CUDA_ERROR_ILLEGAL_ADDRESS;
    memset(to, m->fill, m->c.width);
    return CUDA_SUCCESS;
}

static CUresult fill(CUcontext ctx, CUstream stream, CUdeviceptr to, unsigned char value, size_t bytes, bool wait)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!bytes) return CUDA_SUCCESS;
    if (!memory_find(to) || !memory_view(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    struct copy_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_fill;
    o->c = line(to, 0, bytes);
    o->fill = value;
    uint64_t seq = stream_add(s, &o->op);
    return wait && !memory_is_device(to) ? stream_run(s, seq) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes)
{
    ENTER();
    return fill(ctx, CU_STREAM_LEGACY, to, value, bytes, true);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    ENTER();
    return fill(ctx, stream, to, value, bytes, false);
}
