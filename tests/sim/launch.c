/* launch.c: what a launch is made of, and running it. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct launch_op {
    struct op op;
    struct launch launch;
};

/* True once: of the launch that SIMGPU_FAULT counts to. */
static bool faults(void)
{
    static long ran;
    return ++ran == sim_number("SIMGPU_FAULT", 0);
}

static CUresult run_launch(struct op *o)
{
    const struct launch *l = &((struct launch_op *)o)->launch;
    size_t bytes;
    if (!function_live(l->function)) return CUDA_ERROR_INVALID_HANDLE;   /* a graph's, whose module was unloaded */
    if (faults()) return CUDA_ERROR_ILLEGAL_ADDRESS;
    void *shared = function_shared(l->function, &bytes);
    block_shared(shared, bytes);
    memory_open(o->context);
    fault_in_kernel = 1;
    l->function->run(l->arguments, l->grid, l->block, &block_calls);
    fault_in_kernel = 0;
    return CUDA_SUCCESS;
}

void launch_free(struct launch *l)
{
    free(l->arguments);
    l->arguments = NULL;
}

static void drop_launch(struct op *o)
{
    launch_free(&((struct launch_op *)o)->launch);
}

/* The pointers, then the values, each at a multiple of 16 bytes. */
static void **copy_arguments(CUfunction f, void *const *from)
{
    size_t total = (f->arguments * sizeof(void *) + 15) / 16 * 16;
    for (unsigned i = 0; i < f->arguments; i++) total += (f->bytes[i] + 15) / 16 * 16;
    void **to = aligned_alloc(16, total ? total : 16);
    char *value = to ? (char *)to + (f->arguments * sizeof(void *) + 15) / 16 * 16 : NULL;
    for (unsigned i = 0; to && i < f->arguments; i++) {
        to[i] = memcpy(value, from[i], f->bytes[i]);
        value += (f->bytes[i] + 15) / 16 * 16;
    }
    return to;
}

static bool dimensions_ok(const unsigned g[3], const unsigned b[3])
{
    if (!g[0] || !g[1] || !g[2] || !b[0] || !b[1] || !b[2]) return false;
    if (g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535) return false;
    return b[0] <= 1024 && b[1] <= 1024 && b[2] <= 64 && (uint64_t)b[0] * b[1] * b[2] <= 1024;
}

CUresult launch_make(struct launch *out, const struct launch *l, CUcontext ctx)
{
    if (!function_live(l->function)) return CUDA_ERROR_INVALID_HANDLE;
    if (l->function->context != ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if ((l->function->arguments && !l->arguments) || !dimensions_ok(l->grid, l->block)) return CUDA_ERROR_INVALID_VALUE;
    *out = *l;
    out->arguments = copy_arguments(l->function, l->arguments);
    return out->arguments ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult launch_add(struct CUstream_st *s, const struct launch *l, uint64_t *seq)
{
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    struct launch_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = launch_make(&o->launch, l, s->context);
    if (r) {
        free(o);
        return r;
    }
    o->op.run = run_launch;
    o->op.drop = drop_launch;
    sim_counts.launches++;
    uint64_t at = stream_add(s, &o->op);
    if (seq) *seq = at;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, const unsigned g[3], const unsigned b[3], unsigned shared, CUstream stream,
                       void **arguments, void **extra, CUcontext ctx)
{
    struct CUstream_st *s = stream_find(stream, ctx);
    const struct launch l = {f, {g[0], g[1], g[2]}, {b[0], b[1], b[2]}, arguments};
    if (!s || !function_live(f)) return CUDA_ERROR_INVALID_HANDLE;
    if (f->context != ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (s->context != ctx) return CUDA_ERROR_INVALID_HANDLE;
    if (extra || shared > SIM_SHARED_MAX) return CUDA_ERROR_INVALID_VALUE;
    return launch_add(s, &l, NULL);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                                unsigned int by, unsigned int bz, unsigned int shared, CUstream stream,
                                void **arguments, void **extra)
{
    ENTER();
    return launch(f, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, stream, arguments, extra, ctx);
}

/* Kernels run one after the other here, whether they may begin early or not: it is counted alone. */
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra)
{
    ENTER();
    bool early = false;
    if (!c || (c->numAttrs && !c->attrs)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c->numAttrs; i++) {
        if (c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) return CUDA_ERROR_NOT_SUPPORTED;
        early = early || c->attrs[i].value.programmaticStreamSerializationAllowed;
    }
    CUresult r = launch(f, (unsigned[]){c->gridDimX, c->gridDimY, c->gridDimZ},
                        (unsigned[]){c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, c->hStream,
                        arguments, extra, ctx);
    sim_counts.early_launches += r == CUDA_SUCCESS && early;
    return r;
}
