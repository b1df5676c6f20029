/* launch_marked.c: launches that go in step (templates/marked.cuh).
 *
 * Both kernels have few blocks, so that chunks are packed in their order: with a block for each, all are there at about
 * the same time, and nothing is won (two H200s, 4 MiB of 8 B blocks: 54 us, with few blocks 41; piece by piece 60). */
#include "env.h"
#include "../gen/form.h"
#include "kernel_inner.h"

#define PATIENCE_US 200
#define CHUNK_MOST ((int64_t)1 << 20)   /* bytes */
#define WORDS_UNDER_WAY 65536   /* of packing; unpacking, which has words wait for the link, twice as many */

/* The module, where it can serve; else NULL. */
static struct module *marked(struct kernel *k, struct device *d)
{
    if (k->family == GEN_GENERIC || k->family == GEN_CONTIGUOUS || env_get()->engine != ENV_ENGINE_AUTO) return NULL;
    struct module *m = module_of(kernel_code(k), d);
    return m && module_request(m) == STAGE_READY && m->plan.marked.threads ? m : NULL;
}

/* Words that a block moves at a time. */
static int64_t round_words(const struct gen_plan *plan)
{
    return (int64_t)plan->marked.threads * plan->marked.words_per_thread;
}

int64_t kernel_chunk(struct kernel *k, struct device *d, int64_t bytes)
{
    struct module *m = marked(k, d);
    if (!m) return 0;
    int pack = m->plan.way[GEN_PACK].word, unpack = m->plan.way[GEN_UNPACK].word;
    int64_t chunk = round_words(&m->plan) * (pack > unpack ? pack : unpack);
    while (bytes / chunk >= MARKS) chunk *= 2;
    return chunk <= CHUNK_MOST ? chunk : 0;
}

/* In one launch. */
static bool suits(const struct module *m, const struct kernel *k, const struct kernel_job *job, const struct marks *marks,
                  bool wrap)
{
    int word = m->plan.way[job->direction].word;
    uint64_t all = job->packed | job->user | (uint64_t)job->begin | (uint64_t)job->end | (uint64_t)marks->chunk |
                   (wrap ? (uint64_t)job->extent : 0);
    return all % (uint64_t)word == 0 && launch_end(&m->plan, word, k->size, job->end) == job->end;
}

static int64_t blocks_of(const struct module *m, const struct kernel_job *job, const struct marks *marks)
{
    int64_t once = round_words(&m->plan);
    int64_t chunks = (job->end - job->begin + marks->chunk - 1) / marks->chunk;
    int64_t most = WORDS_UNDER_WAY * (job->direction == KERNEL_PACK ? 1 : 2) / once;
    return launch_limit(chunks < most ? chunks : most > 0 ? most : 1);
}

int kernel_move_marked(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *of,
                       const struct marks *marks, uint32_t *late, int *launches)
{
    struct kernel_job job = *of;
    struct module *m = marked(k, d), *own = m ? module_of(k, d) : NULL;
    uint64_t lists = 0, ticket = 0;
    launch_skip(&job, k->size);
    bool wrap = job.end > k->size && !launch_continues(k->tree, job.extent);
    if (!own || !suits(m, k, &job, marks, wrap)) return 1;
    if (form_has_lists(k->form) && !(lists = module_lists(own))) return 1;
    struct stridec_launch a = {.packed = job.packed, .user = job.user, .extent = job.extent, .begin = job.begin,
                               .end = job.end, .wrap = wrap, .program = lists, .marks = marks->at, .mark = marks->value,
                               .chunk = marks->chunk, .patience = device_clocks(d, PATIENCE_US)};
    if (job.direction == KERNEL_UNPACK && !(a.done = stream_late(d, s, &ticket))) return 1;
    a.ticket = ticket;
    if (late) *late = (uint32_t)ticket;
    form_numbers(k->form, m->plan.way[job.direction].word, a.number);
    return launch_enqueue(m, job.direction, ENTRY_MARKED, blocks_of(m, &job, marks), &a, s, false, launches);
}
