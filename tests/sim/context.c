/* context.c: primary and other contexts, each thread's stack of current ones, peers. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 64 };
static _Thread_local CUcontext stack[STACK_MAX];
static _Thread_local int depth;
static struct CUctx_st primary[SIM_DEVICES_MAX];
struct CUctx_st *contexts;

bool context_live(CUcontext c)
{
    for (struct CUctx_st *at = contexts; at; at = at->next)
        if (at == c) return true;
    return false;
}

/* A destroyed context that is still on a thread's stack counts as none. */
CUcontext context_current(void)
{
    CUcontext c = depth ? stack[depth - 1] : NULL;
    return c && context_live(c) ? c : NULL;
}

static CUresult context_open(struct CUctx_st *c, int device, bool is_primary, unsigned flags)
{
    *c = (struct CUctx_st){.device = device, .primary = is_primary, .live = true, .flags = flags};
    c->legacy = stream_new(c, CU_STREAM_DEFAULT);
    c->per_thread = stream_new(c, CU_STREAM_DEFAULT);
    if (!c->legacy || !c->per_thread) return CUDA_ERROR_OUT_OF_MEMORY;
    c->next = contexts;
    contexts = c;
    return CUDA_SUCCESS;
}

void context_misused(const char *what)
{
    fprintf(stderr, "simulated GPU: a %s of a context that was reset or destroyed\n", what);
    abort();
}

void contexts_fail(CUresult r)
{
    for (struct CUctx_st *c = contexts; c; c = c->next)
        if (!c->failed) c->failed = r;
}

/* Runs what is pending, then frees what the context holds. */
static void context_close(struct CUctx_st *c)
{
    context_run(c);
    if (!c->live) return;
    memory_close();
    memory_release_context(c);
    modules_close(c);
    streams_close(c);
    struct CUctx_st **link = &contexts;
    while (*link != c) link = &(*link)->next;
    *link = c->next;
    c->live = false;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    ENTER_ANY();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *c = &primary[device];
    CUresult r = c->live ? CUDA_SUCCESS : context_open(c, device, true, 0);
    if (r) return r;
    c->retained++;
    *out = c;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
    ENTER_ANY();
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    if (!primary[device].live) return CUDA_ERROR_INVALID_CONTEXT;
    if (!--primary[device].retained) context_close(&primary[device]);
    return CUDA_SUCCESS;
}

/* Whoever wants it next makes it anew, at the same address. */
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device)
{
    ENTER_ANY();
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *c = &primary[device];
    if (!c->live) return CUDA_SUCCESS;
    context_close(c);
    c->reset = true;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    ENTER_ANY();
    if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *flags = primary[device].flags;
    *active = primary[device].live;
    return CUDA_SUCCESS;
}

static CUresult create(const char *call, CUcontext *out, unsigned int flags, CUdevice device)
{
    __attribute__((cleanup(sim_leave))) const CUresult entered = sim_enter(call);
    if (entered) return entered;
    if (!out || depth == STACK_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *c = malloc(sizeof *c);
    CUresult r = c ? context_open(c, device, false, flags) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) stack[depth++] = *out = c;
    return r;
}

#undef cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device);
CUresult CUDAAPI cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return create(__func__, out, flags, device);
}

#if CUDA_VERSION >= 13000
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *parameters, unsigned int flags, CUdevice device)
{
    (void)parameters;
    return create(__func__, out, flags, device);
}
#endif

CUresult CUDAAPI cuCtxDestroy(CUcontext c)
{
    ENTER_ANY();
    if (!context_live(c) || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == c) depth--;
    /* The struct stays: other threads may have it on their stacks. */
    context_close(c);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *out)
{
    ENTER_ANY();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = depth ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext c)
{
    ENTER_ANY();
    if (c && !context_live(c)) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth) depth--;
    if (c) stack[depth++] = c;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext c)
{
    ENTER_ANY();
    bool waits = c >= primary && c < primary + SIM_DEVICES_MAX && c->reset;   /* its handle stays one */
    if (!context_live(c) && !waits) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == STACK_MAX) return CUDA_ERROR_INVALID_VALUE;
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out)
{
    ENTER_ANY();
    if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out) *out = stack[depth];
    return CUDA_SUCCESS;
}

/* Answers of a failed context, too. */
CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
    ENTER_ANY();
    CUcontext ctx = context_current();
    if (!ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    *device = ctx->device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags)
{
    ENTER();
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext c, unsigned int *version)
{
    ENTER_ANY();
    if (!version || (c ? !context_live(c) : !context_current())) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
    ENTER();
    sim_counts.syncs++;
    return context_run(ctx);
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    ENTER();
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (!context_live(peer) || peer == ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (peer->device == ctx->device) return CUDA_ERROR_INVALID_DEVICE;
    if (!sim_number("SIMGPU_PEERS", 1)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (ctx->peer[peer->device]) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    ctx->peer[peer->device] = true;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer)
{
    ENTER();
    if (!context_live(peer)) return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx->peer[peer->device]) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context_run(ctx);
    memory_close();
    ctx->peer[peer->device] = false;
    return CUDA_SUCCESS;
}
