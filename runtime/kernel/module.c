/* module.c: the modules of each kernel, one per device and target. */
#include "../../gen/form.h"
#include "device/device_internal.h"
#include "kernel_internal.h"
#include <stdlib.h>
#include <string.h>

static struct module *module_find(struct kernel *k, const struct code_target *target, struct device *d)
{
    struct module *m = atomic_load_explicit(&k->modules, memory_order_acquire);
    while (m && (m->device != d || m->trial || m->target != target)) m = m->next;
    return m;
}

/* Adds m to k's modules. The caller holds kernel_lock. */
static void module_add(struct module *m, struct kernel *k, const struct code_target *target, struct device *d)
{
    m->kernel = k;
    m->target = target;
    m->device = d;
    m->next = atomic_load(&k->modules);
    atomic_store_explicit(&k->modules, m, memory_order_release);
}

static struct module *module_get(struct kernel *k, const struct code_target *target, struct device *d)
{
    struct module *m = module_find(k, target, d);
    if (m) return m;
    pthread_mutex_lock(&kernel_lock);
    m = module_find(k, target, d);
    if (!m && (m = calloc(1, sizeof *m))) module_add(m, k, target, d);
    pthread_mutex_unlock(&kernel_lock);
    return m;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static struct module *trial_find(struct kernel *k, struct device *d, const char *const knobs[2])
{
    struct module *m = atomic_load(&k->modules);
    while (m && !(m->trial && m->device == d && same_text(m->knobs[0], knobs[0]) && same_text(m->knobs[1], knobs[1])))
        m = m->next;
    return m;
}

static struct module *trial_new(const char *const knobs[2])
{
    struct module *m = calloc(1, sizeof *m);
    for (int i = 0; m && i < 2; i++) {
        m->trial = true;
        m->knobs[i] = knobs[i] ? strdup(knobs[i]) : NULL;
    }
    return m;
}

struct module *module_trial(struct kernel *k, struct device *d, const char *const knobs[2])
{
    pthread_mutex_lock(&kernel_lock);
    struct module *m = trial_find(k, d, knobs);
    if (!m && (m = trial_new(knobs))) module_add(m, k, &cuda_target, d);
    pthread_mutex_unlock(&kernel_lock);
    return m;
}

struct module *module_own(struct kernel *k, struct device *d)
{
    return module_get(k, &cuda_target, d);
}

struct module *module_for_target(struct kernel *k, const struct code_target *target)
{
    return module_get(k, target, NULL);
}

struct module *module_of(struct kernel *k, struct device *d)
{
    struct module *m = module_own(k, d), *trial = m ? atomic_load_explicit(&m->override, memory_order_acquire) : NULL;
    return trial ? trial : m;
}

enum stage module_request(struct module *m)
{
    enum stage stage = module_stage(m);
    if (stage != STAGE_NONE) return stage;
    pthread_mutex_lock(&kernel_lock);
    if (module_stage(m) == STAGE_NONE) {
        if (m->kernel->family == GEN_CONTIGUOUS && m->device) atomic_store(&m->kernel->origin, ORIGIN_PENDING);
        compile_queue_push(m);
    }
    stage = module_stage(m);
    pthread_mutex_unlock(&kernel_lock);
    return stage;
}

/*
 * Data of a type on the device: the interpreter's program, or lists
 */

/* Uploads the bytes. Waits: the next user may be on another stream. This happens once a module. */
static struct pool_buffer *upload(struct device *d, const void *data, size_t bytes)
{
    struct stream *s = data ? stream_get(d) : NULL;
    struct pool_buffer *b = s ? mempool_get(d, BUFFER_LASTING, bytes) : NULL;
    bool ok = b && driver_get()->cuMemcpyHtoDAsync(b->address, data, bytes, stream_use(s)) == CUDA_SUCCESS;
    if (s && (stream_wait(d, s) || !ok)) {
        mempool_put(b);
        b = NULL;
    }
    stream_put(d, s);
    return b;
}

static struct pool_buffer *upload_program(struct kernel *k, struct device *d)
{
    struct reason why;
    size_t words = 0;
    int64_t *program = tree_program(k->tree, &words, &why);
    struct pool_buffer *b = upload(d, program, words * sizeof *program);
    free(program);
    return b;
}

#define LISTS_PINNED ((size_t)64 << 10)   /* bytes: shorter ones the driver copies as soon */
/* Long lists are written where the device reads them: new pages, and the driver's copy, take longer than writing. */
static struct pool_buffer *upload_lists(struct kernel *k, struct device *d)
{
    struct reason why;
    size_t bytes = k->form->list_bytes;
    struct pool_buffer *pinned = bytes >= LISTS_PINNED ? mempool_get(d, BUFFER_PINNED, bytes) : NULL, *b;
    if (pinned) form_lists_write(k->form, pinned->host);
    void *lists = pinned ? NULL : form_lists(k->form, &bytes, &why);
    b = upload(d, pinned ? pinned->host : lists, bytes);
    mempool_put(pinned);
    free(lists);
    return b;
}

/* Returns the device address of the data that `make` uploads at the first call; 0 on failure. Threads that share a
 * type's first use may each upload it: no thread waits for another type's lists. */
static uint64_t address_of(struct module *m, _Atomic(struct pool_buffer *) *slot,
                           struct pool_buffer *(*make)(struct kernel *, struct device *))
{
    struct pool_buffer *b = atomic_load_explicit(slot, memory_order_acquire), *none = NULL;
    if (b) return b->address;
    b = make(m->kernel, m->device);
    if (b && !atomic_compare_exchange_strong(slot, &none, b)) {
        mempool_put(b);
        b = none;
    }
    return b ? b->address : 0;
}

uint64_t module_lists(struct module *m)
{
    return address_of(m, &m->lists, upload_lists);
}

uint64_t module_program(struct module *m)
{
    return address_of(m, &m->program, upload_program);
}

void modules_free(struct kernel *k)
{
    struct module *m = atomic_exchange(&k->modules, NULL), *next;
    for (; m; m = next) {
        next = m->next;
        m->target->unload(m);
        mempool_put(atomic_load(&m->program));
        mempool_put(atomic_load(&m->lists));
        free(m->knobs[0]);
        free(m->knobs[1]);
        free(m);
    }
}

static void list_add(struct pool_buffer **list, struct pool_buffer *b)
{
    if (b) b->next = *list, *list = b;
}

void modules_forget_lists(struct kernel *k, struct pool_buffer **list)
{
    for (struct module *m = atomic_load(&k->modules); m; m = m->next) {
        list_add(list, atomic_exchange(&m->program, NULL));
        list_add(list, atomic_exchange(&m->lists, NULL));
    }
}

bool modules_loaded(const struct kernel *k)
{
    for (const struct module *m = atomic_load(&k->modules); m; m = m->next)
        if (module_stage(m) == STAGE_READY) return true;
    return false;
}

bool modules_pending(const struct kernel *k)
{
    for (struct module *m = atomic_load(&k->modules); m; m = m->next)
        if (module_stage(m) == STAGE_PENDING) return true;
    return false;
}
