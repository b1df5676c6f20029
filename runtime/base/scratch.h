/* scratch.h: memory for the lists of one call, on its stack while that suffices. */
#ifndef STRIDEC_SCRATCH_H
#define STRIDEC_SCRATCH_H
#include <stddef.h>

#define SCRATCH_BYTES 4096
/* scratch_begin begins it: the room is not zeroed. */
struct scratch {
    size_t used;
    struct scratch_more *more;   /* from malloc */
    _Alignas(max_align_t) char room[SCRATCH_BYTES];
};
static inline void scratch_begin(struct scratch *s)
{
    s->used = 0, s->more = NULL;
}
/* Returns `bytes`, zeroed, until scratch_end; NULL without memory. */
void *scratch_get(struct scratch *s, size_t bytes);
void scratch_end(struct scratch *s);

#endif
