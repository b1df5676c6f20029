/* hostfunc.c: functions of the host in a stream's order. Each runs in a thread of its own, beside all other streams. */
#include "sim.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct host_op {
    struct op op;
    CUhostFn function;
    void *data;
    pthread_t thread;
    bool started;
    atomic_bool done;
};

static void *call(void *arg)
{
    struct host_op *o = arg;
    o->function(o->data);
    atomic_store(&o->done, true);
    return NULL;
}

static void join(struct op *op)
{
    struct host_op *o = (struct host_op *)op;
    if (o->started) pthread_join(o->thread, NULL);
    o->started = false;
}

static CUresult run(struct op *op)
{
    struct host_op *o = (struct host_op *)op;
    if (!o->started) {
        atomic_store(&o->done, false);
        if (pthread_create(&o->thread, NULL, call, o)) return CUDA_ERROR_OUT_OF_MEMORY;
        o->started = true;
    }
    if (!atomic_load(&o->done)) return CUDA_ERROR_NOT_READY;
    join(op);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    ENTER();
    struct CUstream_st *s = stream_find(stream, ctx);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    struct host_op *o = calloc(1, sizeof *o);
    if (!o) return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = run, o->op.drop = join, o->function = function, o->data = data;
    stream_add(s, &o->op);
    return CUDA_SUCCESS;
}
