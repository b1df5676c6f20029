/* launch_chunked.c: packing and unpacking kernels that run at the same time, chunk by chunk (templates/marked.cuh).
 *
 * All figures: two H200s. Both kernels have few blocks, so that chunks are packed in order. With one block a chunk,
 * all chunks are ready at about the same time (4 MiB of 8 B blocks: 54 us; with few blocks 41; by pieces 60).
 *
 * 1 MiB of 4 B and 4 MiB of 16 B blocks are limited by 262,144 uncached sectors on each side. Packing took 5 us to
 * its first words and 2 us more to their flag; unpacking took 14 us after that. All sectors, requested at once, take
 * 11.6 us, the first ones 2.2, half of them 7.7. So blocks that pack begin one after the other (gen/plan.lua).
 * Packing is the limit: launched 1.5 us later, such a message takes 1.5 us longer. A later launch of unpacking costs
 * hardly anything.
 *
 * These variants were not quicker (messages; "no MPI": the two kernels alone):
 * - L2 hints that evict first what was packed first or unpacked last;
 * - a kernel that reads the target before the message comes; fetching it into L2 in the same kernel (4 MiB of 16 B:
 *   35 us, not 32);
 * - packing launched before the RTS header goes (1 MiB of 8 B 18.8 to 21.2 us, not 17.5 to 19.1; 4 MiB of 16 B 1.26
 *   to 1.31 times contiguous, not 1.23 to 1.30);
 * - a flag beside each word (no MPI: 28.2, not 25.8); a flag per warp, or separate warps that set or read flags
 *   (27.3 and 27.2, not 27.8);
 * - several words a thread, with loads grouped or one chunk ahead of the stores;
 * - a quarter of the message read in place by its own launch (35, not 31), or 1/16 to 1/4 in the same kernel (no
 *   MPI: 27.5 to 29.1, not 27.5). 32 B blocks gain (no MPI: 24.7; all in place 26.7), but not after the cost of
 *   offering both (29.5; in place 28.1);
 * - packing into the receiver's memory (no MPI: 4 MiB of 16 B 30.9, not 27.5; 1 MiB of 4 B 26.8, not 25.3). A flag
 *   beside each word would help 1 MiB of 4 B alone (22.5; 4 MiB of 16 B 33.7);
 * - flags in the receiver's memory (no MPI: 37: each waits until the one before has crossed the link; half as many:
 *   27 to 28, equal);
 * - asynchronous bulk copies into shared memory (no MPI: 26.7 to 28.2, equal);
 * - chunks of 4 KiB, or two to four times as many unpacking blocks (4 MiB of 16 B 26.0 to 26.6, equal; chunks of 4
 *   KiB: 1 MiB of 4 B 28.5, not 23.7, and 4 MiB of 4 B times out).
 *
 * Waiting blocks poll their flags over the link, which slows packing down. This matters only for long messages: 64
 * MiB of 16 B takes 366 us, with 2 us of sleep between polls 254, by pieces 240. */
#include "../../gen/form.h"
#include "base/env.h"
#include "kernel_internal.h"

#define CHUNK_BYTES_MAX ((int64_t)64 << 10)   /* bytes: larger ones would leave few chunks in a message (rndv_push.c) */
#define LONG ((int64_t)8 << 20)          /* bytes: longer jobs use chunks of at least LONG_CHUNK_MIN */
#define LONG_CHUNK_MIN ((int64_t)4 << 10)    /* bytes: 12 MiB of 32 B takes 53 us, with 2 KiB 60, with 8 KiB 56 */
#define THREADS_UNDER_WAY 65536          /* that pack; twice as many unpack, because they wait for the link */

/* Returns false with STRIDEC_SM_LIMIT: the other side, without a limit, would wait too long. */
static bool may_mark(void)
{
    return env_get()->engine == ENV_ENGINE_AUTO && !env_get()->sm_limit;
}

/* Returns the module or NULL. */
static struct module *marked(struct kernel *k, struct device *d)
{
    if (k->family == GEN_GENERIC || k->family == GEN_CONTIGUOUS) return NULL;
    struct module *m = module_of(kernel_code(k), d);
    if (!m || (module_stage(m) == STAGE_NONE && !kernel_special_first(k))) return NULL;
    return module_request(m) == STAGE_READY && m->plan.marked.threads ? m : NULL;
}

/* Returns true if one launch with this chunk can do the job, which begins in its first element. */
static bool suits(const struct module *m, const struct kernel *k, const struct kernel_job *job, int64_t chunk)
{
    int word = m->plan.marked.word[job->direction];
    uint64_t all = job->packed | job->user | (uint64_t)job->begin | (uint64_t)job->end | (uint64_t)chunk |
                   (launch_wraps(k->tree, job->extent, job->end) ? (uint64_t)job->extent : 0);
    return all % (uint64_t)word == 0 && launch_end(&m->plan, word, k->size, job->end) == job->end;
}

int64_t kernel_chunk(struct kernel *k, struct device *d, const struct kernel_job *job)
{
    struct module *m;
    if (!may_mark()) return 0;
    if (!(m = marked(k, d))) return kernel_is_regular(k) ? launch_numbers_chunk(k, d, job) : 0;
    const int *of = m->plan.marked.word;
    int word = of[GEN_PACK] > of[GEN_UNPACK] ? of[GEN_PACK] : of[GEN_UNPACK];
    int64_t chunk = (int64_t)m->plan.marked.threads * m->plan.marked.words_per_thread * word;
    while (job->end / chunk >= CHUNK_FLAGS_MAX || (job->end > LONG && chunk < LONG_CHUNK_MIN)) chunk *= 2;
    return chunk <= CHUNK_BYTES_MAX && suits(m, k, job, chunk) ? chunk : 0;
}

static int64_t blocks_of(const struct module *m, const struct kernel_job *job, int64_t chunk)
{
    int64_t chunks = (job->end - job->begin + chunk - 1) / chunk;
    int64_t most = THREADS_UNDER_WAY * (job->direction == KERNEL_PACK ? 1 : 2) / m->plan.marked.threads;
    return chunks < most ? chunks : most;
}

/* Moves by numbers, and requests k's own module where that is due. */
static int by_numbers(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                      const struct marks *marks, uint32_t *late, int *launches)
{
    bool due = k->family != GEN_CONTIGUOUS && kernel_special_due(k, job->end / k->word);
    struct module *special = due ? module_of(kernel_code(k), d) : NULL;
    if (special) module_request(special);
    return launch_numbers_flagged(k, d, s, job, marks, late, launches);
}

int kernel_move_flagged(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *of,
                        const struct marks *marks, uint32_t *late, int *launches)
{
    struct kernel_job job = *of;
    if (!may_mark()) return 1;
    struct module *m = marked(k, d), *own = m ? module_of(k, d) : NULL;
    uint64_t lists = 0, ticket = 0;
    launch_skip(&job, k->size);
    if (!m && kernel_is_regular(k)) return by_numbers(k, d, s, &job, marks, late, launches);
    if (!own || !suits(m, k, &job, marks->chunk)) return 1;
    if (form_has_lists(k->form) && !(lists = module_lists(own))) return 1;
    struct stridec_launch a = {.packed = job.packed, .user = job.user, .extent = job.extent, .begin = job.begin,
                               .end = job.end, .wrap = launch_wraps(k->tree, job.extent, job.end), .program = lists,
                               .marks = marks->at, .mark = marks->value, .chunk = marks->chunk,
                               .patience = device_us_to_clocks(d, MARKS_PATIENCE_US)};
    if (job.direction == KERNEL_UNPACK && !(a.done = stream_late_flag(d, s, &ticket))) return 1;
    a.ticket = ticket;
    if (late) *late = (uint32_t)ticket;
    form_numbers(k->form, m->plan.marked.word[job.direction], a.number);
    const struct launch l = {m, job.direction, ENTRY_FLAGGED, blocks_of(m, &job, marks->chunk), &a, 0, false};
    return launch_enqueue(&l, s, launches);
}
