/* typed_copy.c: chooses how each typed copy is made. */
#include "base/env.h"
#include "base/log.h"
#include "typed_copy_internal.h"
#include <string.h>

/* Size of the packed buffer between two layouts; longer jobs use it in pieces. */
#define BUFFER_BYTES_MAX ((int64_t)64 << 20)
/* Up to this size a kernel moves contiguous bytes within a device as fast as the driver's copy, and begins sooner.
 * Between devices the driver's copy is always quicker: 7.4 us from 256 B to 64 KiB and 10.3 for 1 MiB; a kernel
 * takes 9.3 to 10.5 and 13.4 (two H200s, driver 580). */
#define WORDS_MOST (1 << 20)
/* Above this size contiguous bytes are copied by the driver, also beside others that a kernel moves: MPI_Alltoall of
 * 256 MiB pieces takes a kernel 1.90 ms, copies 1.78 (two H200s). */
#define LISTED_MOST (4 << 20)
/* Up to this size interpreting a layout costs less than its own launch. */
#define INTERPRET_MAX (1 << 18)

bool typed_copy_is_plain(const struct typed_copy_side *side, int64_t bytes)
{
    const struct tree *t = side->tree;
    return !t || (t->kind == TREE_DENSE && (bytes <= t->size || side->extent == t->size));
}

static struct kernel_job half(const struct typed_copy_side *side, enum kernel_direction direction, uint64_t packed)
{
    return (struct kernel_job){.direction = direction, .packed = packed, .user = side->user, .extent = side->extent,
                               .count = side->count};
}

/* Packs and unpacks through a buffer; the stream keeps the pieces in order. */
static int move_between(struct typed_copy_batch *b, struct device *d, struct stream *s,
                        const struct typed_copy_job *job, int *launches)
{
    int64_t piece = job->bytes < BUFFER_BYTES_MAX ? job->bytes : BUFFER_BYTES_MAX;
    struct pool_buffer *between = typed_copy_keep(b, d, BUFFER_DEVICE, (size_t)piece);
    if (!between) return -1;
    struct kernel_job pack = half(&job->from, KERNEL_PACK, between->address);
    struct kernel_job unpack = half(&job->to, KERNEL_UNPACK, between->address);
    for (int64_t at = 0; at < job->bytes; at += piece) {
        pack.begin = unpack.begin = at;
        pack.end = unpack.end = at + piece < job->bytes ? at + piece : job->bytes;
        if (kernel_move(job->from.kernel, d, s, &pack, launches, NULL) ||
            kernel_move(job->to.kernel, d, s, &unpack, launches, NULL))
            return -1;
    }
    return 0;
}

/* Moves between contiguous bytes and a layout, by the layout's own kernel. */
static int move_half(struct device *d, struct stream *s, const struct typed_copy_side *side,
                     enum kernel_direction direction, const struct typed_copy_job *job, uint64_t packed, int *launches)
{
    struct kernel_job half_job = half(side, direction, packed);
    half_job.end = job->bytes;
    return kernel_move(side->kernel, d, s, &half_job, launches, NULL);
}

/* Returns true if a module for the pair is useful: the job is not a nest of strides. */
static bool worth_pair(const struct typed_copy_job *job)
{
    struct stridec_link links[NEST_LINKS];
    return !typed_copy_nest(job, 0, links);
}

/* Moves one job without the list. */
static int move_one(struct typed_copy_batch *b, struct device *d, struct stream *s, const struct typed_copy_job *job,
                    int *launches)
{
    bool plain_from = typed_copy_is_plain(&job->from, job->bytes), plain_to = typed_copy_is_plain(&job->to, job->bytes);
    if (plain_from && plain_to) return copy_engine_one(d, s, job->to.user, job->from.user, job->bytes, launches);
    if (plain_to) return move_half(d, s, &job->from, KERNEL_PACK, job, job->to.user, launches);
    if (plain_from) return move_half(d, s, &job->to, KERNEL_UNPACK, job, job->from.user, launches);
    int result = worth_pair(job) ? typed_copy_pair_move(d, s, job, launches) : 1;
    return result > 0 ? move_between(b, d, s, job, launches) : result;
}

/* Returns true if a kernel should move contiguous bytes. */
static bool by_words(const struct typed_copy_job *job)
{
    return (job->bytes <= WORDS_MOST && !job->across) || env_get()->engine == ENV_ENGINE_KERNEL;
}

/* Describes the job for the list, by numbers or by its trees. Returns the number of links, 0 if it can't. */
static int links_of(const struct typed_copy_job *job, struct device *d, const struct typed_copy_list *list,
                    struct stridec_link links[NEST_LINKS])
{
    int n = list->module ? typed_copy_nest(job, 0, links) : 0;
    bool interpreted = !n && list->module && job->bytes <= INTERPRET_MAX;
    return interpreted ? typed_copy_interpret(job, d, links) : n;
}

/* Moves a single job by the module of its side or of its pair, if that is ready. */
static int move_alone(struct typed_copy_batch *b, struct device *d, struct stream *s, const struct typed_copy_job *job,
                      struct typed_copy_list *list, int *launches)
{
    struct stridec_link links[NEST_LINKS];
    bool plain_from = typed_copy_is_plain(&job->from, job->bytes), plain_to = typed_copy_is_plain(&job->to, job->bytes);
    int result = 1, n = 0;
    if (plain_from != plain_to) return move_one(b, d, s, job, launches);
    if (!plain_from && worth_pair(job)) result = typed_copy_pair_move(d, s, job, launches);
    if (result <= 0) return result;
    if (!plain_from || by_words(job)) n = links_of(job, d, list, links);
    if (!n) return plain_from ? move_one(b, d, s, job, launches) : move_between(b, d, s, job, launches);
    copy_list_add(list, links, n);
    return copy_list_launch(list, b, d, s, launches);
}

/* Adds the job to the list, or moves it alone. Launches a full list. */
static int move_with_others(struct typed_copy_batch *b, struct device *d, struct stream *s,
                            const struct typed_copy_job *job, struct typed_copy_list *list, int *launches)
{
    struct stridec_link links[NEST_LINKS];
    bool plain = typed_copy_is_plain(&job->from, job->bytes) && typed_copy_is_plain(&job->to, job->bytes);
    if (plain && job->bytes > LISTED_MOST && env_get()->engine != ENV_ENGINE_KERNEL)
        return move_one(b, d, s, job, launches);
    int n = links_of(job, d, list, links);
    if (!n) return move_one(b, d, s, job, launches);
    if (copy_list_add(list, links, n)) return 0;
    int result = copy_list_launch(list, b, d, s, launches);
    copy_list_add(list, links, n);
    return result;
}

struct module *typed_copy_module(struct device *d)
{
    struct module *m = env_get()->engine == ENV_ENGINE_COPY ? NULL : module_of(&kernel_typed_copy, d);
    return m && module_request(m) == STAGE_READY ? m : NULL;
}

int typed_copy_move(struct typed_copy_batch *b, struct device *d, struct stream *s, const struct typed_copy_job *jobs,
                    int n, int *launches)
{
    struct stridec_link room[LIST_LINKS];
    struct typed_copy_list list;
    int many = 0, done = 0, result = 0;
    for (int i = 0; i < n; i++) many += jobs[i].bytes > 0;
    if (many) copy_list_begin(&list, typed_copy_module(d), room, LIST_LINKS);
    for (int i = 0; i < n && result == 0; i++) {
        if (jobs[i].bytes <= 0) continue;
        result = many == 1 ? move_alone(b, d, s, &jobs[i], &list, &done)
                           : move_with_others(b, d, s, &jobs[i], &list, &done);
    }
    /* Last, so that a list of few blocks signals the stream's end. */
    if (many && result == 0) result = copy_list_launch(&list, b, d, s, &done);
    if (launches) *launches += done;
    return result;
}

int typed_copy_links(struct device *d, const struct typed_copy_job *jobs, int n, struct stridec_link *links,
                     uint32_t *blocks)
{
    struct stridec_link one[NEST_LINKS];
    struct typed_copy_list list;
    struct module *m = typed_copy_module(d);
    if (!m) return -1;
    copy_list_begin(&list, m, links, GEN_LINK_MOST);
    for (int i = 0; i < n; i++) {
        int these = jobs[i].bytes <= LISTED_MOST ? links_of(&jobs[i], d, &list, one) : 0;
        if (!these || !copy_list_add(&list, one, these)) return 0;
    }
    *blocks = list.blocks;
    return list.n;
}

int typed_copy_move_links(struct device *d, struct stream *s, const struct stridec_link *links, int n, uint32_t blocks,
                          int *launches)
{
    struct typed_copy_list list = {.module = typed_copy_module(d), .n = n, .room = n, .blocks = blocks,
                                   .job = (struct stridec_link *)links};
    for (int i = 0; i < n; i++) list.programs |= copy_link_interprets(&links[i]);
    return list.module ? copy_list_launch(&list, NULL, d, s, launches) : 1;
}

static void ask(struct kernel *k, struct device *d, bool wait)
{
    struct module *m = module_of(k, d);
    if (m) module_request(m);
    if (wait) kernel_await(k);
}

static void prepare(struct device *d, const struct typed_copy_job *jobs, int n, bool wait)
{
    struct stridec_link links[NEST_LINKS];
    ask(&kernel_typed_copy, d, wait);
    for (int i = 0; i < n; i++) {
        const struct typed_copy_job *job = &jobs[i];
        if (job->bytes <= 0 || typed_copy_is_plain(&job->from, job->bytes) || typed_copy_is_plain(&job->to, job->bytes))
            continue;
        bool listed = n > 1 ? job->bytes <= INTERPRET_MAX || typed_copy_nest(job, 0, links) : !worth_pair(job);
        struct kernel *k = listed ? NULL : typed_copy_pair_get(job);
        if (k) ask(k, d, wait);
        kernel_put(k);
    }
}

struct kernel *typed_copy_hold(const struct typed_copy_job *job)
{
    bool plain = typed_copy_is_plain(&job->from, job->bytes) || typed_copy_is_plain(&job->to, job->bytes);
    return !plain && worth_pair(job) ? typed_copy_pair_get(job) : NULL;
}

void typed_copy_prepare(struct device *d, const struct typed_copy_job *jobs, int n)
{
    prepare(d, jobs, n, false);
}

void typed_copy_wait(struct device *d, const struct typed_copy_job *jobs, int n)
{
    prepare(d, jobs, n, true);
}

void typed_copy_finish(void)
{
    typed_copy_pair_forget();
    typed_copy_nest_forget();
}
