/* typed_copy.h: links: bytes moved from one layout straight into another, many at once.
 *
 * Several jobs go in one launch of one module, however many they are: chains of strides and packed bytes by numbers
 * (typed_copy_strided.c), other layouts, where short, interpreted (typed_copy_program.c). A job alone takes a module
 * made for its pair of layouts, compiled in the background (typed_copy_pair.c). What none of these serves goes by
 * kernel_move, through a packed buffer where both sides need a kernel. So typed_copy_move always does its job. */
#ifndef STRIDEC_LINK_H
#define STRIDEC_LINK_H
#include "kernel.h"

/* One side: `count` elements of a canonical tree, `extent` apart, the origin of element 0 plus the root's offset at
 * `user`; or, tree NULL, packed bytes at `user`. Any address that kernels of the device can use: its own memory, a
 * peer's, another process's opened over CUDA IPC, or mapped host memory. */
struct typed_copy_side {
    const struct tree *tree;
    struct kernel *kernel;   /* of tree; NULL with it */
    uint64_t user;
    int64_t extent, count;
};

/* The first `bytes` of both sides' packed order: no more than either has. */
struct typed_copy_job {
    struct typed_copy_side from, to;
    int64_t bytes;
    bool across;             /* one side is not in the device's own memory */
};

/* What moves of one stream need until it has been waited for. Begins zeroed. */
struct typed_copy_batch {
    struct pool_buffer *kept;
};

/* Enqueues all jobs on s of d (entered), in any order: none may write what another reads or writes. Adds launches and
 * copies to *launches. 0; or -1 where the driver refuses (logged): what was enqueued still runs. */
int typed_copy_move(struct typed_copy_batch *b, struct device *d, struct stream *s, const struct typed_copy_job *jobs,
                    int n, int *launches);
/* Gives back what b holds, after the stream's end. */
void typed_copy_end(struct typed_copy_batch *b);

/* Asks in the background for what will serve these jobs best; never waits. For persistent requests and first sights. */
void typed_copy_prepare(struct device *d, const struct typed_copy_job *jobs, int n);
/* Asks, and waits until it is there or has failed (tests, benchmarks, tune; never on an MPI path). */
void typed_copy_wait(struct device *d, const struct typed_copy_job *jobs, int n);

#endif
