/* job_sides.c: describes typed copies from slots to a buffer. */
#include "job_sides.h"
#include "datatype/layout_parts.h"

bool job_side_from(const struct peer *p, const struct slot *s, struct ipc_cache_layout *l, struct typed_copy_side *from)
{
    if (s->layout && !ipc_cache_layout(p, s->layout, l)) return false;
    *from = (struct typed_copy_side){.tree = l->tree, .kernel = l->kernel, .extent = s->extent, .count = s->count};
    return true;
}

/* Sets the sides of parts of an element at buf. Returns false if it can't be cut so. */
static bool cut_element(struct layout *l, const void *buf, struct typed_copy_job jobs[], int n)
{
    int64_t bytes[LAYOUT_PARTS];
    if (n < 1 || n > LAYOUT_PARTS) return false;
    for (int i = 0; i < n; i++) bytes[i] = jobs[i].bytes;
    const struct layout_parts *parts = layout_parts_by_bytes(l, n, bytes);
    for (int i = 0; parts && i < n; i++) {
        const struct layout *part = parts->part[i];
        uint64_t user = (uint64_t)(uintptr_t)buf + (uint64_t)part->tree->off;
        jobs[i].to = (struct typed_copy_side){part->tree, part->kernel, user, part->extent, 1};
    }
    return parts != NULL;
}

bool job_sides_cut(const struct typed_copy_side *to, struct layout *l, const void *buf, struct typed_copy_job jobs[],
                   int n)
{
    uint64_t at = to->user;
    if (n == 1) return jobs->to = *to, true;
    if (to->tree) return to->count == 1 && cut_element(l, buf, jobs, n);
    for (int i = 0; i < n; at += (uint64_t)jobs[i++].bytes) jobs[i].to = (struct typed_copy_side){.user = at};
    return true;
}
