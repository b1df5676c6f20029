/* typed_copy_order.c: words of device memory by which streams wait for each other, alone and with jobs. */
#include "base/log.h"
#include "typed_copy_internal.h"
#include <string.h>

/* Up to these sizes a launch less is worth more than copies. */
#define JOB_MOST ((int64_t)4 << 20)
#define ALL_MOST ((int64_t)16 << 20)
/* Blocks that may wait: dozens of such launches leave room on a GPU for work that the others wait for. */
#define WAITING_MOST 16
#define WORD_MOST 16   /* bytes: what those blocks can't move is not listed in vain */

/* Enqueues a kernel without a plan, which begins while the one before it ends if the driver lets it. Returns 0 or -1
 * (logged). */
static int launch(struct module *m, struct stream *s, CUfunction entry, int64_t blocks, int threads, void *argument)
{
    void *arguments[] = {argument};
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig how = {.gridDimX = (unsigned)blocks, .gridDimY = 1, .gridDimZ = 1,
                                .blockDimX = (unsigned)threads, .blockDimY = 1, .blockDimZ = 1,
                                .hStream = stream_use(s), .attrs = &early, .numAttrs = 1};
    bool begins = atomic_load_explicit(&m->order.early, memory_order_relaxed);
    CUresult r = begins ? driver_get()->cuLaunchKernelEx(&how, entry, arguments, NULL) : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_INVALID_VALUE) {
        atomic_store_explicit(&m->order.early, false, memory_order_relaxed);
        r = driver_get()->cuLaunchKernel(entry, how.gridDimX, 1, 1, how.blockDimX, 1, 1, 0, how.hStream, arguments,
                                         NULL);
    }
    if (r == CUDA_SUCCESS) return 0;
    if (!driver_lost(r))
        log_write(LOG_ERROR, "a kernel of messages in stream order was refused by device %d: %s", m->device->ordinal,
                  driver_error(r));
    return -1;
}

int typed_copy_flags(struct device *d, struct stream *s, const uint64_t at[], int sets, int waits)
{
    struct module *m = typed_copy_module(d);
    struct stridec_flags a;
    int most = sets > waits ? sets : waits;
    if (!m) return 1;
    a.sets = (uint32_t)sets, a.waits = (uint32_t)waits;   /* what is behind the words is not read */
    memcpy(a.at, at, (size_t)(sets + waits) * sizeof *at);
    return launch(m, s, m->order.flags[sets + waits > GEN_FLAGS_SOME], 1, most < 32 ? 32 : most, &a);
}

/* Adds the words of a launch. Returns their number; -1 if there are too many. */
static int add_words(struct stridec_exchange *a, int ready, const struct typed_copy_words *w)
{
    uint64_t *at = a->rest;
    if (ready + w->sets + w->ends + w->begins > GEN_EXCHANGE_WORDS) return -1;
    a->ended = w->ended;
    a->ready = (uint32_t)ready, a->sets = (uint32_t)w->sets, a->ends = (uint32_t)w->ends;
    a->begins = (uint32_t)w->begins;
    for (int i = 0; i < ready; i++) *at++ = w->ready[i];
    for (int i = 0; i < w->sets; i++) *at++ = w->set[i];
    for (int i = 0; i < w->ends; i++) *at++ = w->end[i];
    for (int i = 0; i < w->begins; i++) *at++ = w->begin[i];
    return (int)(at - a->rest);
}

/* Adds the links of a job, which wait for a word, from 1 on, or for none (0). Returns false if it is too long, or no
 * nest of strides, or the list is full. */
static bool add_job(struct typed_copy_list *list, const struct typed_copy_job *job, int word)
{
    struct stridec_link links[NEST_LINKS];
    int n = job->bytes > 0 && job->bytes <= JOB_MOST ? typed_copy_nest(job, 0, links) : 0;
    for (int k = 0; k < n; k++) links[k].code |= (uint32_t)word << 26;
    return n && copy_list_add(list, links, n);
}

int typed_copy_exchange(struct device *d, struct stream *s, const struct typed_copy_job *jobs, int n,
                        const struct typed_copy_words *w)
{
    struct module *m = typed_copy_module(d);
    struct stridec_exchange a;
    struct stridec_link links[GEN_EXCHANGE_LINKS];
    struct typed_copy_list list;
    if (!m || n > GEN_EXCHANGE_LINKS) return 1;
    const struct gen_way *way = &m->plan.way[0];
    int64_t waiting = (int64_t)WAITING_MOST * way->threads * way->words_per_thread * WORD_MOST;
    int64_t bytes = 0, most = w->ready ? waiting : ALL_MOST;
    int words = add_words(&a, w->ready ? n : 0, w);
    if (words < 0) return 1;
    copy_list_begin(&list, m, links, GEN_EXCHANGE_LINKS);
    for (int i = 0; i < n; i++)
        if ((bytes += jobs[i].bytes) > most || !add_job(&list, &jobs[i], w->ready ? i + 1 : 0)) return 1;
    if (w->ready && list.blocks > WAITING_MOST) return 1;
    a.n = (uint32_t)list.n, a.blocks = list.blocks;
    size_t held = (size_t)list.n * sizeof *links;
    memcpy(a.rest + words, links, held);
    bool many = (size_t)words + held / sizeof *a.rest > GEN_EXCHANGE_SOME;
    return launch(m, s, m->order.exchange[many], launch_limit(a.blocks), way->threads, &a);
}
