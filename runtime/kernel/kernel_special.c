/* kernel_special.c: decides when a regular layout gets a kernel of its own.
 *
 * One module moves all regular layouts by numbers (launch_numbers.c). NVRTC 13.0 takes 0.13 to 0.36 s of a core for a
 * layout's own module, which pays only where much is moved at a time: a launch takes as long as 100,000 words. */
#include "base/env.h"
#include "kernel_internal.h"

#define LARGE_MOVES 8

bool kernel_is_regular(const struct kernel *k)
{
    return k->family == GEN_STRIDED || k->family == GEN_CONTIGUOUS;
}

bool kernel_special_first(const struct kernel *k)
{
    const struct env *env = env_get();
    return !kernel_is_regular(k) || !env->special || env->knobs || env->aot;
}

bool kernel_special_for(const struct kernel *k, int64_t bytes)
{
    return kernel_special_first(k) || bytes / k->word >= env_get()->special;
}

bool kernel_special_due(struct kernel *k, int64_t words)
{
    if (kernel_special_first(k)) return true;
    return words >= env_get()->special &&
           atomic_fetch_add_explicit(&k->large_moves, 1, memory_order_relaxed) + 1 >= LARGE_MOVES;
}
