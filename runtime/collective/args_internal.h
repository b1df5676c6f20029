/* args_internal.h: what the files of args.h share: args.c (which operands are carried), args_stage.c (their
 * memory), args_replace.c (what goes down for them), args_move.c (packing and unpacking),
 * args_host.c (those in host memory). */
#ifndef STRIDEC_ARG_INNER_H
#define STRIDEC_ARG_INNER_H
#include "args.h"
#include "base/bounce.h"
#include "request/record.h"

/* The own rank in the communicator of a call. */
struct group {
    int rank, ranks, peers;   /* peers: of the remote group between two groups */
    bool root, leaf;
    bool grid;                /* a cartesian topology: neighbours past its edges are MPI_PROC_NULL */
};

struct piece_of {
    struct layout *layout;    /* borrowed from the type */
    MPI_Datatype type;
    char *buf;
    int64_t count, bytes;
};

/* The MPI takes device memory itself. */
bool takes_devices(const struct args_set *o);
/* The i-th of its lists. */
int64_t args_count(const struct arg *p, int i);
int64_t args_displ(const struct arg *p, int i);
/* Of a list of n types: Open MPI 4.1's MPI_Ialltoallw looks at as many as the communicator's topology has
 * neighbours, and takes zeros for none. */
int args_room(const struct args_set *o, int n);
int args_pieces(const struct args_set *o, const struct arg *p, const struct group *g);
/* The i-th; false if it holds nothing, or nothing that can be told. */
bool args_piece(const struct args_set *o, const struct arg *p, const struct group *g, int i, struct piece_of *out);
/* Sets what goes down to what the call was given. */
void args_as_is(struct arg *p);
/* The same by types of bytes (byte_types.h): other ranks may send packed bytes to what lies in host memory here.
 * True if other types go down. */
bool args_by_runs(const struct args_set *o, struct arg *p, const struct group *g);
/* One piece: a parcel whose buffers are parts of the operand's. */
struct piece {
    struct typed_buffer parcel;
    struct pool_buffer wire, stage;
    MPI_Datatype source;         /* the call's own */
    MPI_Datatype type;           /* a duplicate, where the MPI moves the piece; else MPI_DATATYPE_NULL */
};

struct carried {
    struct bounce *packed;   /* hosted: its bytes; the parcels have no transports */
    struct typed_buffer whole;   /* the operand's buffers; its layout is the first piece's */
    bool staged;
    uintptr_t shadow;            /* staged: the user's bytes in host memory, where p->buf stands for; 0: the wire is that */
    void *block;                 /* what shadow lies in ... */
    size_t mapped;               /* ... of so many bytes, mapped; 0: malloc's */
    void *counts, *displs;
    MPI_Datatype *types;
    int n;
    struct piece piece[];
};

/* Makes p->carried and what goes down. An MPI error that has been raised, or MPI_SUCCESS. */
int args_carry(const struct args_set *o, struct arg *p, const struct group *g);
/* True of an operand in host memory that is to be packed by host_pack.h. */
bool args_hosted(const struct args_set *o, const struct arg *p, const struct group *g);
/* Packs such a one, or unpacks the first `bytes`. */
void args_move_hosted(struct carried *c, bool pack, int64_t bytes);
/* The arguments of a packed operand; false where they don't fit the call. */
bool args_arguments(const struct args_set *o, struct arg *p, const struct group *g, struct carried *c);
/* Of parts in several memories the transport may have taken a stage by itself. */
void piece_drop_stage(struct piece *piece);

static inline struct pool_buffer buffer_part(const struct pool_buffer *b, int64_t at, size_t bytes)
{
    struct pool_buffer part = *b;
    part.host = b->host ? (char *)b->host + at : NULL;
    part.address = b->address + (uint64_t)at;
    part.bytes = bytes;
    return part;
}

/* Open MPI is slow with device memory sent to the own rank: the 26 neighbours of 512^3 on one H200 take 21 ms. */
static inline bool group_alone(const struct args_set *o, const struct group *g)
{
    return o->comm != MPI_COMM_NULL && g->ranks == 1 && g->peers == 1;
}

/* One piece for each peer. */
static inline bool args_lists(const struct arg *p)
{
    return p->counts && !(p->flags & (ARG_SUM | ARG_MINE));
}

static inline MPI_Comm args_comm(const struct args_set *o)
{
    return o->comm == MPI_COMM_NULL ? MPI_COMM_SELF : o->comm;
}

#endif
