/* typed_copy_batch.c: many typed copies in one launch: a kernel reads their list from its argument or device memory. */
#include "typed_copy_internal.h"
#include <stddef.h>
#include <string.h>

/* Takes a buffer out of the spare ones. Pinned memory is none: the host may write it while the stream reads it. */
static struct pool_buffer *take_spare(struct typed_copy_batch *b, enum buffer_kind kind, size_t bytes)
{
    struct pool_buffer **at = &b->spare, *one;
    while (*at && (kind != BUFFER_DEVICE || (*at)->kind != kind || (*at)->bytes < bytes)) at = &(*at)->next;
    if ((one = *at)) *at = one->next;
    return one;
}

struct pool_buffer *typed_copy_keep(struct typed_copy_batch *b, struct device *d, enum buffer_kind kind, size_t bytes)
{
    struct pool_buffer *one = take_spare(b, kind, bytes);
    if (!one && !(one = mempool_get(d, kind, bytes))) return NULL;
    one->next = b->kept;
    return b->kept = one;
}

void typed_copy_end(struct typed_copy_batch *b)
{
    struct pool_buffer *one;
    while ((one = b->kept)) {
        b->kept = one->next;
        one->next = NULL;
        mempool_put(one);
    }
}

static void list_clear(struct typed_copy_list *l)
{
    l->n = 0;
    l->blocks = 0;
    l->programs = false;
}

void copy_list_begin(struct typed_copy_list *l, struct module *m, struct stridec_link *job, int room)
{
    l->module = m;
    l->job = job, l->room = room;
    list_clear(l);
}

bool copy_list_add(struct typed_copy_list *l, const struct stridec_link *links, int n)
{
    const struct gen_way *way = &l->module->plan.way[0];
    if (l->n + n > l->room) return false;
    for (int i = 0; i < n; i++) {
        bool program = copy_link_interprets(&links[i]);   /* one word a thread (templates/link_list.cu) */
        uint32_t each = (uint32_t)(way->threads * (program ? 1 : way->words_per_thread));
        l->job[l->n] = links[i];
        l->programs |= program;
        l->job[l->n++].first = l->blocks;
        l->blocks += (links[i].words + each - 1) / each;
    }
    return true;
}

/* Returns the entry with the shortest argument that holds the list; the last one, whose list is in device memory, if it
 * is too long. Only the longest argument's entry and the last one interpret. */
static int choose_entry(const struct gen_plan *plan, const struct typed_copy_list *l)
{
    int last = plan->nwords - 1, entry = last;
    while (entry >= 0 && plan->words[entry] < l->n) entry--;
    return entry < 0 ? last : l->programs ? 0 : entry;
}

/* Copies the list to device memory, from pinned memory, so that the copy does not wait for the stream. */
static int put_list(const struct typed_copy_list *l, struct typed_copy_batch *b, struct device *d, struct stream *s,
                    struct stridec_links *a, int *launches)
{
    size_t bytes = (size_t)l->n * sizeof *l->job;
    struct pool_buffer *host = typed_copy_keep(b, d, BUFFER_PINNED, bytes),
                       *list = typed_copy_keep(b, d, BUFFER_DEVICE, bytes);
    if (!host || !list) return -1;
    memcpy(host->host, l->job, bytes);
    a->list = list->address;
    return copy_engine_one(d, s, list->address, host->address, (int64_t)bytes, launches);
}

int copy_list_launch(struct typed_copy_list *l, struct typed_copy_batch *b, struct device *d, struct stream *s,
                     int *launches)
{
    struct stridec_links a;
    if (!l->n) return 0;
    const struct gen_plan *plan = &l->module->plan;
    int entry = choose_entry(plan, l);
    memset(&a, 0, offsetof(struct stridec_links, job));
    a.n = (uint32_t)l->n, a.blocks = l->blocks;
    if (l->n <= plan->words[entry])
        memcpy(a.job, l->job, (size_t)l->n * sizeof *l->job);
    else if (put_list(l, b, d, s, &a, launches))
        return -1;
    int64_t blocks = launch_limit(a.blocks);
    launch_flag(d, s, blocks, &a.done, &a.ticket, &a.ended);
    size_t bytes = offsetof(struct stridec_links, job) + (a.list ? 0 : (size_t)l->n * sizeof *l->job);
    const struct launch one = {l->module, KERNEL_PACK, entry, blocks, &a, bytes, a.done};
    int result = launch_enqueue(&one, s, launches);
    list_clear(l);
    return result;
}
