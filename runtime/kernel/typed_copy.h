/* typed_copy.h: typed copies: bytes copied from one layout directly into another, many jobs at once.
 *
 * One launch of one module does several jobs. Nests of strides and contiguous bytes are described by numbers
 * (typed_copy_strided.c). Other short layouts are interpreted (typed_copy_program.c); a single job so only until the
 * module for its pair of layouts is compiled, in the background (typed_copy_pair.c). All else uses kernel_move, through
 * a packed buffer if both sides need a kernel. So typed_copy_move always does its job. */
#ifndef STRIDEC_TYPED_COPY_H
#define STRIDEC_TYPED_COPY_H
#include "kernel.h"

/* One side: `count` elements of a canonical tree, `extent` apart; `user` is the origin of element 0 plus the root's
 * offset. With a NULL tree: packed bytes at `user`. The device's kernels must be able to use the address: own
 * memory, a peer's, memory opened by CUDA IPC, or mapped host memory. */
struct typed_copy_side {
    const struct tree *tree;
    struct kernel *kernel;   /* of tree; NULL if tree is NULL */
    uint64_t user;
    int64_t extent, count;
};

/* Copies the first `bytes` of both sides' packed order; neither side has fewer. */
struct typed_copy_job {
    struct typed_copy_side from, to;
    int64_t bytes;
    bool across;             /* one side is not in the device's own memory */
};

/* Buffers that jobs of one stream need until the stream has been waited for. Begins zeroed. */
struct typed_copy_batch {
    struct pool_buffer *kept;
    struct pool_buffer *spare;   /* device memory that is kept before other is; the caller's */
};

/* Enqueues all jobs on s of d (entered), in any order: no job may write what another reads or writes. Adds launches
 * and copies to *launches. Returns 0, or -1 if the driver refuses (logged); then enqueued jobs still run. */
int typed_copy_move(struct typed_copy_batch *b, struct device *d, struct stream *s, const struct typed_copy_job *jobs,
                    int n, int *launches);
struct stridec_link;
/* Writes to links, with room for GEN_LINK_MOST, what the jobs, all with bytes, are in one launch, and sets *blocks.
 * Returns how many; 0 if one launch can't move all; -1 if the kernel is not there, or not yet. As long as the jobs'
 * memory and layouts are there typed_copy_move_links enqueues that launch. It returns 1 if it can't now, else 0 or -1
 * as typed_copy_move. */
int typed_copy_links(struct device *d, const struct typed_copy_job *jobs, int n, struct stridec_link *links,
                     uint32_t *blocks);
int typed_copy_move_links(struct device *d, struct stream *s, const struct stridec_link *links, int n, uint32_t blocks,
                          int *launches);
/* Returns a buffer that b keeps until its end; NULL without memory (logged). */
struct pool_buffer *typed_copy_keep(struct typed_copy_batch *b, struct device *d, enum buffer_kind kind, size_t bytes);
/* Frees the buffers of b, after the stream has been waited for. */
void typed_copy_end(struct typed_copy_batch *b);

/* typed_copy_order.c. Enqueues on s a kernel for words of device memory, GEN_FLAGS_MOST at most: after all earlier work
 * it stores 1 to the first `sets`, then waits until each of the next `waits` is 1, and stores 0 there. Returns 0; -1
 * (logged); or 1: its module is not ready. */
int typed_copy_flags(struct device *d, struct stream *s, const uint64_t at[], int sets, int waits);
/* Words of device memory that jobs of one launch wait for and set. Lists of addresses. */
struct typed_copy_words {
    const uint64_t *ready;   /* one a job: it waits for 1; 0 is stored there when all are done. NULL: none waits */
    int sets, ends, begins;
    const uint64_t *begin;   /* first of all 1 is stored here; */
    const uint64_t *set;     /* when all are done 1 is stored here, */
    const uint64_t *end;     /* and these are waited for, and 0 is stored there */
    uint64_t ended;          /* a word for this launch, 0 between launches */
};
/* Enqueues all jobs as one kernel that waits for their words itself. Returns 0; -1 (logged); or 1: it can't, and has
 * done nothing. Blocks that wait hold multiprocessors: jobs with `ready` go only if they make few blocks. */
int typed_copy_exchange(struct device *d, struct stream *s, const struct typed_copy_job *jobs, int n,
                        const struct typed_copy_words *w);

/* Requests the best modules for these jobs in the background; never waits. For persistent requests and first uses. */
void typed_copy_prepare(struct device *d, const struct typed_copy_job *jobs, int n);
/* Returns the kernel of a job's pair of layouts, with a reference, or NULL. Who holds it may have the job in a graph:
 * else its module may be unloaded. kernel_put releases it. */
struct kernel *typed_copy_hold(const struct typed_copy_job *job);
/* Requests modules and waits until they are ready or have failed. For tests, benchmarks, tune; never on an MPI path. */
void typed_copy_wait(struct device *d, const struct typed_copy_job *jobs, int n);
/* Drops the kernels that were kept for pairs of layouts. Call it before kernel_finish. */
void typed_copy_finish(void);

#endif
