/* locate.h: the memories in which the bytes of a message lie: the host, or one or several devices.
 *
 * Only absolute addresses with MPI_BOTTOM let one message span several allocations (MPI-3.1 §4.1.12). For these every
 * part is checked; otherwise the two ends at most, and often only the first byte. */
#ifndef STRIDEC_LOCATE_H
#define STRIDEC_LOCATE_H
#include "layout.h"

struct location {
    struct device *device;   /* NULL: all on the host; of several memories the first device */
    bool parts;              /* in several memories */
    bool on_host;            /* false from `locate`; callers may set it: no device memory for packed bytes */
    bool as_before;          /* a layout of absolute addresses lies in the allocations in which it was first found; none
                              * is mapped in pieces */
    struct allocation around;   /* the allocation that holds all of it, if known; else all zeros */
};
/* Sets *w to the location of count > 0 elements at buf, for counts that layout_bytes accepts and nonempty types. */
void locate_to(struct location *w, struct layout *l, const void *buf, int64_t count);
static inline struct location locate(struct layout *l, const void *buf, int64_t count)
{
    struct location w;
    locate_to(&w, l, buf, count);
    return w;
}
/* Sets *a to the allocation around an address of a layout whose location says as_before. Returns false if there is
 * none. */
bool locate_before(const struct layout *l, uint64_t address, struct allocation *a);
/* Returns the location of a nonempty tree; checks all its parts wherever buf is. */
struct location locate_tree(const struct tree *t, const void *buf, int64_t count, int64_t extent);

/* The memory found last; all zeros at first. Valid for one call only, since freed addresses are reused. */
struct memory {
    struct device *device;   /* NULL: the host */
    uint64_t start, bytes;   /* a range in that memory */
};
/* Returns how many of the `len` > 0 bytes at `address` lie in the memory of the first byte. Sets *m to that memory.
 * Asks the driver once an allocation on a device, and about once a page on the host. */
int64_t locate_run(struct memory *m, uint64_t address, int64_t len);

#endif
