/* load.c: from a kernel and a device to a loaded module: made ahead of time, cached on disk, or compiled. */
#include "cache.h"
#include "compile.h"
#include "dump.h"
#include "kernel_inner.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    struct gen *gen;
    struct module *module;
    struct gen_kernel code;
    char arch[16];   /* the device's: "sm_90" */
    char target[16]; /* what NVRTC compiles for: an older one than arch if it does not know arch */
    bool ptx;        /* the target's PTX, which the driver compiles for arch */
    char *key;       /* in the disk cache; NULL until known */
    int lock;        /* on key; -1: none */
    void *image;
    size_t bytes;
};

static bool from_aot(struct build *b)
{
    return aot_load(b->module->kernel->signature, b->arch, &b->image, &b->bytes) == 0;
}

static bool choose_target(struct build *b)
{
    int n, best = 0, arch = b->module->device->arch;
    const int *archs = compile_archs(&n);
    for (int i = 0; i < n; i++)
        if (archs[i] <= arch && archs[i] > best) best = archs[i];
    b->ptx = best != arch;
    snprintf(b->target, sizeof b->target, "sm_%d", best);
    if (archs && !best)
        log_once(LOG_WARN, "old device", "NVRTC does not compile for %s: device %d uses copies instead of kernels",
                 b->arch, b->module->device->ordinal);
    return best != 0;
}

static bool from_cache(struct build *b)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct reason why;
    const struct nvrtc *n = nvrtc_get(&why);
    if (!n) {
        log_once(LOG_WARN, "no nvrtc", "kernels can't be compiled, copies serve instead: %s", why.text);
        return false;
    }
    pthread_once(&once, worker_guard_exit);
    if (!choose_target(b)) return false;
    char arch[24];
    snprintf(arch, sizeof arch, "%s%s", b->target, b->ptx ? "-ptx" : "");
    b->key = cache_key(b->module->kernel->signature, arch, n->major, n->minor);
    return b->key && cache_load(b->key, &b->image, &b->bytes) == 0;
}

/* The interpreter serves while special kernels compile: it comes before the first of them. */
static void interpreter_first(struct build *b)
{
    struct module *m = module_of(&kernel_interpreter, b->module->device);
    if (!m || b->module->kernel == &kernel_interpreter || module_stage(m) == STAGE_READY) return;
    /* Only the worker moves modules out of these stages, so that m stays as it is; it may be queued besides,
     * and is found ready when its turn comes. */
    if (module_stage(m) == STAGE_FAILED) return;
    enum stage stage = module_load(b->gen, m);
    if (stage == STAGE_FAILED) kernel_count(&kernel_interpreter, ORIGIN_FAILED);
    pthread_mutex_lock(&kernel_lock);
    atomic_store_explicit(&m->stage, stage, memory_order_release);
    pthread_cond_broadcast(&kernel_changed);
    pthread_mutex_unlock(&kernel_lock);
}

/* Ranks of a node mostly want the same module at the same time: one compiles, the others wait and read. */
static bool from_neighbour(struct build *b)
{
    if (!b->key) return false;
    interpreter_first(b);
    b->lock = cache_lock(b->key);
    return b->lock >= 0 && cache_load(b->key, &b->image, &b->bytes) == 0;
}

static bool from_source(struct build *b)
{
    struct reason why;
    if (!b->key) return false;
    if (compile(b->code.source, "stridec.cu", b->target, b->ptx, &b->image, &b->bytes, &why) == 0) return true;
    log_once(LOG_WARN, "compile", "%s was not compiled, other ways serve instead: %s", b->module->kernel->signature,
             why.text);
    return false;
}

static CUresult find_entries(struct module *m, CUmodule handle)
{
    static const char *const directions[] = {"pack", "unpack"}; /* ORDER kernel_direction */
    CUresult r = CUDA_SUCCESS;
    char name[64];
    for (int i = 0; i < 2 * m->plan.nwords && r == CUDA_SUCCESS; i++) {
        int direction = i / m->plan.nwords, word = i % m->plan.nwords;
        snprintf(name, sizeof name, "stridec_%s_w%d", directions[direction], m->plan.words[word]);
        r = driver_get()->cuModuleGetFunction(&m->entry[direction][word], handle, name);
    }
    return r;
}

static bool load_image(struct build *b, enum origin o)
{
    struct module *m = b->module;
    CUmodule handle;
    m->plan = b->code.plan;
    CUresult r = driver_get()->cuModuleLoadData(&handle, b->image);
    if (r == CUDA_SUCCESS) {
        r = find_entries(m, handle);
        if (r == CUDA_SUCCESS)
            m->handle = handle;
        else
            driver_get()->cuModuleUnload(handle);
    }
    if (r == CUDA_SUCCESS) return true;
    log_once(LOG_WARN, "load", "the driver refuses the module of %s (%s): %s", m->kernel->signature,
             o == ORIGIN_COMPILED ? "compiled"
             : o == ORIGIN_CACHE  ? "cached"
                                  : "made ahead of time",
             driver_error(r));
    if (o == ORIGIN_CACHE) cache_remove(b->key);
    return false;
}

/* In the order in which they are tried: the cheaper ones first. */
static const struct {
    bool (*get)(struct build *b);
    enum origin origin;
} sources[] = {
    {from_aot, ORIGIN_AOT},
    {from_cache, ORIGIN_CACHE},
    {from_neighbour, ORIGIN_CACHE},
    {from_source, ORIGIN_COMPILED},
};

static void finish(struct build *b, enum origin o)
{
    struct kernel *k = b->module->kernel;
    if (o == ORIGIN_COMPILED) cache_store(b->key, b->image, b->bytes);
    kernel_count(k, o);
    log_write(LOG_DEBUG, "%s for %s: %zu bytes", k->signature, b->arch, b->bytes);
    dump_image(k->signature, b->arch, b->ptx, b->image, b->bytes);
}

static enum stage obtain(struct build *b)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!sources[i].get(b)) continue;
        bool loaded = load_image(b, sources[i].origin);
        if (loaded) finish(b, sources[i].origin);
        free(b->image);
        b->image = NULL;
        if (loaded) return STAGE_READY;
    }
    return STAGE_FAILED;
}

enum stage module_load(struct gen *gen, struct module *m)
{
    struct build b = {.gen = gen, .module = m, .lock = -1};
    struct reason why;
    const char *signature = m->kernel->signature;
    if (module_stage(m) == STAGE_READY) return STAGE_READY;
    int error = m->kernel->form ? gen_kernel_form(gen, m->kernel->form, "cuda", &b.code, &why)
                                : gen_generic(gen, "cuda", &b.code, &why);
    if (error) {
        log_once(LOG_WARN, "generate", "no kernel was generated for %s: %s", signature, why.text);
        return STAGE_FAILED;
    }
    snprintf(b.arch, sizeof b.arch, "sm_%d", m->device->arch);
    dump_source(signature, b.code.source, b.code.why);
    enum stage stage = obtain(&b);
    cache_unlock(b.lock, b.key);
    free(b.key);
    gen_kernel_free(&b.code);
    return stage;
}
