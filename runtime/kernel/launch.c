/* launch.c: moves a job by the first that works: one copy, special kernel, numbers, interpreter, copies
 * (STRIDEC_ENGINE). */
#include "../../gen/form.h"
#include "base/env.h"
#include "base/log.h"
#include "kernel_internal.h"
#include <errno.h>
#include <time.h>

/* With more copies, waiting for a running compile is quicker, and STRIDEC_ENGINE=copy is ignored. */
#define COPIES_MANY 4096
#define WAIT_SECONDS 2
#define LISTS_LONG 65536 /* bytes */
#define WORDS_MOST (1 << 20) /* bytes */
#define TAIL_WORTH 16

/* A job whose `begin` lies in its first element. */
struct move {
    struct kernel *kernel;
    struct device *device;
    struct stream *stream;
    struct kernel_job job;
    const struct module *shared;   /* the one for all regular layouts, if the kernel is regular; else NULL */
    enum stage shared_before;      /* its stage before the first try */
    bool wrap;   /* the range reaches elements past the first that do not continue the root */
    int launches;
};

void launch_skip(struct kernel_job *job, int64_t size)
{
    if (job->begin < size) return;
    int64_t whole = job->begin / size;
    job->user += (uint64_t)whole * (uint64_t)job->extent;
    job->begin -= whole * size;
    job->end -= whole * size;
    job->count -= whole;
}

bool launch_continues(const struct tree *t, int64_t extent)
{
    int64_t span;
    if (t->kind == TREE_DENSE) return extent == t->size;
    return t->kind == TREE_STRIDE && !__builtin_mul_overflow(t->count, t->step, &span) && span == extent;
}

bool launch_wraps(const struct tree *t, int64_t extent, int64_t end)
{
    return end > t->size && !launch_continues(t, extent);
}

/*
 * Launches of one module.
 */

int launch_entry(const struct gen_plan *plan, uint64_t all, int64_t bytes, int limit)
{
    for (int i = 0; i < plan->nwords - 1; i++) {
        int word = plan->words[i];
        bool aligned = (all & (uint64_t)(word - 1)) == 0, whole = (bytes & (word - 1)) == 0; /* powers of two */
        if (word <= limit && aligned && (whole || bytes >= TAIL_WORTH * word)) return i;
    }
    return plan->nwords - 1;
}

static int choose_entry(const struct gen_plan *plan, const struct kernel_job *job, bool wrap, int64_t end, int limit)
{
    uint64_t all = job->packed | job->user | (uint64_t)job->begin | (wrap ? (uint64_t)job->extent : 0);
    return launch_entry(plan, all, end - job->begin, limit);
}

int64_t launch_end(const struct gen_plan *plan, int word, int64_t size, int64_t end)
{
    int64_t pack = gen_block_words(&plan->way[GEN_PACK], word), unpack = gen_block_words(&plan->way[GEN_UNPACK], word);
    int64_t words = INT32_MAX * (pack < unpack ? pack : unpack), limit;
    if (plan->index_bits == 32 && words > INT32_MAX) words = INT32_MAX;
    if (__builtin_mul_overflow(words, (int64_t)word, &limit) || limit >= end) return end;
    return limit >= size ? limit - limit % size : limit;
}

int64_t launch_grid(const struct gen_way *way, int word, int64_t words)
{
    int64_t each = gen_block_words(way, word);
    return launch_limit((words + each - 1) / each);
}

/* Enqueues one kernel. `last`: it is the last launch of the job. */
static int launch(struct move *v, struct module *m, int entry, struct stridec_launch *a, bool last)
{
    enum kernel_direction direction = v->job.direction;
    int word = m->plan.words[entry];
    int64_t blocks = launch_grid(&m->plan.way[direction], word, (a->end - a->begin) / word);
    if (last) launch_flag(v->device, v->stream, blocks, &a->done, &a->ticket, &a->ended);
    const struct launch l = {m, direction, entry, blocks, a, sizeof *a, a->done};
    return launch_enqueue(&l, v->stream, &v->launches);
}

/* Moves the whole range by module m: in one launch, and more for a narrow tail or a range past the module's limits. */
static int launch_all(struct move *v, struct module *m, uint64_t program, bool wrap, int limit)
{
    struct kernel_job job = v->job;
    int64_t size = v->kernel->size;
    while (job.begin < job.end) {
        int entry = choose_entry(&m->plan, &job, wrap, job.end, limit), word = m->plan.words[entry];
        int64_t end = launch_end(&m->plan, word, size, job.end);
        end -= (end - job.begin) % word;
        struct stridec_launch a = {.packed = job.packed, .user = job.user, .extent = job.extent, .begin = job.begin,
                                   .end = end, .wrap = wrap, .program = program};
        if (m->kernel->form) form_numbers(v->kernel->form, word, a.number);
        if (launch(v, m, entry, &a, end == job.end)) return -1;
        job.packed += (uint64_t)(end - job.begin);
        job.begin = end;
        launch_skip(&job, size);
    }
    return 0;
}

/* Returns false if an element is so large that one launch can't reach its end. */
static bool reaches(const struct module *m, int64_t size, int64_t end)
{
    return launch_end(&m->plan, 1, size, end) >= (size < end ? size : end);
}

uint64_t launch_lists(struct kernel *k, struct device *d)
{
    struct module *own = module_of(k, d);
    return own ? module_lists(own) : 0;
}

uint64_t launch_program(struct kernel *k, struct device *d)
{
    struct module *own = k->form->list_bytes > LISTS_LONG ? NULL : module_of(k, d);
    return own ? module_program(own) : 0;
}

/*
 * Ways to move. Each returns 1 if it can't be used now, else kernel_move's result.
 */

/* Moves by the compiled kernel. `own` holds the kernel's data on the device, `special` the code. */
static int move_special(struct move *v, struct module *own, struct module *special)
{
    uint64_t lists = 0;
    if (v->kernel->family == GEN_GENERIC) return 1;
    enum stage stage = kernel_special_first(v->kernel) ? module_request(special) : module_stage(special);
    if (stage != STAGE_READY) return 1;
    if (!reaches(special, v->kernel->size, v->job.end)) return 1;
    if (form_has_lists(v->kernel->form) && !(lists = module_lists(own))) return 1;
    return launch_all(v, special, lists, v->wrap, special->plan.way[v->job.direction].word);
}

/* Returns true while the worker is making a module for the move: its own, or the one for regular layouts. */
static bool is_coming(const struct move *v, const struct module *special)
{
    return module_stage(special) == STAGE_PENDING || (v->shared && module_stage(v->shared) == STAGE_PENDING);
}

/* Moves by the interpreter, which always treats elements one by one, also where the root's stride continues. While a
 * better module is pending, the interpreter is not requested: if it is worth while, the worker makes it first. It reads
 * 16 bytes a block, which stay on the device as long as the type. */
static int move_interpreted(struct move *v, struct module *own, const struct module *special)
{
    struct module *m = module_of(&kernel_interpreter, v->device);
    if (!m || (is_coming(v, special) ? module_stage(m) : module_request(m)) != STAGE_READY) return 1;
    if (!reaches(m, v->kernel->size, v->job.end)) return 1;
    uint64_t program = module_program(own);
    if (!program) return 1;
    return launch_all(v, m, program, v->job.end > v->kernel->size, v->kernel->word);
}

static int move_compiled(struct move *v, struct module *own, struct module *special, enum kernel_way *way)
{
    int result = move_special(v, own, special);
    *way = KERNEL_SPECIAL;
    if (result <= 0) return result;
    if (kernel_is_regular(v->kernel))
        result = launch_numbers(v->kernel, special, v->device, v->stream, &v->job, &v->launches);
    *way = KERNEL_NUMBERS;
    if (result <= 0) return result;
    *way = KERNEL_INTERPRETED;
    return move_interpreted(v, own, special);
}

/* Returns true while the worker is making one of the modules and none is ready. */
static bool awaited(const struct module *const modules[], int n)
{
    bool pending = false;
    for (int i = 0; i < n; i++) {
        enum stage stage = module_stage(modules[i]);
        if (stage == STAGE_READY) return false;
        pending |= stage == STAGE_PENDING;
    }
    return pending;
}

/* Waits until a module is ready, none is pending, or time is over. Returns false if there was nothing to wait for. */
static bool wait_for_any(const struct move *v, const struct module *special)
{
    const struct module *modules[] = {special, module_of(&kernel_interpreter, v->device), v->shared};
    bool untried = v->shared && v->shared_before != STAGE_READY;
    if (untried && module_stage(v->shared) == STAGE_READY) return true;
    int n = untried ? 3 : 2;
    if (!modules[1] || !awaited(modules, n) ||
        !copy_engine_exceeds(v->kernel, v->device, &v->job, COPIES_MANY))
        return false;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    int error = 0;
    pthread_mutex_lock(&kernel_lock);
    while (error != ETIMEDOUT && awaited(modules, n))
        error = pthread_cond_timedwait(&kernel_changed, &kernel_lock, &until);
    pthread_mutex_unlock(&kernel_lock);
    return true;
}

/* Returns true if STRIDEC_ENGINE asks for the copy engine and the job has few enough copies. */
static bool copy_engine_wanted(const struct move *v)
{
    if (env_get()->engine != ENV_ENGINE_COPY) return false;
    if (!copy_engine_exceeds(v->kernel, v->device, &v->job, COPIES_MANY)) return true;
    log_once(LOG_WARN, "engine", "STRIDEC_ENGINE=copy: %s and others take more than %d copies: kernels move them",
             v->kernel->signature, COPIES_MANY);
    return false;
}

static int move_any(struct move *v, enum kernel_way *way)
{
    *way = KERNEL_COPIES;
    if (copy_engine_wanted(v)) return copy_engine_move(v->kernel, v->device, v->stream, &v->job, &v->launches);
    struct module *own = module_of(v->kernel, v->device);
    if (kernel_is_regular(v->kernel)) v->shared = module_of(&kernel_typed_copy, v->device);
    if (v->shared) v->shared_before = module_stage(v->shared);
    struct module *special = own ? module_of(kernel_code(v->kernel), v->device) : NULL;
    int result = special ? move_compiled(v, own, special, way) : 1;
    if (special && result > 0 && wait_for_any(v, special)) result = move_compiled(v, own, special, way);
    if (result <= 0) return result;
    *way = KERNEL_COPIES;
    return copy_engine_move(v->kernel, v->device, v->stream, &v->job, &v->launches);
}

/* Moves one block by a kernel; returns 1 if not possible now. H200, up to 1 MiB: 7.0 us, copy 8.4 (bench/pack). */
static int move_words(struct move *block)
{
    struct kernel_job job = block->job;
    int64_t bytes = job.end - job.begin;
    if (bytes > WORDS_MOST || bytes % 4) return 1;
    job.user += (uint64_t)job.begin;
    job.begin = 0, job.end = bytes;
    return launch_numbers(NULL, NULL, block->device, block->stream, &job, &block->launches);
}

static int move_block(struct move *v)
{
    const struct kernel_job *job = &v->job;
    uint64_t user = job->user + (uint64_t)job->begin;
    bool pack = job->direction == KERNEL_PACK;
    int result = move_words(v);
    if (result <= 0) return result;
    return copy_engine_one(v->device, v->stream, pack ? job->packed : user, pack ? user : job->packed,
                           job->end - job->begin, &v->launches);
}

int kernel_move(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job, int *launches,
                enum kernel_way *way)
{
    struct move v = {.kernel = k, .device = d, .stream = s, .job = *job};
    enum kernel_way used = KERNEL_COPIES;
    int result = 0;
    if (job->begin < job->end) {
        launch_skip(&v.job, k->size);
        v.wrap = launch_wraps(k->tree, job->extent, v.job.end);
        bool block = k->family == GEN_CONTIGUOUS && !v.wrap && env_get()->engine == ENV_ENGINE_AUTO;
        result = block ? move_block(&v) : move_any(&v, &used);
    }
    if (launches) *launches += v.launches;
    if (way) *way = used;
    return result;
}
