/* args_internal.h: shared by the files of args.h: args.c (which arguments are bounced), args_stage.c (their memory),
 * args_replace.c (what is passed for them), args_file.c (views of files), args_move.c (packing, unpacking),
 * args_host.c (packing of host memory). */
#ifndef STRIDEC_ARGS_INTERNAL_H
#define STRIDEC_ARGS_INTERNAL_H
#include "args.h"
#include "base/error.h"
#include "base/bounce.h"
#include "request/record.h"

/* The ranks of a call's communicator. */
struct group {
    int rank, ranks, peers;   /* peers: ranks of the other group of an intercommunicator, else ranks */
    bool root, leaf;
    bool grid;                /* a Cartesian topology: neighbors past its edges are MPI_PROC_NULL */
};

struct arg_piece {
    struct layout *layout;    /* borrowed from the type */
    MPI_Datatype type;
    char *buf;
    int64_t count, bytes;
};

/* How an argument is passed because of where it lies: host memory; device memory that the MPI takes; bounced. */
enum arg_way { WAY_HOST, WAY_PASS, WAY_BOUNCE };
/* Returns the greatest way of a call's arguments. */
enum arg_way args_way(const struct args_set *o);
/* Returns true if stridec may pass packed bytes in device memory in this call. */
bool args_device_aware(const struct args_set *o);
/* Returns the i-th count, or displacement, of the argument's lists. */
int64_t args_count(const struct arg *p, int i);
int64_t args_displ(const struct arg *p, int i);
/* Returns the length that a list of n types needs.
 * Workaround (Open MPI 4.1): MPI_Ialltoallw reads one type for each neighbor, and at least one. */
int args_list_length(const struct args_set *o, int n);
int args_pieces(const struct args_set *o, const struct arg *p, const struct group *g);
/* Sets *out to the i-th piece. Returns false if the piece is empty or its arguments are wrong. */
bool args_piece(const struct args_set *o, const struct arg *p, const struct group *g, int i, struct arg_piece *out);
void args_as_is(struct arg *p);
/* Passes the buffer by types of bytes (byte_types.h), since other ranks may send packed bytes to host memory here.
 * Returns true if a type was replaced. */
bool args_byte_types(const struct args_set *o, struct arg *p, const struct group *g);
/* Returns true if the file's view takes bytes as they are: representation "native". */
bool file_is_native(MPI_File fh);
/* One piece; its typed buffer uses parts of the argument's bounce buffers. */
struct piece {
    struct typed_buffer tbuf;
    struct pool_buffer wire, stage;
    MPI_Datatype source;         /* the call's own */
    MPI_Datatype type;           /* a duplicate if the MPI moves the piece, else MPI_DATATYPE_NULL */
};

struct bounced {
    struct bounce *packed;       /* packed bytes if host_packed; no transport is used then */
    struct typed_buffer whole;   /* the argument's bounce buffers; the layout of the first piece */
    bool staged;
    uintptr_t host_copy;         /* staged: stands for p->buf in host memory; 0: the bounce buffer does */
    void *block;                 /* memory of host_copy */
    size_t mapped;               /* its size if from mmap; 0: from malloc */
    void *counts, *displs;
    MPI_Datatype *types;
    int n;
    struct piece piece[];
};

/* Bounces the argument: sets p->bounced and what is passed. Returns MPI_SUCCESS, or an error that has been raised. */
int args_bounce(const struct args_set *o, struct arg *p, const struct group *g);
/* Returns true if the argument lies in host memory and host_pack.h is to pack it. */
bool args_host_packed(const struct args_set *o, const struct arg *p, const struct group *g);
/* Packs such an argument, or unpacks its first `bytes`. */
void args_host_move(struct bounced *c, bool pack, int64_t bytes);
/* Sets what is passed for a packed argument. Returns false if that does not fit the call's integers. */
bool args_arguments(const struct args_set *o, struct arg *p, const struct group *g, struct bounced *c);
/* Gives back a stage that the transport acquired for parts in several memories. */
void piece_drop_stage(struct piece *piece);

static inline struct pool_buffer buffer_part(const struct pool_buffer *b, int64_t at, size_t bytes)
{
    struct pool_buffer part = *b;
    part.host = b->host ? (char *)b->host + at : NULL;
    part.address = b->address + (uint64_t)at;
    part.bytes = bytes;
    return part;
}

/* Returns true if the group is one rank. Open MPI sends device memory to itself slowly: 512^3, 26 neighbors: 21 ms
 * (H200). */
static inline bool group_alone(const struct args_set *o, const struct group *g)
{
    return o->comm != MPI_COMM_NULL && g->ranks == 1 && g->peers == 1;
}

/* Returns true if each peer has a piece. */
static inline bool args_lists(const struct arg *p)
{
    return p->counts && !(p->flags & (ARG_SUM | ARG_MINE));
}

static inline MPI_Comm args_comm(const struct args_set *o)
{
    return o->comm == MPI_COMM_NULL ? MPI_COMM_SELF : o->comm;
}

/* args_move.c. Adds the unpacking of all to a batch, also of what another call has begun to. Returns 0 or -1. */
int args_unpack_all(struct args_set *o, struct batch *b);

/* Raises an error of the call where it belongs. Returns its code. */
static inline int args_raise(const struct args_set *o, int code, const char *what)
{
    return o->file        ? raise_file_error(o->fh, code, what)
           : o->one_sided ? raise_window_error(o->win, code, what)
                          : raise_error(args_comm(o), code, what);
}

#endif
