/* reduce.h: reductions on a GPU: a kernel combines rows of elements by one of MPI's predefined operations. One module
 * for each type of element, with all its operations, compiled in the background. */
#ifndef STRIDEC_REDUCE_H
#define STRIDEC_REDUCE_H
#include "kernel.h"

/* Row k of `rows` lies at from + k * step, all in memory that the device's kernels can use; `to` gets the result of
 * row 0 OP row 1 OP ... `to` may be a row. No other rows may overlap. */
struct reduce_job {
    enum gen_reduce_type type;
    enum gen_op op;
    uint64_t from, to;
    int64_t step;     /* bytes, of either sign */
    int rows;         /* at least one */
    int64_t count;    /* elements of a row */
    bool all;         /* each row from the second on also becomes the result up to it */
};

/* Return the bytes of an element, and what its address must be a multiple of. */
int reduce_element_bytes(enum gen_reduce_type type);
int reduce_alignment(enum gen_reduce_type type);
/* Returns true if the type's module is ready on d; requests it if nobody has. Never waits. */
bool reduce_ready(enum gen_reduce_type type, struct device *d);
/* Enqueues one kernel on s of d, which must be entered; the module is ready. Adds to *launches. Returns 0, or -1 if the
 * driver refuses (logged). */
int reduce_move(struct device *d, struct stream *s, const struct reduce_job *job, int *launches);

#endif
