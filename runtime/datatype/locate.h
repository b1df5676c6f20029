/* locate.h: in which memories the bytes of a message lie: the host, or one device or another.
 *
 * One message may span several allocations only by absolute addresses and MPI_BOTTOM (MPI-3.1 §4.1.12). There every
 * part is looked at; elsewhere no more than the two ends, and often the first byte alone. */
#ifndef STRIDEC_WHERE_H
#define STRIDEC_WHERE_H
#include "layout.h"

struct location {
    struct device *device;   /* NULL: all of it on the host; of several memories, the first device met */
    bool parts;              /* in several memories */
    struct allocation around;   /* that holds all of it, where that is known; else all zeros */
};
/* Of count > 0 elements at buf; for counts that layout_bytes accepts, and types that are not empty. */
struct location locate(const struct layout *l, const void *buf, int64_t count);
/* The same of a tree that is not empty, all parts looked at wherever buf is. */
struct location locate_tree(const struct tree *t, const void *buf, int64_t count, int64_t extent);

/* The memory that was met last; all zeros at first. Good for one call: what is freed later comes back elsewhere. */
struct memory {
    struct device *device;   /* NULL: the host */
    uint64_t start, bytes;   /* a range in that memory */
};
/* How many of the `len` > 0 bytes at an address lie in the memory of the first; m becomes that memory. Few calls to
 * the driver: one an allocation on a device, about one a page on the host. */
int64_t memory_run(struct memory *m, uint64_t address, int64_t len);

#endif
