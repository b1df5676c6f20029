/* module_load.c: loads a module for a form, knobs and a device: made ahead of time, cached on disk, or compiled. */
#include "base/env.h"
#include "base/log.h"
#include "cores.h"
#include "device/device_internal.h"
#include "device/gpu_runtime.h"
#include "dump.h"
#include "kernel_internal.h"
#include "kernel_knobs.h"
#include "module_cache.h"
#include "nvrtc_version.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLY_PTX 90   /* from this architecture on kernels wait for those before them (stridec_in_order) */

/* Loads m; its device is entered. */
static enum stage module_load(struct gen **gen, struct module *m);

struct build {
    struct gen **gen;           /* opened at need */
    const char *signature;      /* of the form */
    const struct form *form;    /* NULL: the interpreter */
    struct module *module;      /* NULL: only for the disk cache */
    const char *knobs[2];
    char *knobs_text;
    char *name;                 /* signature and knobs, for dumps */
    struct gen_kernel code;
    const struct gen_gpu *gpu;
    bool whole_gpu;             /* the kernel depends on all properties of the GPU, not on the architecture alone */
    char gpu_text[GEN_TARGET_MAX];   /* of these, the generator's target */
    char arch[16];              /* the device's: "sm_90" */
    char target[16];            /* NVRTC's target: older than arch if NVRTC does not know arch */
    bool ptx;                   /* the target's PTX, which the driver compiles for arch */
    char *key;                  /* in the disk cache; NULL until known */
    int lock;                   /* on key; -1: none */
    void *image;
    size_t bytes;
};

/* Loads a module made ahead of time; those have the model's knobs, for the architecture's row. */
static bool from_aot(struct build *b)
{
    if (b->whole_gpu || *b->knobs_text || aot_load(b->signature, b->arch, &b->image, &b->bytes)) return false;
    if (b->bytes > sizeof b->code.plan) {
        b->bytes -= sizeof b->code.plan;
        memcpy(&b->code.plan, (char *)b->image + b->bytes, sizeof b->code.plan);
        return true;
    }
    free(b->image), b->image = NULL;
    return false;
}

static bool choose_target(struct build *b)
{
    int n;
    const int *archs = gpu_runtime->jit_archs(&n);
    int best = nvrtc_version_target(archs, n, b->gpu->sm);
    b->ptx = best != b->gpu->sm;
    snprintf(b->target, sizeof b->target, "sm_%d", best);
    if (archs && !best)
        log_once(LOG_WARN, "old device", "NVRTC does not compile for %s: such a GPU uses copies instead of kernels",
                 b->arch);
    return best != 0;
}

static bool make_key(struct build *b, int major, int minor)
{
    char arch[80];
    int n = snprintf(arch, sizeof arch, "%s%s", b->target, b->ptx ? "-ptx" : "");
    if (b->whole_gpu)
        snprintf(arch + n, sizeof arch - (size_t)n, ",%dx%d,%d,%d", b->gpu->multiprocessors, b->gpu->threads,
                 b->gpu->cache, b->gpu->memory);
    free(b->key);
    b->key = module_cache_key(b->signature, b->knobs_text, arch, major, minor);
    return b->key != NULL;
}

static bool find_key(struct build *b)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct reason why;
    int major, minor;
    free(b->key), b->key = NULL;   /* drop a guessed key */
    if (!gpu_runtime->jit_version(&major, &minor, &why)) {
        log_once(LOG_WARN, "no nvrtc", "kernels can't be compiled, copies serve instead: %s", why.text);
        return false;
    }
    pthread_once(&once, compile_queue_guard_exit);
    return choose_target(b) && make_key(b, major, minor);
}

/* Loads a cached module: the plan as it lies in memory (the key has the generator's version), then the image. */
static bool load_cached(struct build *b)
{
    void *data;
    size_t bytes;
    if (module_cache_load(b->key, &data, &bytes)) return false;
    if (bytes <= sizeof b->code.plan) {
        module_cache_remove(b->key);
        free(data);
        return false;
    }
    memcpy(&b->code.plan, data, sizeof b->code.plan);
    b->bytes = bytes - sizeof b->code.plan;
    memmove(data, (char *)data + sizeof b->code.plan, b->bytes + 1);   /* with PTX's terminator */
    b->image = data;
    return true;
}

static void store_cached(const struct build *b)
{
    char *data = malloc(sizeof b->code.plan + b->bytes);
    if (!data) return;
    memcpy(data, &b->code.plan, sizeof b->code.plan);
    memcpy(data + sizeof b->code.plan, b->image, b->bytes);
    module_cache_store(b->key, data, sizeof b->code.plan + b->bytes);
    free(data);
    nvrtc_version_note();
}

static bool from_cache(struct build *b)
{
    if (!find_key(b) || !load_cached(b)) return false;
    nvrtc_version_note();   /* avoids loading NVRTC in the next process */
    return true;
}

/* Returns true if the interpreter serves until the module is ready. */
static bool interpreter_serves(const struct module *m)
{
    const struct kernel *k = m->kernel;
    if (k == &kernel_interpreter || k == &kernel_typed_copy || k->family == GEN_REDUCE) return false;
    const struct module *shared = kernel_is_regular(k) ? module_of(&kernel_typed_copy, m->device) : NULL;
    return !shared || module_stage(shared) != STAGE_READY;
}

/* Loads the interpreter before the first special kernel, because it is used while that compiles. */
static void interpreter_first(struct build *b)
{
    struct module *m = module_of(&kernel_interpreter, b->module->device);
    if (!m || !interpreter_serves(b->module) || module_stage(m) == STAGE_READY) return;
    /* Only the worker changes these stages, so m stays as it is. If m is also queued, it is found ready later. */
    if (module_stage(m) == STAGE_FAILED) return;
    enum stage stage = module_load(b->gen, m);
    if (stage == STAGE_FAILED && compile_queue_stopped()) return;
    if (stage == STAGE_FAILED) kernel_count(&kernel_interpreter, ORIGIN_FAILED);
    pthread_mutex_lock(&kernel_lock);
    atomic_store_explicit(&m->stage, stage, memory_order_release);
    pthread_cond_broadcast(&kernel_changed);
    pthread_mutex_unlock(&kernel_lock);
}

/* Waits for another rank of the node that compiles this module, then reads it from the cache. */
static bool from_other_rank(struct build *b)
{
    if (!b->key) return false;
    if (b->module) interpreter_first(b);
    b->lock = module_cache_lock(b->key, b->module ? compile_queue_stopped : NULL);
    return b->lock >= 0 && load_cached(b);
}

/* Returns true if the worker is to end: driver and tuned table may already be gone. */
static bool given_up(const struct build *b)
{
    return b->module && compile_queue_stopped();
}

static bool from_source(struct build *b)
{
    struct reason why;
    if (!b->key) return false;
    int turn = b->module ? cores_compile_lock(compile_queue_stopped) : -1;
    if (given_up(b)) return cores_compile_unlock(turn), false;
    compile_queue_in_nvrtc(true);
    int failed = gpu_runtime->jit_compile(b->code.source, "stridec.cu", b->target, b->ptx, &b->image, &b->bytes, &why);
    compile_queue_in_nvrtc(false);
    cores_compile_unlock(turn);
    if (!failed) return true;
    log_once(LOG_WARN, "compile", "%s was not compiled, other ways serve instead: %s", b->name, why.text);
    return false;
}

/* Returns true if the driver lets a kernel begin early, and the entry, of that PTX or machine code, waits then. */
static bool begins_early(CUfunction entry)
{
    const struct driver *driver = driver_get();
    int ptx = 0;
    return driver->early_launches &&
           driver->cuFuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, entry) == CUDA_SUCCESS && ptx >= EARLY_PTX;
}

static CUresult find_order(struct module *m, CUmodule handle)
{
    static const int flags[] = {GEN_FLAGS_SOME, GEN_FLAGS_MOST}, exchange[] = {GEN_EXCHANGE_SOME, GEN_EXCHANGE_MOST};
    CUresult r = CUDA_SUCCESS;
    char name[64];
    for (int i = 0; i < 2 && r == CUDA_SUCCESS; i++) {
        snprintf(name, sizeof name, "stridec_flags_%d", flags[i]);
        r = driver_get()->cuModuleGetFunction(&m->order.flags[i], handle, name);
        snprintf(name, sizeof name, "stridec_exchange_%d", exchange[i]);
        if (r == CUDA_SUCCESS) r = driver_get()->cuModuleGetFunction(&m->order.exchange[i], handle, name);
    }
    if (r == CUDA_SUCCESS) m->order.early = begins_early(m->order.exchange[0]);
    return r;
}

static CUresult find_entries(struct module *m, CUmodule handle)
{
    static const char *const directions[] = {"pack_w", "unpack_w"}; /* ORDER kernel_direction */
    CUresult r = CUDA_SUCCESS;
    char name[64];
    const char *one = m->plan.family == GEN_LINK ? "link_" : m->plan.family == GEN_REDUCE ? "reduce_w" : NULL;
    for (int i = 0; i < (one ? 1 : 2) * m->plan.nwords && r == CUDA_SUCCESS; i++) {
        int direction = i / m->plan.nwords, word = i % m->plan.nwords;
        snprintf(name, sizeof name, "stridec_%s%d", one ? one : directions[direction], m->plan.words[word]);
        r = driver_get()->cuModuleGetFunction(&m->entry[direction][word], handle, name);
    }
    if (r == CUDA_SUCCESS && m->kernel == &kernel_typed_copy) r = find_order(m, handle);
    for (int i = 0; i < 2 && m->plan.marked.threads && r == CUDA_SUCCESS; i++) {
        snprintf(name, sizeof name, "stridec_%s_marked", one ? "link" : i == KERNEL_PACK ? "pack" : "unpack");
        r = driver_get()->cuModuleGetFunction(&m->entry[i][ENTRY_FLAGGED], handle, name);
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
    if (!device_alive(m->device) || driver_lost(r)) return false;
    bool installed = o == ORIGIN_AOT && !env_get()->aot;   /* it may be for newer drivers */
    log_once(installed ? LOG_INFO : LOG_WARN, "load", "the driver refuses the module of %s (%s): %s", b->name,
             o == ORIGIN_COMPILED ? "compiled"
             : o == ORIGIN_CACHE  ? "cached"
                                  : "made ahead of time",
             driver_error(r));
    if (o == ORIGIN_CACHE && r != CUDA_ERROR_OUT_OF_MEMORY) module_cache_remove(b->key);
    return false;
}

/* Takes a module made ahead of time where sources are dumped: its own is generated first. Else ready_made has tried. */
static bool dumped_from_aot(struct build *b)
{
    return env_get()->dump && from_aot(b);
}

/* Sources of an image, cheapest first. */
static const struct {
    bool (*get)(struct build *b);
    enum origin origin;
} sources[] = {
    {dumped_from_aot, ORIGIN_AOT},
    {from_cache, ORIGIN_CACHE},
    {from_other_rank, ORIGIN_CACHE},
    {from_source, ORIGIN_COMPILED},
};

static bool keep_knobs(struct module *m, const struct build *b)
{
    for (int i = 0; i < 2 && !m->trial; i++)
        if (b->knobs[i] && !(m->knobs[i] = strdup(b->knobs[i]))) return false;
    return true;
}

static void finish(struct build *b, enum origin o)
{
    struct module *m = b->module;
    if (o == ORIGIN_COMPILED) store_cached(b);
    if (m && !m->trial) kernel_count(m->kernel, o);
    log_write(LOG_DEBUG, "%s for %s: %zu bytes", b->name, b->arch, b->bytes);
    dump_image(b->name, b->arch, b->ptx, b->image, b->bytes);
}

/* Loads the image into the module and frees it. */
static bool use_image(struct build *b, enum origin o)
{
    bool up = given_up(b), done = !up && (!b->module || (load_image(b, o) && keep_knobs(b->module, b)));
    if (done) finish(b, o);
    else if (up && o == ORIGIN_COMPILED) store_cached(b);
    free(b->image);
    b->image = NULL;
    return done;
}

static enum stage obtain(struct build *b)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !given_up(b); i++)
        if (sources[i].get(b) && use_image(b, sources[i].origin)) return STAGE_READY;
    return STAGE_FAILED;
}

/* Loads a cached module. */
static bool from_note(struct build *b)
{
    int target, major, minor;
    if (!nvrtc_version_guess(b->gpu->sm, &target, &major, &minor)) return false;
    b->ptx = target != b->gpu->sm;
    snprintf(b->target, sizeof b->target, "sm_%d", target);
    return make_key(b, major, minor) && load_cached(b) && use_image(b, ORIGIN_CACHE);
}

/* Loads a module without the generator and NVRTC, which take longer than all the rest. */
static bool ready_made(struct build *b)
{
    if (env_get()->dump) return false;
    return (from_aot(b) && use_image(b, ORIGIN_AOT)) || from_note(b);
}

static int generate(struct build *b, const char *const knobs[2], struct gen_kernel *code, struct reason *why)
{
    const struct kernel *k = b->module ? b->module->kernel : NULL;
    if (!*b->gen && !(*b->gen = gen_open(why))) return -1;
    if (k && k->family == GEN_LINK)
        return gen_link(*b->gen, k->from ? k->from->form : NULL, k->to ? k->to->form : NULL, b->gpu_text, code, why);
    if (k && k->family == GEN_REDUCE)
        return gen_reduce(*b->gen, (enum gen_reduce_type)(k - kernel_reduce), b->gpu_text, code, why);
    if (!b->form) return gen_generic(*b->gen, b->gpu_text, code, why);
    return gen_kernel_form(*b->gen, b->form, b->gpu_text, knobs, code, why);
}

/* Makes the module with b->knobs. Sets *why if nothing was generated, else makes it empty. */
static enum stage attempt(struct build *b, struct reason *why)
{
    enum stage stage = STAGE_FAILED;
    why->text[0] = 0;
    b->knobs_text = kernel_knobs_text(b->knobs);
    if (!b->knobs_text ||
        asprintf(&b->name, "%s%s%s", b->signature, *b->knobs_text ? " " : "", b->knobs_text) < 0)
        b->name = NULL;
    if (b->name && ready_made(b)) {
        stage = STAGE_READY;
    } else if (b->name && generate(b, b->knobs, &b->code, why) == 0) {
        dump_source(b->name, false, b->code.source, b->code.why);
        stage = obtain(b);
        module_cache_unlock(b->lock, b->key);
    }
    free(b->key), b->key = NULL, b->lock = -1;
    free(b->name), b->name = NULL;
    free(b->knobs_text), b->knobs_text = NULL;
    gen_kernel_free(&b->code);
    return stage;
}

static enum stage by_model(struct build *b)
{
    struct reason why;
    b->knobs[GEN_PACK] = b->knobs[GEN_UNPACK] = NULL;
    enum stage stage = attempt(b, &why);
    if (*why.text) log_once(LOG_WARN, "generate", "no kernel was generated for %s: %s", b->signature, why.text);
    return stage;
}

/* Drops settings that the generator does not know, and logs where they are written. */
static void drop_bad(struct build *b, const struct knobs k[2])
{
    for (int i = 0; i < 2; i++) {
        struct gen_kernel code = {0};
        struct reason why;
        const char *const only[2] = {i == GEN_PACK ? k[i].text : NULL, i == GEN_UNPACK ? k[i].text : NULL};
        if (!k[i].text || generate(b, only, &code, &why) == 0) {
            gen_kernel_free(&code);
            continue;
        }
        char line[16] = "";
        if (k[i].line) snprintf(line, sizeof line, ":%d", k[i].line);
        log_once(LOG_WARN, "knobs", "%s%s: \"%s\": %s; the model chooses instead", k[i].file, line, k[i].text,
                 why.text);
        b->knobs[i] = NULL;
    }
}

/* Tries a module made ahead of time, then knobs, then the model alone. */
static enum stage by_knobs(struct build *b)
{
    struct reason why;
    struct knobs k[2] = {kernel_knobs_for(b->form, b->module->device, GEN_PACK),
                         kernel_knobs_for(b->form, b->module->device, GEN_UNPACK)};
    b->knobs[GEN_PACK] = k[GEN_PACK].text, b->knobs[GEN_UNPACK] = k[GEN_UNPACK].text;
    if ((!k[GEN_PACK].text && !k[GEN_UNPACK].text) || !b->whole_gpu) return by_model(b);
    enum stage stage = attempt(b, &why);
    if (stage == STAGE_FAILED && given_up(b)) return stage;
    if (stage == STAGE_FAILED && *why.text) {
        drop_bad(b, k);
        stage = b->knobs[GEN_PACK] || b->knobs[GEN_UNPACK] ? attempt(b, &why) : STAGE_FAILED;
    }
    return stage == STAGE_FAILED ? by_model(b) : stage;
}

static struct build build_of(struct gen **gen, const char *signature, const struct form *form,
                             const struct gen_gpu *gpu)
{
    struct build b = {.gen = gen, .signature = signature, .form = form, .gpu = gpu, .lock = -1};
    snprintf(b.arch, sizeof b.arch, "sm_%d", gpu->sm);
    b.whole_gpu = form && !aot_has(signature, b.arch);   /* `stridec gen` knows the architecture alone */
    if (b.whole_gpu) gen_gpu_target(gpu, b.gpu_text);
    else gen_arch_target(gpu->sm, b.gpu_text);
    return b;
}

static enum stage module_load(struct gen **gen, struct module *m)
{
    struct reason why;
    if (module_stage(m) == STAGE_READY) return STAGE_READY;
    struct build b = build_of(gen, m->kernel->signature, m->kernel->form, &m->device->gpu);
    b.module = m;
    if (!b.form) return by_model(&b);
    if (!m->trial) return by_knobs(&b);
    b.knobs[GEN_PACK] = m->knobs[GEN_PACK], b.knobs[GEN_UNPACK] = m->knobs[GEN_UNPACK];
    return attempt(&b, &why);
}

static enum stage cuda_load(struct gen **gen, struct module *m)
{
    if (!device_try_enter(m->device)) return STAGE_FAILED;
    enum stage stage = module_load(gen, m);
    if (!compile_queue_stopped()) device_leave(m->device);   /* else the context may be gone; the thread ends soon */
    return stage;
}

static void cuda_unload(struct module *m)
{
    bool there = m->handle && device_try_enter(m->device);
    launch_graphs_free(m, there);
    if (!there) return;
    driver_get()->cuModuleUnload(m->handle);
    device_leave(m->device);
}

const struct code_target cuda_target = {.load = cuda_load, .unload = cuda_unload};

int module_prepare(struct gen **gen, const struct form *f, const char *const knobs[2], const struct gen_gpu *gpu)
{
    struct reason why;
    struct build b = build_of(gen, form_signature(f), f, gpu);
    b.knobs[GEN_PACK] = knobs[GEN_PACK], b.knobs[GEN_UNPACK] = knobs[GEN_UNPACK];
    return attempt(&b, &why) == STAGE_READY ? 0 : -1;
}
