/* scratch.c: see scratch.h. */
#include "scratch.h"
#include <stdlib.h>
#include <string.h>

struct scratch_more {
    struct scratch_more *next;
    _Alignas(max_align_t) char room[];
};

void *scratch_get(struct scratch *s, size_t bytes)
{
    size_t align = _Alignof(max_align_t), rounded = (bytes + align - 1) / align * align;
    if (rounded <= SCRATCH_BYTES - s->used) {
        void *here = s->room + s->used;
        s->used += rounded;
        return memset(here, 0, bytes);
    }
    struct scratch_more *m = calloc(1, sizeof *m + bytes);
    if (!m) return NULL;
    m->next = s->more, s->more = m;
    return m->room;
}

void scratch_end(struct scratch *s)
{
    for (struct scratch_more *m; (m = s->more); free(m)) s->more = m->next;
}
