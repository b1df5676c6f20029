/* memop.c: stream memory operations: words that streams write and wait for. Of waits, for equality and for cyclic
 * greater-or-equal; of 32 bits. */
#include "sim.h"
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST = 256 };   /* a call */

struct word_op {
    struct op op;
    uintptr_t address;
    uint32_t value;
    bool equal;   /* waits */
};

static _Atomic uint32_t *word_of(const struct op *o)
{
    return (void *)memory_view(((const struct word_op *)o)->address, sizeof(uint32_t));
}

static CUresult run_write(struct op *o)
{
    _Atomic uint32_t *word = word_of(o);
    if (!word) return CUDA_ERROR_ILLEGAL_ADDRESS;
    atomic_store_explicit(word, ((struct word_op *)o)->value, memory_order_release);
    return CUDA_SUCCESS;
}

static CUresult run_wait(struct op *o)
{
    const struct word_op *w = (struct word_op *)o;
    const _Atomic uint32_t *word = word_of(o);
    if (!word) return CUDA_ERROR_ILLEGAL_ADDRESS;
    uint32_t now = atomic_load_explicit(word, memory_order_acquire);
    return (w->equal ? now == w->value : (int32_t)(now - w->value) >= 0) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

/* Managed memory is not among what the calls take. */
static bool address_ok(CUdeviceptr p)
{
    const struct alloc *a = memory_find(p);
    return a && !a->dying && a->kind != ALLOC_MANAGED && a->kind != ALLOC_BEHIND && p % sizeof(uint32_t) == 0 &&
           memory_view(p, sizeof(uint32_t));
}

/* Makes an operation of p. */
static CUresult word_make(struct op **out, const CUstreamBatchMemOpParams *p)
{
    bool wait = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    if (!wait && p->operation != CU_STREAM_MEM_OP_WRITE_VALUE_32) return CUDA_ERROR_NOT_SUPPORTED;
    unsigned flags = wait ? p->waitValue.flags : p->writeValue.flags;
    if (flags > (wait ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WRITE_VALUE_DEFAULT)) return CUDA_ERROR_NOT_SUPPORTED;
    const struct word_op w = {.op = {.run = wait ? run_wait : run_write},
                              .address = wait ? p->waitValue.address : p->writeValue.address,
                              .value = wait ? p->waitValue.value : p->writeValue.value,
                              .equal = flags == CU_STREAM_WAIT_VALUE_EQ};
    if (!address_ok(w.address)) return CUDA_ERROR_INVALID_VALUE;
    struct word_op *o = malloc(sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    *o = w;
    *out = &o->op;
    return CUDA_SUCCESS;
}

/* Enqueues all of them, or none. */
static CUresult enqueue(CUcontext ctx, CUstream stream, const CUstreamBatchMemOpParams *p, unsigned n)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    struct op *made[MOST];
    unsigned ready = 0;
    CUresult r = CUDA_SUCCESS;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!p || n > MOST) return CUDA_ERROR_INVALID_VALUE;
    if (!sim_number("SIMGPU_MEM_OPS", 1)) return CUDA_ERROR_NOT_SUPPORTED;
    while (ready < n && !(r = word_make(&made[ready], &p[ready]))) ready++;
    for (unsigned i = 0; i < ready; i++)
        if (r) free(made[i]);
        else stream_add(s, made[i]);
    return r;
}

CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *p, unsigned int flags)
{
    ENTER();
    return flags ? CUDA_ERROR_INVALID_VALUE : enqueue(ctx, stream, p, n);
}

CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    ENTER();
    const CUstreamBatchMemOpParams p = {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                      .address = address, .value = value, .flags = flags}};
    return enqueue(ctx, stream, &p, 1);
}

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    ENTER();
    const CUstreamBatchMemOpParams p = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                       .address = address, .value = value, .flags = flags}};
    return enqueue(ctx, stream, &p, 1);
}
