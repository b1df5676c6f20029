/* host_code.c: makes code in this process from a form: ahead of time, from the disk cache, or compiled. Runs in the
 * worker.
 *
 * Loads only checked bytes: they go into a memory file that nobody else can change, and the loader opens that file. */
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "host_compiler.h"
#include "host_pack_internal.h"
#include "kernel/cores.h"
#include "kernel/dump.h"
#include "kernel/module_cache.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAILURES_MAX 3

/* Sets a new file name: the loader compares names, and fd numbers repeat. Slashes encode the bits of a counter. */
static void unique_name(char *name, size_t room, int fd)
{
    static atomic_uint made;
    unsigned bits = atomic_fetch_add(&made, 1);
    int at = snprintf(name, room, "/proc/self/fd");
    for (int i = 0; i < 32; i++) at += snprintf(name + at, room - (size_t)at, bits >> i & 1 ? "/." : "//.");
    snprintf(name + at, room - (size_t)at, "/%d", fd);
}

static void *open_image(const void *image, size_t bytes, const char **error)
{
    char name[256];
    void *library = NULL;
    int fd = file_above_stdio(memfd_create("stridec", MFD_CLOEXEC));
    if (fd >= 0 && file_put(fd, image, bytes)) {
        unique_name(name, sizeof name, fd);
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library) *error = dlerror();
    } else {
        *error = "no file in memory";
    }
    if (fd >= 0) close(fd);
    return library;
}

static bool find_entries(struct module *m, void *library)
{
    static const char *const names[] = GEN_HOST_ENTRIES;
    for (int i = 0; i < GEN_HOST_WAYS; i++)
        if (!(*(void **)&m->host[i] = dlsym(library, names[i]))) return false;
    m->library = library;
    return true;
}

struct load {
    struct gen **gen;
    struct module *module;
    const char *signature;   /* of the form */
    char *key;
    void *image;
    size_t bytes;
};

/* Loads the image and frees it. `origin` is as kernel_state has it. */
static bool use_image(struct load *l, const char *origin)
{
    const char *words = !strcmp(origin, "aot") ? "made ahead of time" : !strcmp(origin, "cache") ? "cached" : origin;
    const char *error = "it has no entries";
    void *library = open_image(l->image, l->bytes, &error);
    bool good = library && find_entries(l->module, library);
    if (library && !good) dlclose(library);
    if (good) l->module->origin = origin;
    if (good)
        log_write(LOG_DEBUG, "%s in host memory: %s, %zu bytes", l->signature, words, l->bytes);
    else
        log_once(LOG_WARN, "native", "code for %s in host memory (%s) can't be loaded: %s", l->signature, words,
                 error);
    free(l->image);
    l->image = NULL;
    return good;
}

static bool from_aot(struct load *l)
{
    return aot_load(l->signature, host_compiler_machine(), &l->image, &l->bytes) == 0 &&
           use_image(l, "aot");
}

static bool from_cache(struct load *l)
{
    if (module_cache_load(l->key, &l->image, &l->bytes) != 0) return false;
    if (use_image(l, "cache")) return true;
    module_cache_remove(l->key);
    return false;
}

static bool from_source(struct load *l)
{
    static int failures;   /* in sequence: a compiler that always fails is not tried forever */
    struct gen_kernel code;
    struct reason why = {""};
    if (failures >= FAILURES_MAX) return false;
    if ((!*l->gen && !(*l->gen = gen_open(&why))) ||
        gen_kernel_form(*l->gen, l->module->kernel->form, "host", NULL, &code, &why) != 0) {
        log_once(LOG_WARN, "native source", "no code was generated for %s: %s", l->signature, why.text);
        return false;
    }
    dump_source(l->signature, true, code.source, code.why);
    int turn = cores_compile_lock(compile_queue_stopped),
        failed = host_compiler_compile(code.source, CC_LIBRARY, compile_queue_stopped, &l->image, &l->bytes, &why);
    cores_compile_unlock(turn);
    gen_kernel_free(&code);
    if (failed && compile_queue_stopped()) return false;
    if (failed) {
        failures++;
        log_once(LOG_WARN, "native compile", "code for data in host memory can't be compiled: %s", why.text);
        return false;
    }
    failures = 0;
    module_cache_store(l->key, l->image, l->bytes);
    return use_image(l, "compiled");
}

/* Gets code from the cache or compiles it. Of several ranks, one compiles and the others read the cache. */
static bool compiled(struct load *l)
{
    struct reason why;
    if (!host_compiler_path(&why)) {
        log_once(env_get()->cc ? LOG_WARN : LOG_INFO, "no cc",
                 "data in host memory is packed without code of its own: %s", why.text);
        return false;
    }
    if (asprintf(&l->key, "%s %s %s cc-%s", host_compiler_machine(), gen_version(), l->signature,
                 host_compiler_identity()) < 0) {
        l->key = NULL;
        return false;
    }
    if (from_cache(l)) return true;
    int lock = module_cache_lock(l->key, compile_queue_stopped);
    bool done = (lock >= 0 && from_cache(l)) || (!compile_queue_stopped() && from_source(l));
    module_cache_unlock(lock, l->key);
    return done;
}

static enum stage host_pack_load(struct gen **gen, struct module *m)
{
    struct load l = {.gen = gen, .module = m, .signature = m->kernel->form ? form_signature(m->kernel->form) : NULL};
    if (!l.signature || m->kernel->family == GEN_GENERIC) return STAGE_FAILED;
    bool done = from_aot(&l) || compiled(&l);
    free(l.key);
    return done ? STAGE_READY : STAGE_FAILED;
}

static void host_pack_unload(struct module *m)
{
    if (m->library) dlclose(m->library);
    m->library = NULL;
}

const struct code_target host_target = {.load = host_pack_load, .unload = host_pack_unload};
