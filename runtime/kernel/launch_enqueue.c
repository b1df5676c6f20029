/* launch_enqueue.c: enqueues one kernel of a module. */
#include "base/env.h"
#include "base/log.h"
#include "kernel_internal.h"

#define FLAGGED_BLOCKS 128   /* the most of a launch that ends soon */

int64_t launch_limit(int64_t blocks)
{
    int64_t limit = env_get()->sm_limit;
    return limit && blocks > limit ? limit : blocks;
}

void launch_flag(struct device *d, struct stream *s, int64_t blocks, uint64_t *done, uint64_t *ticket, uint64_t *ended)
{
    if (blocks <= FLAGGED_BLOCKS) *done = stream_flag(d, s, ended), *ticket = STREAM_DONE;
}

int launch_enqueue(const struct launch *l, struct stream *s, int *launches)
{
    struct module *m = l->module;
    void *arguments[] = {l->argument};
    CUDA_KERNEL_NODE_PARAMS p = {
        .func = m->entry[l->direction][l->entry],
        .gridDimX = (unsigned)l->blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = (unsigned)(l->entry == ENTRY_FLAGGED ? m->plan.marked.threads : m->plan.way[l->direction].threads),
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = arguments,
    };
    CUresult r = CUDA_SUCCESS;
    if (!launch_graph(m, l, &p, s))
        r = driver_get()->cuLaunchKernel(p.func, p.gridDimX, 1, 1, p.blockDimX, 1, 1, 0, stream_use(s), arguments,
                                         NULL);
    ++*launches;
    if (r == CUDA_SUCCESS && l->flagged) stream_flagged(s);
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r))
        log_write(LOG_ERROR, "the kernel of %s was refused by device %d: %s", m->kernel->signature, m->device->ordinal,
                  driver_error(r));
    return -1;
}
