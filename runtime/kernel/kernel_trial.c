/* kernel_trial.c: kernels with trial knobs, for tune and benchmarks. Each replaces the production module in turn. */
#include "kernel_internal.h"
#include "base/thread.h"

bool kernel_ready(struct kernel *k, struct device *d)
{
    struct module *m = module_of(kernel_code(k), d);
    return m && module_request(m) == STAGE_READY;
}

bool kernel_ready_at_first(struct kernel *k, struct device *d)
{
    const struct module *shared = module_of(&kernel_typed_copy, d);
    if (!shared || module_stage(shared) == STAGE_FAILED) return kernel_ready(k, d);
    return kernel_ready(kernel_special_first(k) ? k : &kernel_typed_copy, d);
}

void kernel_wait_for(struct kernel *k, int64_t bytes)
{
    kernel_wait(kernel_special_for(k, bytes) ? k : &kernel_typed_copy);
}

static enum stage wait_for(struct kernel *k, struct module *m)
{
    module_request(m);
    kernel_await(k);
    return module_stage(m);
}

int kernel_try(struct kernel *k, struct device *d, const char *const knobs[2])
{
    struct kernel *code = kernel_code(k);
    struct module *own = module_own(code, d), *m = own;
    if (!own) return -1;
    atomic_store(&own->override, NULL);
    if (knobs) m = code->form ? module_trial(code, d, knobs) : NULL;
    if (!m || wait_for(code, m) != STAGE_READY) return -1;
    if (knobs) atomic_store_explicit(&own->override, m, memory_order_release);
    return 0;
}

int kernel_candidates(const struct kernel *k, const struct device *d, enum kernel_direction direction, char ***list,
                      struct reason *why)
{
    char target[GEN_TARGET_MAX];
    struct gen *gen = k->form ? gen_open(why) : NULL;
    *list = NULL;
    if (!k->form) return 0;
    gen_gpu_target(&d->gpu, target);
    int n = gen ? gen_knob_list(gen, k->form, target, (enum gen_direction)direction, list, why) : -1;
    gen_close(gen);
    return n;
}

/*
 * Making modules in advance. NVRTC compiles in several threads at once from version 12 on.
 */

#define THREADS_MAX 64

struct ahead {
    const struct kernel_trial *trials;
    int n;
    const struct gen_gpu *gpu;
    atomic_int next;
};

static void *prepare(void *arg)
{
    struct ahead *a = arg;
    struct gen *gen = NULL;
    for (int i; (i = atomic_fetch_add(&a->next, 1)) < a->n;) {
        const struct kernel *code = kernel_code(a->trials[i].kernel);
        if (code->form) module_prepare(&gen, code->form, a->trials[i].knobs, a->gpu);
    }
    gen_close(gen);
    return NULL;
}

void kernel_prepare(const struct kernel_trial *trials, int n, const struct device *d, int threads)
{
    struct ahead a = {trials, n, &d->gpu, 0};
    pthread_t thread[THREADS_MAX];
    int started = 0;
    if (threads > THREADS_MAX) threads = THREADS_MAX;
    if (threads > n) threads = n;
    while (started < threads && !thread_start(&thread[started], COMPILER_STACK, prepare, &a)) started++;
    if (!started) prepare(&a);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}
