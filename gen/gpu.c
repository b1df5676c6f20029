/* gpu.c: see gpu.h. */
#include "gpu.h"
#include <stdio.h>

const struct gen_gpu *gen_gpu_row(int sm)
{
    const struct gen_gpu *found = gen_gpu_rows;
    for (int i = 0; i < gen_gpu_row_count; i++)
        if (gen_gpu_rows[i].sm <= sm) found = &gen_gpu_rows[i];
    return found;
}

struct gen_gpu gen_gpu_of(int sm, int multiprocessors, int threads, int cache, int memory)
{
    struct gen_gpu gpu = *gen_gpu_row(sm);
    gpu.sm = sm;
    if (multiprocessors > 0) gpu.multiprocessors = multiprocessors;
    if (threads > 0) gpu.threads = threads;
    if (cache > 0) gpu.cache = cache;
    if (memory > 0) gpu.memory = memory;
    return gpu;
}

void gen_gpu_target(const struct gen_gpu *gpu, char target[GEN_TARGET_MAX])
{
    snprintf(target, GEN_TARGET_MAX, "cuda sm_%d multiprocessors=%d threads=%d cache=%d memory=%d", gpu->sm,
             gpu->multiprocessors, gpu->threads, gpu->cache, gpu->memory);
}

void gen_arch_target(int sm, char target[GEN_TARGET_MAX])
{
    snprintf(target, GEN_TARGET_MAX, "cuda sm_%d", sm);
}
