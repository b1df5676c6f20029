/* layout_parts.h: an element cut into parts: consecutive packed bytes, each part a layout of its own.
 *
 * The parts of a message of absolute addresses lie in one allocation each: the receiver reads each where it has opened
 * that. It cuts its own layout at the same packed bytes. Parts know nothing of addresses, so equal fields share a
 * kernel, wherever they are. */
#ifndef STRIDEC_LAYOUT_PARTS_H
#define STRIDEC_LAYOUT_PARTS_H
#include "layout.h"

#define LAYOUT_PARTS 64   /* the most */

struct layout_parts {
    int n;                                /* 0: it can't be cut so */
    struct layout *part[LAYOUT_PARTS];    /* in packed order; offsets are those of the whole element */
};

/* Returns the parts of an element at absolute addresses on a device, by allocations; NULL if it can't be cut so. They
 * are kept once they are found: the caller checks that each still lies in one allocation. */
const struct layout_parts *layout_parts_by_memory(struct layout *l);
/* Returns the parts of these packed bytes, which add up to at most l->size; NULL if it can't be cut so, or was cut
 * otherwise at the first call. */
const struct layout_parts *layout_parts_by_bytes(struct layout *l, int n, const int64_t bytes[]);

/* Free the parts of a layout that ends. */
void layout_parts_free(struct layout_parts *p);

#endif
