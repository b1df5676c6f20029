/* typed_move.c: see typed_move.h. */
#include "typed_move.h"
#include "base/env.h"
#include "observe/stats.h"
#include "explain.h"
#include "hostpack/host_pack.h"
#include <string.h>

void typed_buffer_set(struct typed_buffer *p, struct layout *l, struct device *d, const void *buf, int64_t count)
{
    memset(p, 0, sizeof *p);
    p->layout = l, p->device = d, p->user = (char *)(uintptr_t)buf, p->count = count;
    p->bytes = layout_bytes(l, count), p->datatype = MPI_DATATYPE_NULL;
}

struct typed_buffer typed_buffer_on(struct layout *l, struct device *d, const void *buf, int64_t count)
{
    struct typed_buffer p;
    typed_buffer_set(&p, l, d, buf, count);
    return p;
}

int64_t typed_buffer_clock(void)
{
    return explain_wanted() || env_get()->timed ? stats_now() : 0;
}

void typed_buffer_stats(struct typed_buffer *p, const char *transport, int64_t bytes, int64_t begun)
{
    bool tells = explain_wanted();
    int launches = p->launches;
    p->launches = 0;
    if (!tells && !env_get()->timed) return;
    struct stats_sample sample = {
        .bytes = bytes,
        .nanoseconds = begun ? stats_now() - begun : 0,
        .launches = launches,
        .transport = transport,
        .state = !p->device ? host_pack_origin(p->layout) : p->layout->kernel ? kernel_state(p->layout->kernel) : NULL,
    };
    layout_moved(p->layout, &sample);
    if (tells) explain_path(p->layout, p->count, bytes, transport);
}

static struct kernel_job job_of(const struct typed_buffer *p, enum kernel_direction direction, uint64_t packed,
                                int64_t begin, int64_t end)
{
    return (struct kernel_job){
        .direction = direction,
        .packed = packed,
        .user = (uint64_t)(uintptr_t)p->user + (uint64_t)p->layout->tree->off,
        .extent = p->layout->extent,
        .count = p->count,
        .begin = begin,
        .end = end,
    };
}

int typed_buffer_move_range(struct typed_buffer *p, struct device *d, struct stream *s, enum kernel_direction direction,
                            uint64_t packed, int64_t begin, int64_t end)
{
    int launches = 0;
    struct kernel_job job = job_of(p, direction, packed, begin, end);
    int rc = kernel_move(p->layout->kernel, d, s, &job, &launches, NULL);
    p->launches += launches;
    return rc;
}

int64_t typed_buffer_chunk(const struct typed_buffer *p)
{
    struct kernel_job job = job_of(p, KERNEL_PACK, 0, 0, p->bytes);
    return kernel_chunk(p->layout->kernel, p->device, &job);
}

int typed_buffer_move_marked(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, uint64_t packed,
                             int64_t bytes, const struct marks *marks, uint32_t *late)
{
    int launches = 0;
    struct kernel_job job = job_of(p, direction, packed, 0, bytes);
    int rc = kernel_move_flagged(p->layout->kernel, p->device, s, &job, marks, late, &launches);
    p->launches += launches;
    return rc;
}

int typed_buffer_move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, uint64_t packed,
                      int64_t bytes)
{
    return typed_buffer_move_range(p, p->device, s, direction, packed, 0, bytes);
}
