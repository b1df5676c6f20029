/* job_sides.h: the two sides of the typed copies that read a peer's payload: what its slots describe, and the own
 * buffer, cut where the sender's allocations end. */
#ifndef STRIDEC_JOB_SIDES_H
#define STRIDEC_JOB_SIDES_H
#include "datatype/layout.h"
#include "kernel/typed_copy.h"
#include "node/ipc_cache.h"

/* Describes the elements of a slot of p's, or packed bytes; the caller opens their memory and sets from->user. Returns
 * false if their layout can't be read. The caller ends the use of l, zeroed before, by ipc_cache_layout_put. */
bool job_side_from(const struct peer *p, const struct slot *s, struct ipc_cache_layout *l,
                   struct typed_copy_side *from);
/* Sets the sides that the bytes of n jobs go to, one behind the other: parts of `to`, the side of elements of l at buf,
 * or of packed bytes. Returns false if it can't be cut so. */
bool job_sides_cut(const struct typed_copy_side *to, struct layout *l, const void *buf, struct typed_copy_job jobs[],
                   int n);

#endif
