/* launch_numbers.c: moves regular layouts without a module of their own: as a typed copy from or to packed bytes. */
#include "typed_copy_internal.h"
#include <string.h>

/* Describes the job, whose packed bytes lie as if from byte 0 on, by links. */
static int describe(const struct kernel *k, const struct kernel_job *job, struct stridec_link links[NEST_LINKS])
{
    struct typed_copy_side user = {.tree = k ? k->tree : NULL, .user = job->user, .extent = job->extent};
    struct typed_copy_side packed = {.user = job->packed - (uint64_t)job->begin};
    struct typed_copy_job copy = {.from = user, .to = packed, .bytes = job->end};
    if (job->direction == KERNEL_UNPACK) copy.from = packed, copy.to = user;
    return typed_copy_nest(&copy, job->begin, links);
}

static int64_t words_of(const struct stridec_link *links, int n)
{
    return (int64_t)links[0].words + (n > 1 ? links[1].words : 0);
}

int launch_numbers(struct kernel *k, struct module *special, struct device *d, struct stream *s,
                   const struct kernel_job *job, int *launches)
{
    struct stridec_link links[NEST_LINKS], room[NEST_LINKS];
    struct typed_copy_list list;
    struct module *m = module_of(&kernel_typed_copy, d);
    int n = m ? describe(k, job, links) : 0;
    enum stage stage = n ? module_request(m) : STAGE_FAILED;
    if (special && (stage == STAGE_FAILED || (n && kernel_special_due(k, words_of(links, n))))) module_request(special);
    if (stage != STAGE_READY) return 1;
    copy_list_begin(&list, m, room, NEST_LINKS);
    copy_list_add(&list, links, n);
    return copy_list_launch(&list, NULL, d, s, launches);
}

/* Returns the module, or NULL while it is not ready. */
static struct module *ready(struct device *d)
{
    struct module *m = module_of(&kernel_typed_copy, d);
    return m && module_request(m) == STAGE_READY ? m : NULL;
}

/* Returns the bytes that a block moves of the first link. */
static int64_t block_bytes(const struct module *m, const struct stridec_link *first)
{
    const struct gen_way *way = &m->plan.way[0];
    return (int64_t)way->threads * way->words_per_thread << (first->code >> 23 & 7);
}

int64_t launch_numbers_chunk(const struct kernel *k, struct device *d, const struct kernel_job *job)
{
    struct stridec_link links[NEST_LINKS];
    struct module *m = ready(d);
    int n = m && job->begin == 0 ? describe(k, job, links) : 0;
    int64_t chunk = n ? block_bytes(m, links) : 0;
    return chunk && job->end / chunk < CHUNK_FLAGS_MAX ? chunk : 0;
}

int launch_numbers_flagged(struct kernel *k, struct device *d, struct stream *s, const struct kernel_job *job,
                           const struct marks *marks, uint32_t *late, int *launches)
{
    struct stridec_link_marked a;
    struct module *m = ready(d);
    memset(&a, 0, sizeof a);
    a.packs = job->direction == KERNEL_PACK;
    a.n = m && job->begin == 0 ? (uint32_t)describe(k, job, a.job) : 0;
    if (!a.n || (a.packs && marks->chunk != block_bytes(m, a.job))) return 1;
    if (!a.packs && !(a.late = stream_late_flag(d, s, &a.late_ticket))) return 1;
    if (late) *late = (uint32_t)a.late_ticket;
    a.marks = marks->at, a.mark = marks->value, a.chunk = marks->chunk;
    a.patience = device_us_to_clocks(d, MARKS_PATIENCE_US);
    a.bytes = job->end;
    a.blocks = (uint32_t)((job->end + block_bytes(m, a.job) - 1) / block_bytes(m, a.job));
    launch_flag(d, s, a.blocks, &a.done, &a.ticket, &a.ended);
    return launch_enqueue(&(struct launch){m, job->direction, ENTRY_FLAGGED, a.blocks, &a, 0, a.done}, s, launches);
}
