/* typed_copy_pair.c: copies from one layout into another by a module made for both forms.
 *
 * Pairs are in kernel.c's table under both signatures. A small table in front finds a pair by the addresses of its
 * sides. The addresses stay valid because the pair holds references. */
#include "../../gen/form.h"
#include "../../gen/hash.h"
#include "base/env.h"
#include "typed_copy_internal.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIR_BITS 6

static struct kernel *known[1 << PAIR_BITS];   /* under kernel_lock; each with a reference */

static struct kernel **slot_of(const struct kernel *from, const struct kernel *to)
{
    return &known[hash_place((uintptr_t)from * 31 + (uintptr_t)to, PAIR_BITS)];
}

static struct kernel *find_remembered(const struct kernel *from, const struct kernel *to)
{
    pthread_mutex_lock(&kernel_lock);
    struct kernel *k = *slot_of(from, to);
    if (k && k->from == from && k->to == to)
        k->refs++;
    else
        k = NULL;
    pthread_mutex_unlock(&kernel_lock);
    return k;
}

/* Stores the pair in the slot and releases the previous one. */
static void remember_pair(struct kernel *k, struct kernel **slot)
{
    pthread_mutex_lock(&kernel_lock);
    struct kernel *before = *slot;
    *slot = k;
    if (k) k->refs++;
    pthread_mutex_unlock(&kernel_lock);
    kernel_put(before);
}

void typed_copy_pair_forget(void)
{
    for (int i = 0; i < 1 << PAIR_BITS; i++) remember_pair(NULL, &known[i]);
}

/* Returns a new kernel for the pair, with references to both. Owns `signature`. The caller holds kernel_lock. */
static struct kernel *pair_new(struct kernel *from, struct kernel *to, char *signature)
{
    struct reason why;
    struct kernel *k = calloc(1, sizeof *k);
    if (!k) {
        free(signature);
        return NULL;
    }
    *k = (struct kernel){.signature = signature, .family = GEN_LINK};
    if (!kernel_add(k, &why)) return NULL;
    k->from = from, k->to = to;
    from->refs++, to->refs++;
    return k;
}

static struct kernel *pair_of(struct kernel *from, struct kernel *to)
{
    char *signature;
    if (asprintf(&signature, "%s > %s", from->signature, to->signature) < 0) return NULL;
    pthread_mutex_lock(&kernel_lock);
    struct kernel *k = kernel_find(signature);
    if (k)
        free(signature);
    else
        k = pair_new(from, to, signature);
    pthread_mutex_unlock(&kernel_lock);
    return k;
}

struct kernel *typed_copy_pair_get(const struct typed_copy_job *job)
{
    struct kernel *from = job->from.kernel, *to = job->to.kernel;
    if (!from || !to || from->family == GEN_GENERIC || to->family == GEN_GENERIC) return NULL;
    from = kernel_code(from), to = kernel_code(to);
    struct kernel *k = find_remembered(from, to);
    if (!k && (k = pair_of(from, to))) remember_pair(k, slot_of(from, to));
    return k;
}

/* A move by a ready module. */
struct move {
    struct module *module;
    const struct typed_copy_side *side[2];
    uint64_t lists[2];
    bool wrap, alike;
};

/* Returns the arguments for packed byte `at` of a side: its element and the offset within it. */
static struct stridec_launch side_at(const struct move *v, int i, int64_t at)
{
    const struct typed_copy_side *s = v->side[i];
    int64_t size = s->tree->size, whole = at / size;
    return (struct stridec_launch){.user = s->user + (uint64_t)whole * (uint64_t)s->extent, .extent = s->extent,
                                   .begin = at - whole * size, .wrap = v->wrap, .program = v->lists[i]};
}

/* Returns the entry with the widest word that both sides allow. */
static int choose_entry(const struct gen_plan *plan, const struct stridec_launch a[2], int64_t bytes)
{
    uint64_t all = 0;
    for (int i = 0; i < 2; i++) all |= a[i].user | (uint64_t)a[i].begin | (a[i].wrap ? (uint64_t)a[i].extent : 0);
    return launch_entry(plan, all, bytes, plan->words[0]);
}

/* Returns the bytes of a launch that begins at `a`. */
static int64_t launch_bytes(const struct gen_plan *plan, int word, const struct stridec_launch a[2], int64_t bytes)
{
    int64_t begin = a[0].begin > a[1].begin ? a[0].begin : a[1].begin, most = (int64_t)INT32_MAX * word - begin;
    if (plan->index_bits == 32 && bytes > most) bytes = most;
    return bytes - bytes % word;
}

/* Writes both sides' arguments, each without unused numbers. Returns their bytes. */
static size_t set_argument(const struct move *v, int word, struct stridec_launch a[2], unsigned char *argument)
{
    const struct form *form[2] = {v->module->kernel->from->form, v->module->kernel->to->form};
    size_t cut = offsetof(struct stridec_launch, number) + 8 * (size_t)form_link_numbers(form[0], form[1]);
    for (int i = 0; i < 2; i++) {
        form_numbers(v->side[i]->kernel->form, word, a[i].number);
        memcpy(argument + (size_t)i * cut, &a[i], cut);
    }
    return 2 * cut;
}

/* Enqueues the next launch: the rest, or as much as one launch can reach. Returns its bytes, or -1. */
static int64_t launch(const struct move *v, struct device *d, struct stream *s, int64_t at, int64_t end, int *launches)
{
    const struct gen_plan *plan = &v->module->plan;
    struct stridec_launch a[2] = {side_at(v, 0, at), side_at(v, 1, at)};
    unsigned char argument[2 * sizeof *a] __attribute__((aligned(8)));
    int entry = choose_entry(plan, a, end - at), word = plan->words[entry];
    int64_t bytes = launch_bytes(plan, word, a, end - at);
    int64_t blocks = launch_grid(&plan->way[0], word, bytes / word);
    for (int i = 0; i < 2; i++) a[i].end = a[i].begin + bytes;
    a[0].packed = v->alike && a[0].begin == a[1].begin;
    if (at + bytes == end) launch_flag(d, s, blocks, &a[1].done, &a[1].ticket, &a[1].ended);
    size_t size = set_argument(v, word, a, argument);
    const struct launch l = {v->module, KERNEL_PACK, entry, blocks, argument, size, a[1].done};
    return launch_enqueue(&l, s, launches) ? -1 : bytes;
}

/* Gets the device addresses of both sides' lists. Returns false on failure. */
static bool get_lists(struct move *v, struct device *d)
{
    for (int i = 0; i < 2; i++) {
        struct kernel *k = v->side[i]->kernel;
        if (form_has_lists(k->form) && !(v->lists[i] = launch_lists(k, d))) return false;
    }
    return true;
}

static int move_ready(struct module *m, struct device *d, struct stream *s, const struct typed_copy_job *job,
                      int *launches)
{
    struct move v = {.module = m, .side = {&job->from, &job->to}};
    v.wrap = launch_wraps(job->from.tree, job->from.extent, job->bytes) ||
             launch_wraps(job->to.tree, job->to.extent, job->bytes);
    v.alike = job->from.kernel == job->to.kernel && job->from.extent == job->to.extent;
    if (!get_lists(&v, d)) return 1;
    for (int64_t at = 0, bytes; at < job->bytes; at += bytes)
        if ((bytes = launch(&v, d, s, at, job->bytes, launches)) < 0) return -1;
    return 0;
}

int typed_copy_pair_move(struct device *d, struct stream *s, const struct typed_copy_job *job, int *launches)
{
    if (env_get()->engine == ENV_ENGINE_COPY) return 1;
    struct kernel *k = typed_copy_pair_get(job);
    struct module *m = k ? module_of(k, d) : NULL;
    int result = m && module_request(m) == STAGE_READY ? move_ready(m, d, s, job, launches) : 1;
    kernel_put(k);
    return result;
}
