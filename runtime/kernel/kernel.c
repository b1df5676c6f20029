/* kernel.c: the table of kernels by shape signature, and what became of each. */
#include "kernel_internal.h"
#include "device/device_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Unused kernels stay up to this number, and these bytes of trees: committing an equal type again costs nothing. The
 * oldest go first. */
#define UNUSED_MAX 4096
#define UNUSED_BYTES ((int64_t)64 << 20)

pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t kernel_changed = PTHREAD_COND_INITIALIZER;
struct kernel kernel_interpreter = {.signature = "generic", .family = GEN_GENERIC};
struct kernel kernel_typed_copy = {.signature = "links", .family = GEN_LINK, .refs = 1};

static struct kernel *table;
static struct kernel *unused[2];   /* without and with modules; the worker frees the latter: work may read them */
static int unused_count;
static int64_t unused_bytes;
static atomic_ullong outcomes[ORIGINS];

/* ORDER ORIGIN */
static const char *const origin_names[] = {"pending", "compiled", "cache", "aot", "copy", "failed"};

static void kernel_free(struct kernel *k)
{
    modules_free(k);
    struct host_pack *host = atomic_load(&k->host_pack);
    if (host) (*atomic_load(&k->host_pack_free))(host);
    form_free(k->form);
    tree_unref(k->tree);
    free(k->signature);
    free(k);
}

/* Returns a new kernel that owns `signature`. The offset of tree's root is 0. */
static struct kernel *kernel_of_tree(struct tree *tree, char *signature, struct reason *why)
{
    struct kernel *k = calloc(1, sizeof *k);
    struct form *form = k && signature ? form_of(tree, why) : NULL;
    if (!form) {
        if (!k || !signature) snprintf(why->text, sizeof why->text, "out of memory");
        free(k);
        free(signature);
        return NULL;
    }
    *k = (struct kernel){.signature = signature, .tree = tree_ref(tree), .form = form, .family = form_family(form)};
    k->size = tree->size;
    k->tree_bytes = (int64_t)sizeof(int64_t) * tree_numbers(tree, UNUSED_BYTES / (int64_t)sizeof(int64_t));
    k->word = tree_word(tree, 16);
    atomic_init(&k->origin, k->family == GEN_CONTIGUOUS ? ORIGIN_COPY : ORIGIN_PENDING);
    return k;
}

/* Returns the tree shifted to offset 0. */
static struct tree *shape_of(const struct tree *canonical, struct reason *why)
{
    int64_t back;
    if (!__builtin_sub_overflow((int64_t)0, canonical->off, &back)) return tree_shift(canonical, back, why);
    snprintf(why->text, sizeof why->text, "an offset is past 2^63");
    return NULL;
}

/*
 * The table.
 */

bool kernel_add(struct kernel *k, struct reason *why)
{
    HASH_ADD_KEYPTR(hh, table, k->signature, strlen(k->signature), k);
    if (k->hh.tbl) {
        k->refs = 1;
        return true;
    }
    snprintf(why->text, sizeof why->text, "out of memory");
    kernel_free(k);
    return false;
}

static void unused_remove(struct kernel *k)
{
    DL_DELETE(unused[k->loaded], k);
    unused_count--, unused_bytes -= k->tree_bytes;
}

static void unused_add(struct kernel *k)
{
    k->loaded = modules_loaded(k);
    DL_APPEND(unused[k->loaded], k);
    unused_count++, unused_bytes += k->tree_bytes;
}

struct kernel *kernel_find(const char *signature)
{
    struct kernel *k;
    HASH_FIND_STR(table, signature, k);
    if (k && k->refs++ == 0) {
        unused_remove(k);
        if (k->code) k->code->served++;
    }
    return k;
}

/* Sets k->code to the kernel of k's form signature. Creates that kernel, with k's tree, at the first use. */
static bool add_code(struct kernel *k, struct reason *why)
{
    if (k->family == GEN_GENERIC) k->code = &kernel_interpreter;
    if (k->code || !strcmp(form_signature(k->form), k->signature)) return true;
    struct kernel *code = kernel_find(form_signature(k->form));
    if (!code) {
        code = kernel_of_tree(k->tree, strdup(form_signature(k->form)), why);
        if (!code || !kernel_add(code, why)) return false;
    }
    k->code = code;
    code->served++;
    return true;
}

/* Returns the kernel of a key that is of this shape, with a reference; NULL if there is none. Another shape with the
 * same hash makes the key longer; NULL also without memory for that, and then *key is NULL. */
static struct kernel *find_shape(char **key, const struct tree *shape, struct reason *why)
{
    for (;;) {
        pthread_mutex_lock(&kernel_lock);
        struct kernel *k = kernel_find(*key);
        pthread_mutex_unlock(&kernel_lock);
        if (!k || tree_equal(k->tree, shape)) return k;
        kernel_put(k);
        char *longer = NULL;
        if (asprintf(&longer, "%s'", *key) < 0) longer = NULL, snprintf(why->text, sizeof why->text, "out of memory");
        free(*key);
        if (!(*key = longer)) return NULL;
    }
}

/* Adds a new kernel, or returns that which another thread has added. */
static struct kernel *insert(struct kernel *k, struct reason *why)
{
    struct kernel *other = kernel_find(k->signature);
    if (other && tree_equal(other->tree, k->tree)) {
        kernel_free(k);
        return other;
    }
    if (other) kernel_unref(other);
    if (!add_code(k, why)) {
        kernel_free(k);
        return NULL;
    }
    struct kernel *code = k->code;
    if (kernel_add(k, why)) return k;
    if (code) kernel_unref(code);
    return NULL;
}

/* Makes a kernel without the lock: a long list takes milliseconds. */
static struct kernel *find_or_insert(struct tree *shape, struct reason *why)
{
    char *key = tree_key(shape, why);
    struct kernel *k = key ? find_shape(&key, shape, why) : NULL;
    if (k || !key) {
        free(key);
        return k;
    }
    k = kernel_of_tree(shape, key, why);
    if (!k) return NULL;
    pthread_mutex_lock(&kernel_lock);
    k = insert(k, why);
    pthread_mutex_unlock(&kernel_lock);
    return k;
}

/* Removes an unused kernel from the table and releases the kernels that it refers to. */
static void table_remove(struct kernel *k)
{
    unused_remove(k);
    HASH_DEL(table, k);
    struct kernel *held[] = {k->code, k->from, k->to};
    for (int i = 0; i < 3; i++)
        if (held[i]) kernel_unref(held[i]);
    k->code = k->from = k->to = NULL;
}

static bool too_many_unused(void)
{
    return unused_count > UNUSED_MAX || unused_bytes > UNUSED_BYTES;
}

void kernel_trim(bool loaded_too)
{
    struct kernel *k;
    while (too_many_unused()) {
        k = unused[0] ? unused[0] : loaded_too ? unused[1] : NULL;
        if (!k) return;
        table_remove(k);
        pthread_mutex_unlock(&kernel_lock);
        kernel_free(k);
        pthread_mutex_lock(&kernel_lock);
    }
}

/* Cancels requests that no type needs: an application may commit and free types faster than they are compiled. */
static void forget_requests(struct kernel *k)
{
    if (!k->code) compile_queue_forget(k);
    else if (--k->code->served == 0 && k->code != &kernel_interpreter) compile_queue_forget(k->code);
}

static struct pool_buffer *forgotten;   /* lists of kernels that no type uses; guarded by kernel_lock */

static void put_all(struct pool_buffer *lists)
{
    for (struct pool_buffer *b; (b = lists); mempool_put(b)) lists = b->next;
}

static struct pool_buffer *take_forgotten(void)
{
    struct pool_buffer *lists = forgotten;
    forgotten = NULL;
    return lists;
}

void kernel_unref(struct kernel *k)
{
    if (k == &kernel_interpreter || --k->refs) return;
    modules_forget_lists(k, &forgotten);
    forget_requests(k);
    unused_add(k);
}

void kernel_put(struct kernel *k)
{
    if (!k) return;
    pthread_mutex_lock(&kernel_lock);
    kernel_unref(k);
    kernel_trim(false);
    if (too_many_unused()) compile_queue_wake();
    struct pool_buffer *lists = take_forgotten();
    pthread_mutex_unlock(&kernel_lock);
    put_all(lists);
}

/* Returns the devices in use. Before the first use: the device of the current context. */
static struct device *devices_likely(void)
{
    const struct driver *driver = driver_get();
    CUcontext current = NULL;
    if (!device_first() && driver && driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current) device_default();
    return device_first();
}

void kernel_warm_up(void)
{
    static atomic_bool done;
    if (atomic_load_explicit(&done, memory_order_relaxed) || !devices_likely()) return;
    pthread_mutex_lock(&kernel_lock);
    if (!atomic_exchange(&done, true)) compile_queue_prestart();
    pthread_mutex_unlock(&kernel_lock);
}

struct kernel *kernel_get(const struct tree *canonical, struct reason *why)
{
    struct tree *shape = shape_of(canonical, why);
    struct device *devices = devices_likely();
    struct kernel *k = shape ? find_or_insert(shape, why) : NULL;
    tree_unref(shape);
    /* A contiguous shape needs a module only when it is moved with gaps between its elements. The interpreter comes
     * first for lists, whose first use would take too many copies; then the module for messages, which serves any
     * layout until its own module is made. */
    for (struct device *d = devices; k && k->family != GEN_CONTIGUOUS && d; d = d->next) {
        struct module *any = form_has_lists(k->form) ? module_of(&kernel_interpreter, d) : NULL;
        struct module *m = module_of(kernel_code(k), d), *list = module_of(&kernel_typed_copy, d);
        if (any) module_request(any);
        if (list) module_request(list);
        if (m && kernel_special_first(k)) module_request(m);
    }
    return k;
}

void kernel_wait(struct kernel *k)
{
    struct kernel *code = kernel_code(k);
    for (struct device *d = device_first(); d && code->family != GEN_CONTIGUOUS; d = d->next) {
        struct module *m = module_of(code, d);
        if (m) module_request(m);
    }
    kernel_await(k);
}

void kernel_await(struct kernel *k)
{
    pthread_mutex_lock(&kernel_lock);
    while (modules_pending(kernel_code(k))) pthread_cond_wait(&kernel_changed, &kernel_lock);
    pthread_mutex_unlock(&kernel_lock);
}

bool kernel_finish(void)
{
    struct kernel *k, *next;
    bool alone = compile_queue_stop();
    if (!alone) return false;
    pthread_mutex_lock(&kernel_lock);
    while ((k = unused[0] ? unused[0] : unused[1])) {
        table_remove(k);
        kernel_free(k);
    }
    HASH_ITER(hh, table, k, next) modules_free(k);
    modules_free(&kernel_interpreter);
    modules_free(&kernel_typed_copy);
    for (int i = 0; i < GEN_REDUCE_TYPE_TOTAL; i++) modules_free(&kernel_reduce[i]);
    struct pool_buffer *lists = take_forgotten();
    pthread_mutex_unlock(&kernel_lock);
    put_all(lists);
    return true;
}

const char *kernel_signature(const struct kernel *k)
{
    return k->signature;
}

const char *kernel_form_signature(const struct kernel *k)
{
    return form_signature(k->form);
}

enum gen_family kernel_family(const struct kernel *k)
{
    return k->family;
}

unsigned kernel_used(const struct kernel *k)
{
    return atomic_load_explicit(&k->uses, memory_order_relaxed);
}

void kernel_use(struct kernel *k, unsigned times)
{
    atomic_store_explicit(&k->uses, kernel_used(k) + times, memory_order_relaxed);
}

const char *kernel_state(const struct kernel *k)
{
    const struct kernel *code = kernel_code(k);
    enum origin o = (enum origin)atomic_load(&code->origin);
    bool shared = o == ORIGIN_PENDING && !kernel_special_first(k) && !modules_pending(code);
    return shared ? "shared" : origin_names[o];
}

void kernel_count(struct kernel *k, enum origin o)
{
    atomic_store(&k->origin, o);
    atomic_fetch_add(&outcomes[o], 1);
}

struct kernel_counts kernel_counts(void)
{
    return (struct kernel_counts){.compiled = atomic_load(&outcomes[ORIGIN_COMPILED]),
                                  .cache_hits = atomic_load(&outcomes[ORIGIN_CACHE]),
                                  .aot_hits = atomic_load(&outcomes[ORIGIN_AOT]),
                                  .failed = atomic_load(&outcomes[ORIGIN_FAILED])};
}
