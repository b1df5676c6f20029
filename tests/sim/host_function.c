/* host_function.c: functions of the program that run when a stream comes to them. As on a device they must not call CUDA,
 * which the lock around them shows: a call in one never returns. */
#include "sim.h"
#include <stdlib.h>

struct host_op {
    struct op op;
    CUhostFn function;
    void *argument;
};

static CUresult run_function(struct op *o)
{
    const struct host_op *h = (struct host_op *)o;
    h->function(h->argument);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *argument)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    struct host_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run_function;
    o->function = function, o->argument = argument;
    stream_add(s, &o->op);
    return CUDA_SUCCESS;
}
