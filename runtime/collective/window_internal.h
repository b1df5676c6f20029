/* window_internal.h: shared by window.c (making and freeing), window_epoch.c (synchronising), window_move.c (Put, Get)
 * and window_accumulate.c. */
#ifndef STRIDEC_WINDOW_INTERNAL_H
#define STRIDEC_WINDOW_INTERNAL_H
#include "node/ipc_cache.h"
#include "window.h"
#include <pthread.h>

/* Memory that the ranks share: this, a struct window_shared_rank for each, and two matrices of counters. */
struct window_shared_rank {
    _Alignas(64) _Atomic uint32_t lock;   /* of MPI_Win_lock: readers, or WINDOW_WRITER; and WINDOW_WANTED */
    _Alignas(64) _Atomic uint32_t mutex;  /* 1 while an accumulate changes the rank's memory. Its holder waits for
                                           * nobody but its own kernels; a rank that dies ends the job. */
};
struct window_shared {
    _Alignas(64) _Atomic uint64_t arrived;   /* at barriers so far, of all ranks */
    struct window_shared_rank rank[];
};
#define WINDOW_WRITER UINT32_C(0x80000000)
#define WINDOW_WANTED UINT32_C(0x40000000)   /* a writer waits: no new readers */

enum window_hold { HOLD_NONE, HOLD_SHARED, HOLD_EXCLUSIVE, HOLD_UNCHECKED };

/* A rank of the window. */
struct window_target {
    struct import *import;      /* NULL: nothing to open */
    uint64_t address;           /* of its memory, as the own device reads it */
    int64_t size, unit;
    bool across;                /* another GPU's memory */
    enum window_hold hold;      /* by MPI_Win_lock */
    bool started, exposed;      /* in the epoch of MPI_Win_start, of MPI_Win_post */
    uint32_t posts, completes;  /* of the rank for this one, that this one has waited for */
};

/* Operations under way; each has a stream, as later work on the default stream comes before the next one. */
#define WINDOW_MOVES 8
struct window_move {
    struct stream *stream;
    struct typed_copy_batch batch;
    struct layout *held[2];     /* whose lists the kernels read: the program may free the types meanwhile */
};

struct window {
    MPI_Win win;
    MPI_Group group;
    int rank, ranks;
    void *base;                 /* the own memory */
    MPI_Aint size;
    struct device *device;      /* runs the kernels; it holds the own memory, if any */
    bool drains;                /* peers don't see copies into the own memory before ipc_export_drain */
    bool fenced, all_locked, starts, posts;   /* epochs that are open */
    struct window_shared *shared;
    _Atomic uint32_t *posted, *completed;     /* the matrices: by rank that waits, and by rank that does it */
    atomic_bool lost;           /* the shared memory's file was cut */
    pthread_mutex_t lock;       /* guards the moves, and one thread's operation from another's */
    int n;
    struct window_move move[WINDOW_MOVES];
    struct window *next;
    struct window_target target[];
};

/* Raises an error on the window: logs it, calls the window's error handler. Returns the class. No lock is held. */
int window_raise(struct window *w, int class, const char *what);
/* Lets messages progress: a program may wait by one-sided calls alone for a rank that waits for its message. */
void window_progress(void);
/* Waits for all ranks. Returns MPI_SUCCESS, or MPI_ERR_OTHER if the shared memory is lost. */
int window_barrier(struct window *w);

/* window_move.c. These are called with w->lock held; with the device entered except window_settle. */

/* An operand at the origin. */
struct window_side {
    struct layout *layout;      /* NULL: no elements */
    MPI_Datatype type;
    void *buf;
    int64_t count, bytes;
    struct location where;
    bool direct;                /* the window's device uses it where it lies */
    struct pool_buffer *packed; /* else its packed bytes, in pinned memory */
    int launches;
};
/* Elements in the memory of a rank. */
struct window_there {
    int rank;
    struct layout *layout;      /* NULL: no elements */
    MPI_Datatype type;
    uint64_t address;
    int64_t count, bytes;
    bool across;
};
/* Returns the next move, with its stream; NULL on failure (logged). Waits for those before if there are too many. */
struct window_move *window_begin(struct window *w);
/* Waits for all moves, and ends them. Returns 0 or -1. */
int window_settle(struct window *w);
/* Sets *out to an operand: in place, or its packed bytes, for which it then has memory. Returns false without it. */
bool window_operand(struct window *w, struct window_move *m, struct window_side *s, struct typed_copy_side *out);
/* Fills an operand's packed bytes from its memory, or the reverse, unless it is direct. Returns 0 or -1. */
int window_repack(struct window_side *s, int64_t bytes, bool pack);
/* Enqueues a typed copy; adds to *launches. Returns 0 or -1. */
int window_copy(struct window *w, struct window_move *m, const struct typed_copy_job *job, int *launches);

/* window_accumulate.c. Does the call and waits for it; operands: origin, result, as the call has them; of
 * MPI_Compare_and_swap origin, compare, result. Returns MPI_SUCCESS, or an error to be raised with *what. */
int window_accumulate(struct window *w, const struct window_op *op, const struct window_there *there,
                      struct window_side side[ARGS_MAX], const char **what);

#endif
