/* args.h: the buffer arguments of one MPI call. stubs.lua writes the calls of these functions from calls.lua.
 *
 * A buffer argument has counts, displacements and types: one piece, or a piece for each rank or neighbor.
 * If the MPI can't take it as it is, the argument is bounced: its data pass through a bounce buffer.
 *   packed   The pieces lie packed, one after the other. The MPI gets elements of plain bytes, one for each element.
 *            So the counts stay, and what the MPI decides by counts and sizes is alike on every rank.
 *            If each piece has its own type, all are passed as bytes.
 *            Host memory is packed too, where stridec packs quicker than the MPI (args_host.c).
 *   staged   The pieces lie in host memory in their own layout; only the address changes. For calls that read the data
 *            (reductions) or whose bytes depend on types (files whose view converts them), and if packed displacements
 *            don't fit the call. */
#ifndef STRIDEC_ARGS_H
#define STRIDEC_ARGS_H
#include "pack/typed_buffer.h"
#include "base/mpi_workarounds.h"
#include <limits.h>

/* Bits of arg.flags, from calls.lua. */
enum {
    ARG_IN = 1,
    ARG_OUT = 2,
    ARG_INOUT = ARG_IN | ARG_OUT,
    ARG_PARTIAL = 4,      /* the MPI may fill only a part of it */
    ARG_RANKS = 8,        /* the count, or each count, is for one rank of the (remote) group */
    ARG_NEIGHBORS = 16,   /* the count, or each count, is for one neighbor */
    ARG_SUM = 32,         /* the number of elements is the sum of all counts */
    ARG_MINE = 64,        /* the own rank's count; in place, the buffer holds what the whole group gets */
    ARG_AT_ROOT = 128,    /* significant at the root only */
    ARG_AT_LEAVES = 256,  /* significant at all ranks of one group; between two groups not at the root */
    ARG_BCAST = 512,      /* input at the root, output elsewhere */
    ARG_GROUP = 1024,     /* the count is for one rank of the own group */
    ARG_AFTER = 2048,     /* the first rank gets nothing */
    ARG_FLAT = 4096       /* its count and type may be replaced */
};

struct bounced;

struct arg {
    int flags;
    void *buf;
    MPI_Count count;                 /* if counts is NULL */
    const void *counts;              /* int, or MPI_Count if counts_wide */
    bool counts_wide;
    const void *displs;              /* int, or MPI_Aint if displs_wide: elements of type; bytes if types is set */
    bool displs_wide;
    MPI_Datatype type;               /* if types is NULL */
    const MPI_Datatype *types;
    /* Passed to the MPI: */
    void *use;
    MPI_Count use_count;
    const void *use_counts, *use_displs;
    MPI_Datatype use_type;
    const MPI_Datatype *use_types;
    bool host_packed;                /* bounced in host memory, packed by host_pack.h */
    struct bounced *bounced;         /* NULL: not bounced */
    MPI_Datatype *byte_types;        /* passed in place of `types` if not bounced (byte_types.h); owned */
};

/* One operation of a window (rma.c). A synchronisation of the window completes it, as its own request does. */
struct rma_op {
    MPI_Win win;
    int target;
    unsigned long number;            /* from 1; 0: no operation, or its data are in place */
};

#define ALL_TARGETS INT_MIN   /* no rank, and not MPI_PROC_NULL */

/* Returns true if the synchronisation `last` completes the operation, of the same window. */
static inline bool rma_is_covered(const struct rma_op *of, const struct rma_op *last)
{
    return of->number && of->number <= last->number && (last->target == ALL_TARGETS || of->target == last->target);
}

enum args_how { ARGS_PACKED, ARGS_STAGED };
#define ARGS_MAX 3

struct args_set {
    enum args_how how;
    MPI_Comm comm;                   /* MPI_COMM_NULL for files and windows (args_raise) */
    int root, n;
    bool message;                    /* point to point */
    bool file;                       /* of the file fh: bounced in host memory */
    MPI_File fh;
    bool one_sided;                  /* of the window win */
    MPI_Win win;
    bool later;                      /* a nonblocking or persistent collective */
    struct arg of[ARGS_MAX];
    bool receives;                   /* a receive from `source` that may bring an RTS header (rndv_recv.h) */
    int source, tag;
    struct typed_buffer *recv_buffer;   /* of such a receive, or NULL */
    bool sends;                      /* a persistent send to `dest` that may be a rendezvous send (persistent_send.h) */
    bool synchronous;                /* such a send, which ends only after the match */
    int dest;
    struct persistent_send *persist_send;   /* set if it is one, else NULL */
    struct neighbor_topology *edges;
    struct neighbor_work *work;      /* of a reduction that goes by these edges, else NULL */
    struct partitioned *partitioned;
    struct rma_op read;              /* of a request that reads from a window */
    bool reads;                      /* there is such a read, or was */
    const void *reader;              /* the thread that unpacks it, or has (args_keep.c); NULL: none */
    struct args_set *next_read;      /* in the list of these */
    bool bounded;
    int64_t bound_bytes;             /* if bounded: packed bytes that come out of a window; the buffer may be larger */
};

/* Returned by args_open: no argument needs a change, and the call passes to the MPI as it is. */
#define ARGS_NONE (-1)
/* Sets what is passed to the MPI and packs what the call reads; waits for the packing. Returns ARGS_NONE,
 * MPI_SUCCESS, or an error that has been raised; after an error nothing is left to close. */
int args_open(struct args_set *o);
/* Notes that the call reads `count` elements of `type` from a window. */
void args_bound_read(struct args_set *o, MPI_Count count, MPI_Datatype type);
/* Unpacks what the call wrote and frees everything. `rc` is what the call returned; a status (may be NULL) says how
 * much a partial argument got. Returns rc, or an error of unpacking. */
int args_close(struct args_set *o, int rc, const MPI_Status *status);

/* Sets the numbers of neighbors that the rank receives from and sends to; 0 without a topology. */
void args_degrees(MPI_Comm comm, int *in, int *out);
/* Workaround (MPICH 4.0): MPI_Neighbor_alltoallw and its other forms copy as many counts as there are neighbors of
 * the wrong direction (pmodels/mpich#6233). The large-count forms copy none: they are called in place of the small
 * ones. */
struct wide_counts {
    MPI_Count *to, *from;            /* one memory block */
};
/* Copies the counts for the neighbors that the rank sends to and receives from; the caller calls free(w->to).
 * Returns false without memory, which has been raised. */
bool wide_counts(struct wide_counts *w, MPI_Comm comm, const int *to, const int *from);

/* Keeps the arguments in a record of the request until the operation completes. `rc` is what the starting call
 * returned. This and the functions below return rc or an error that has been raised. */
int args_keep(struct args_set *o, int rc, MPI_Request *request);
/* Keeps them for a read from a window, which a synchronisation of the window may complete before the request. */
int args_keep_read(struct args_set *o, int rc, MPI_Request *request, MPI_Win win, int target);
/* Returns true if any such read is pending. */
bool args_reading(void);
/* Returns true if the caller is to unpack: the first to ask, of such a read. */
bool args_read_begin(struct args_set *o);
/* Notes that the data of such a read are in place. */
void args_read_done(void *set);
/* Unpacks the reads that `last` completed, and waits for those that other threads unpack. Returns 0 or -1. */
int args_reads_finish(const struct rma_op *last);
/* Keeps them for a persistent request; each start packs again. */
int args_persist(struct args_set *o, int rc, MPI_Request *request);
/* Adds a record of a persistent receive that needs no change (ARGS_NONE), so that a start finds a probed message
 * (probed.h). */
int args_persist_recv(const struct args_set *o, int rc, const MPI_Request *request);
/* Keeps them until the next synchronisation of the window that completes operations on the target (rma.c). */
int args_keep_window(struct args_set *o, int rc, MPI_Win win, int target);
/* Keeps them until the split collective on the file ends (file_split.c). */
int args_keep_file(struct args_set *o, int rc, MPI_File file);

/* Adds what the call reads to a batch. After the wait for the batch, args_packed ends the packing: 0 or -1. */
void args_pack(struct args_set *o, struct batch *b);
int args_packed(struct args_set *o);
/* Packs or unpacks n elements from `first` on of a bounced argument of one piece, and waits. Returns 0 or -1. Any
 * number of threads may call it at once, each with its own elements. */
int args_move_part(const struct arg *p, int64_t first, int64_t n, bool pack);
void args_free(struct args_set *o);
/* Returns true if the type is committed; raises no error. */
bool args_committed(struct layout *l, MPI_Datatype type);

/* Operations of args_ops, on a struct args_set. */
extern const struct request_ops args_ops;
/* Adds the unpacking of what was written to a batch; of a partial argument the first `bytes`. Returns 0 or -1. */
int args_unpack(void *set, struct batch *b, int64_t bytes);
bool args_partial(const void *set);
/* Returns the typed buffer of a receive that may bring an RTS header, or NULL. Sets *packed to where packed bytes
 * arrive; NULL: in the buffer itself. */
struct typed_buffer *args_recv_buffer(const void *set, const void **packed);

#endif
