/* args.h: the buffers of one MPI call, for the calls that stubs.lua makes from calls.lua.
 *
 * An operand is a choice buffer with its counts, displacements and types: one piece or, in the vector collectives, one
 * for each rank or neighbour. Where the MPI can't take it as it is, the operand is carried:
 *   packed   its pieces lie packed in a wire buffer, one behind the other, and go down as elements of as many plain bytes:
 *            the counts stay, so that what the MPI decides by counts and sizes it decides alike on every rank; where
 *            each piece has a type of its own, all go down as bytes
 *            So may those in host memory, where stridec's own code packs quicker than the MPI (args_host.c)
 *   staged   its pieces lie in host memory in their own layout, for calls that look into the data (reductions) or whose
 *            bytes depend on the types (files): nothing but the address changes
 * Packed operands whose displacements don't fit the call's ints are staged. */
#ifndef STRIDEC_ARG_H
#define STRIDEC_ARG_H
#include "pack/typed_buffer.h"

/* Bits of operand.flags: what calls.lua says of a buffer. */
enum {
    ARG_IN = 1,
    ARG_OUT = 2,
    ARG_INOUT = ARG_IN | ARG_OUT,
    ARG_PARTIAL = 4,      /* the MPI may fill a part of it only */
    ARG_RANKS = 8,        /* the count, or each count, is for one rank of the (remote) group */
    ARG_NEIGHBORS = 16,   /* for one neighbour */
    ARG_SUM = 32,         /* all counts together */
    ARG_MINE = 64,        /* the own rank's count; in place the buffer holds what the whole group gets */
    ARG_AT_ROOT = 128,    /* significant at the root only */
    ARG_AT_LEAVES = 256,  /* at all ranks of one group; between two groups not at the root */
    ARG_BCAST = 512,      /* in at the root, out elsewhere */
    ARG_GROUP = 1024,     /* the count is for one rank of the own group */
    ARG_AFTER = 2048,     /* the first rank gets nothing */
    ARG_FLAT = 4096       /* its count and type may become others */
};

struct carried;

struct arg {
    int flags;
    void *buf;
    MPI_Count count;                 /* unless counts */
    const void *counts;              /* int, or MPI_Count where counts_wide */
    bool counts_wide;
    const void *displs;              /* int, or MPI_Aint where displs_wide: elements of type, or bytes with types */
    bool displs_wide;
    MPI_Datatype type;               /* unless types */
    const MPI_Datatype *types;
    /* What goes down. */
    void *use;
    MPI_Count use_count;
    const void *use_counts, *use_displs;
    MPI_Datatype use_type;
    const MPI_Datatype *use_types;
    bool hosted;                     /* carried in host memory, by host_pack.h */
    struct carried *carried;         /* NULL: as it is, ... */
    MPI_Datatype *runs;              /* ... but for these types in place of `types` (byte_types.h), to be freed */
};

/* What a one-sided operation with a request reads, which a synchronisation of the window completes too. */
struct read_from {
    MPI_Win win;
    int target;
    unsigned long number;            /* of the operation (rma.c); 0: there is none, or its data are in place */
};

enum args_how { ARGS_PACKED, ARGS_STAGED };
#define ARGS_MAX 3

struct args_set {
    enum args_how how;
    MPI_Comm comm;                   /* MPI_COMM_NULL: of files and windows; errors are raised on MPI_COMM_SELF */
    int root, n;
    bool message;                    /* point to point */
    bool later;                      /* a nonblocking or persistent collective */
    struct arg of[ARGS_MAX];
    bool receives;                   /* a receive among messages, from source: it may bring a descriptor (rndv_recv.h) ... */
    int source, tag;
    struct typed_buffer *watch;   /* ... for this parcel; else NULL */
    bool sends;                      /* a persistent send that may be offered (persistent_send.h), to dest */
    int dest;
    struct persistent_send *standing;   /* it is; else NULL */
    struct neighbor_topology *edges;   /* neighbor_topology.h; else NULL */
    struct partitioned *partitioned;   /* partitioned.h; else NULL */
    struct read_from read;           /* of a request */
    bool bounded;                    /* what comes out of a window is ... */
    int64_t brings;                  /* ... so many packed bytes, for which there may be more room */
};

/* No operand needs carrying: the call goes down as it is. */
#define ARGS_NONE (-1)
/* Sets what goes down; packs what the call reads. ARGS_NONE, MPI_SUCCESS, or an error that has been raised and
 * after which nothing is left to close. */
int args_open(struct args_set *o);
/* Of a call that reads so many elements of that type from a window. */
void args_bring(struct args_set *o, MPI_Count count, MPI_Datatype type);
/* After the call, which returned rc: unpacks what it wrote and gives everything back. status (may be NULL) tells how
 * much a partial operand got. Returns rc, or an error of unpacking. */
int args_close(struct args_set *o, int rc, const MPI_Status *status);

/* MPICH 4.0 copies the counts of MPI_Neighbor_alltoallw and its other forms as many as there are neighbours of the
 * wrong direction (pmodels/mpich#6233). The large forms have nothing to copy: they are called in place of the small
 * ones. */
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION >= 40000000 && MPICH_NUMVERSION < 40100300
#define DEGREES_SWAPPED 1
#endif
struct wide_counts {
    MPI_Count *to, *from;            /* one block */
};
/* Copies of counts for the neighbours that the rank sends to and receives from, to be freed by free(to). False without
 * memory, which has been raised. */
bool wide_counts(struct wide_counts *w, MPI_Comm comm, const int *to, const int *from);

/* After a call that started an operation: the operands stay until it completes, by a record of the request ... */
int args_keep(struct args_set *o, int rc, MPI_Request *request);
/* ... the same for what reads from a window, whose synchronisation may come first ... */
int args_keep_read(struct args_set *o, int rc, MPI_Request *request, MPI_Win win, int target);
/* Returns true while there are such reads. */
bool args_reading(void);
/* Notes that the data of such a read are in place. */
void args_have_read(struct args_set *o);
/* ... of a persistent request, each of whose starts packs anew ... */
int args_persist(struct args_set *o, int rc, MPI_Request *request);
/* ... the same of a receive that needs nothing (ARGS_NONE) but to find a message that lies aside (probed.h) ... */
int args_await(const struct args_set *o, int rc, const MPI_Request *request);
/* ... until the next synchronisation of the window that completes what goes to the target (rma.c) ... */
int args_keep_window(struct args_set *o, int rc, MPI_Win win, int target);
/* ... or until the split collective on the file ends (file_split.c). */
int args_keep_file(struct args_set *o, int rc, MPI_File file);

/* The steps of those. Puts all that is read into a batch; and, when that has been waited for, ends the packing: 0 or
 * -1. */
void args_pack(struct args_set *o, struct batch *b);
int args_packed(struct args_set *o);
/* Enqueues the unpacking of what was written into a batch; of a partial operand the first `bytes`. 0 or -1. */
int args_unpack(struct args_set *o, struct batch *b, int64_t bytes);
/* Packs n elements from the first of a carried operand of one piece, or unpacks them, and waits. Any number of
 * threads at once, each with elements of its own. 0 or -1. */
int args_move_part(const struct arg *p, int64_t first, int64_t n, bool pack);
void args_free(struct args_set *o);
/* Returns a copy that outlives the call, to be freed by reserve_put. */
struct args_set *args_move(const struct args_set *o);
bool args_partial(const struct args_set *o);
/* For whom a receive's descriptor would come, NULL where none can, and where its packed bytes arrive; *packed NULL:
 * the MPI writes them into the buffer itself. */
struct typed_buffer *args_awaited(const struct args_set *o, const void **packed);
/* args_ops.c: what stands behind the records of these. */
extern const struct request_ops args_ops;

#endif
