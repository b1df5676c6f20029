/* launch_numbers.c: moves regular layouts without a module of their own: as a typed copy from or to packed bytes. */
#include "typed_copy_internal.h"

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
