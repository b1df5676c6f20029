/* launch_chunked.c: launches that go in step (templates/marked.cuh).
 *
 * Both kernels have few blocks, so that chunks are packed in their order: with a block for each, all are there at about
 * the same time, and nothing is won (two H200s, 4 MiB of 8 B blocks: 54 us, with few blocks 41; piece by piece 60).
 *
 * 1 MiB of 4 B and 4 MiB of 16 B are limited by 262,144 sectors that no cache holds, on both sides: from its start the packing
 * kernel took 5 us to its first words and 2 more to their mark, and unpacking 14 from there on (two H200s). All 262,144, asked
 * for at once, take 11.6 us to come, the first ones 2.2 and half of them 7.7: so blocks that pack begin one after the other
 * (gen/plan.lua). Packing is what is waited for: launched 1.5 us later, such messages take 1.5 us longer, and with unpacking
 * launched later, hardly any.
 *
 * Nothing of this was quicker there (messages; "no MPI": the two kernels alone):
 * - the L2 cache letting go of what is packed first, or of what is unpacked last;
 * - what will be overwritten read in a kernel of its own before the message comes, or fetched into the L2 cache in the same
 *   (4 MiB of 16 B: 35 us, not 32);
 * - packing launched before the descriptor goes (in four turns 1 MiB of 8 B 18.8 to 21.2 us, not 17.5 to 19.1; 4 MiB of 16
 *   B 1.26 to 1.31 times what contiguous bytes take, not 1.23 to 1.30);
 * - a flag beside each word in place of marks (no MPI: 28.2, not 25.8), a mark for each warp, warps of their own to set the
 *   marks or to look for them (27.3 and 27.2, not 27.8);
 * - several words a thread, their loads together or one chunk's ahead of the other's stores;
 * - a quarter of the message read in place, in a launch of its own, while the rest is packed (35, not 31), or a sixteenth
 *   to a quarter in the same kernel (no MPI: 27.5 to 29.1, not 27.5). With blocks of 32 B that is quicker (no MPI: 24.7,
 *   all in place 26.7), but not with what it takes to offer both (29.5, in place 28.1);
 * - packing into the receiver's memory (no MPI: 4 MiB of 16 B 30.9, not 27.5; 1 MiB of 4 B 26.8, not 25.3). With a flag
 *   beside each word that would be quicker for 1 MiB of 4 B alone (22.5; 4 MiB of 16 B 33.7);
 * - marks in the receiver's memory (no MPI: 37, as each waits until the one before has crossed the link; with half as many
 *   27 to 28, as here);
 * - asynchronous bulk copies into shared memory (no MPI: 26.7 to 28.2, as here);
 * - chunks of 4 KiB, or twice to four times as many blocks that unpack (4 MiB of 16 B 26.0 to 26.6, as here; chunks of 4
 *   KiB: 1 MiB of 4 B 28.5, not 23.7, and 4 MiB of 4 B past the patience).
 *
 * Blocks that wait look for their marks again and again over the link, which slows packing down. That tells only of long
 * messages: 64 MiB of 16 B 366 us, and 254 where they sleep 2 us between looks; by pieces 240. */
#include "../../gen/form.h"
#include "base/env.h"
#include "kernel_internal.h"

#define PATIENCE_US 200
#define CHUNK_MOST ((int64_t)64 << 10)   /* bytes: more would leave few of a message (rndv_push.c) */
#define LONG ((int64_t)8 << 20)          /* bytes: past these */
#define LONG_CHUNK ((int64_t)4 << 10)    /* no smaller ones: 12 MiB of 32 B 53 us, by 2 KiB 60, by 8 KiB 56 */
#define THREADS_UNDER_WAY 65536          /* of packing; of unpacking, which waits for the link, twice as many */

/* The module, where it can serve; else NULL. With a limit of multiprocessors that the other side may not have, one
 * kernel would wait too long for the other. */
static struct module *marked(struct kernel *k, struct device *d)
{
    const struct env *env = env_get();
    if (k->family == GEN_GENERIC || k->family == GEN_CONTIGUOUS || env->engine != ENV_ENGINE_AUTO || env->sm_limit)
        return NULL;
    struct module *m = module_of(kernel_code(k), d);
    return m && module_request(m) == STAGE_READY && m->plan.marked.threads ? m : NULL;
}

/* In one launch. The job begins in its first element. */
static bool suits(const struct module *m, const struct kernel *k, const struct kernel_job *job, int64_t chunk)
{
    int word = m->plan.marked.word[job->direction];
    uint64_t all = job->packed | job->user | (uint64_t)job->begin | (uint64_t)job->end | (uint64_t)chunk |
                   (launch_wraps(k->tree, job->extent, job->end) ? (uint64_t)job->extent : 0);
    return all % (uint64_t)word == 0 && launch_end(&m->plan, word, k->size, job->end) == job->end;
}

int64_t kernel_chunk(struct kernel *k, struct device *d, const struct kernel_job *job)
{
    struct module *m = marked(k, d);
    if (!m) return 0;
    const int *of = m->plan.marked.word;
    int word = of[GEN_PACK] > of[GEN_UNPACK] ? of[GEN_PACK] : of[GEN_UNPACK];
    int64_t chunk = (int64_t)m->plan.marked.threads * m->plan.marked.words_per_thread * word;
    while (job->end / chunk >= MARKS || (job->end > LONG && chunk < LONG_CHUNK)) chunk *= 2;
    return chunk <= CHUNK_MOST && suits(m, k, job, chunk) ? chunk : 0;
}

static int64_t blocks_of(const struct module *m, const struct kernel_job *job, int64_t chunk)
{
    int64_t chunks = (job->end - job->begin + chunk - 1) / chunk;
    int64_t most = THREADS_UNDER_WAY * (job->direction == KERNEL_PACK ? 1 : 2) / m->plan.marked.threads;
    return chunks < most ? chunks : most;
}

int kernel_move_marked(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *of,
                       const struct marks *marks, uint32_t *late, int *launches)
{
    struct kernel_job job = *of;
    struct module *m = marked(k, d), *own = m ? module_of(k, d) : NULL;
    uint64_t lists = 0, ticket = 0;
    launch_skip(&job, k->size);
    if (!own || !suits(m, k, &job, marks->chunk)) return 1;
    if (form_has_lists(k->form) && !(lists = module_lists(own))) return 1;
    struct stridec_launch a = {.packed = job.packed, .user = job.user, .extent = job.extent, .begin = job.begin,
                               .end = job.end, .wrap = launch_wraps(k->tree, job.extent, job.end), .program = lists,
                               .marks = marks->at, .mark = marks->value, .chunk = marks->chunk,
                               .patience = device_clocks(d, PATIENCE_US)};
    if (job.direction == KERNEL_UNPACK && !(a.done = stream_late(d, s, &ticket))) return 1;
    a.ticket = ticket;
    if (late) *late = (uint32_t)ticket;
    form_numbers(k->form, m->plan.marked.word[job.direction], a.number);
    return launch_enqueue(m, job.direction, ENTRY_MARKED, blocks_of(m, &job, marks->chunk), &a, s, false, launches);
}
