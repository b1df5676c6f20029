/* typed_copy_order.c: words of device memory by which streams wait for each other, alone and with jobs. */
#include "base/log.h"
#include "typed_copy_internal.h"
#include <string.h>

/* Up to these sizes jobs wait in their own kernel: half of the multiprocessors keep a link busy, and a longer launch
 * does not notice the two that it saves. */
#define JOB_MOST ((int64_t)4 << 20)
#define ALL_MOST ((int64_t)16 << 20)

/* Enqueues a kernel without a plan. Returns 0 or -1 (logged). */
static int launch(struct device *d, struct stream *s, CUfunction entry, int64_t blocks, int threads, void *argument)
{
    void *arguments[] = {argument};
    CUresult r = driver_get()->cuLaunchKernel(entry, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, stream_use(s),
                                              arguments, NULL);
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r))
        log_write(LOG_ERROR, "the kernel of flags was refused by device %d: %s", d->ordinal, driver_error(r));
    return -1;
}

int typed_copy_flags(struct device *d, struct stream *s, const uint64_t at[], int sets, int waits)
{
    struct module *m = typed_copy_module(d);
    struct stridec_flags a = {.sets = (uint32_t)sets, .waits = (uint32_t)waits};
    int most = sets > waits ? sets : waits;
    if (!m) return 1;
    memcpy(a.at, at, (size_t)(sets + waits) * sizeof *at);
    return launch(d, s, m->flags, 1, most < 32 ? 32 : most, &a);
}

/* Adds the words of a launch. Returns false if there are too many. */
static bool add_words(struct stridec_exchange *a, int n, const struct typed_copy_words *w)
{
    if (n > GEN_EXCHANGE_READY || n + w->sets + w->ends > GEN_EXCHANGE_WORDS) return false;
    a->ended = w->ended;
    a->ready = (uint32_t)n, a->sets = (uint32_t)w->sets, a->ends = (uint32_t)w->ends;
    memcpy(a->at, w->ready, (size_t)n * sizeof *a->at);
    memcpy(a->at + n, w->set, (size_t)w->sets * sizeof *a->at);
    memcpy(a->at + n + w->sets, w->end, (size_t)w->ends * sizeof *a->at);
    return true;
}

/* Adds the links of a job, the i-th. Returns false if it is too long, or no nest of strides, or the list is full. */
static bool add_job(struct typed_copy_list *list, const struct typed_copy_job *job, int i)
{
    struct stridec_link links[NEST_LINKS];
    int n = job->bytes <= JOB_MOST ? typed_copy_nest(job, 0, links) : 0;
    for (int k = 0; k < n; k++) links[k].code |= (uint32_t)i << 26;
    return n && copy_list_add(list, links, n);
}

/* Lists the jobs for blocks of so many threads. Returns false if that is not possible. */
static bool list_jobs(struct typed_copy_list *list, struct module *m, struct stridec_exchange *a,
                      const struct typed_copy_job *jobs, int n, int threads)
{
    int64_t bytes = 0;
    copy_list_begin(list, m, a->job, GEN_EXCHANGE_LINKS);
    list->threads = threads;
    for (int i = 0; i < n; i++) {
        bytes += jobs[i].bytes;
        if (jobs[i].bytes <= 0 || bytes > ALL_MOST || !add_job(list, &jobs[i], i)) return false;
    }
    a->n = (uint32_t)list->n, a->blocks = list->blocks;
    return true;
}

/* Blocks that wait must leave multiprocessors free, for work that the others wait for. While they are few each has one
 * of its own; many are made of as many threads as a multiprocessor runs of this kernel. */
int typed_copy_exchange(struct device *d, struct stream *s, const struct typed_copy_job *jobs, int n,
                        const struct typed_copy_words *w)
{
    struct module *m = typed_copy_module(d);
    struct stridec_exchange a;
    struct typed_copy_list list;
    int64_t most = d->gpu.multiprocessors * 3 / 4;
    int threads = m ? m->plan.way[0].threads : 0;
    memset(&a, 0, sizeof a);
    if (!m || !add_words(&a, n, w) || !list_jobs(&list, m, &a, jobs, n, threads)) return 1;
    if (a.blocks > most && !list_jobs(&list, m, &a, jobs, n, threads = GEN_EXCHANGE_THREADS)) return 1;
    int64_t blocks = launch_limit(a.blocks < most ? a.blocks : most > 1 ? most : 1);
    return launch(d, s, m->exchange, blocks, threads, &a);
}
