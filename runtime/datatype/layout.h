/* layout.h: what stridec knows of a datatype. It hangs on the datatype as an MPI attribute, so that it goes
 * when the handle does and a reused handle never meets an old layout. */
#ifndef STRIDEC_LAYOUT_H
#define STRIDEC_LAYOUT_H
#include "base/stats.h"
#include "host_pack_fast.h"
#include "kernel/kernel.h"
#include <mpi.h>
#include <stdatomic.h>

struct layout {
    atomic_int refs;
    atomic_bool committed;     /* the MPI has accepted the type in communication */
    bool named;                /* it was made for a named type; */
    MPI_Datatype plain;        /* that type, where host_type_plain; duplicates share the layout */
    struct tree *tree;         /* canonical; NULL if the type could not be read: then the MPI packs it (transport_mpi.c) */
    struct kernel *kernel;     /* NULL with tree, and for empty types */
    char *signature;           /* of tree, for people: of very long lists the form's; or "(unread)" */
    int64_t size;              /* packed bytes of one element */
    int64_t extent;            /* bytes between elements */
    int64_t low, high;         /* lowest byte that an element touches, one past the highest */
    int64_t grain;             /* of its basic elements, bytes; 0 where they differ */
    MPI_Datatype basic;        /* what all of them are; MPI_DATATYPE_NULL where they differ */
    int64_t block;             /* longest run that every part is made of, bytes: what transports are chosen by */
    int64_t run;               /* mean length of the contiguous runs, bytes */
    struct stats_row *stats;
    bool host_read;   /* read for data in host memory alone (pack_filter_due) */
    _Atomic uint64_t host_worth;   /* of the calls that host_pack_begin saw (pack_filter.c) */
    atomic_uint host_served;                /* calls that were stridec's */
    struct host_pack_quick quick;
    _Atomic(MPI_Datatype) bytes_type;   /* layout_bytes_type; MPI_DATATYPE_NULL until asked for */
    _Atomic(MPI_Datatype) runs_type;    /* byte_types.h; the same */
    _Atomic uint64_t published;   /* ipc_export.c: where its signature lies in the node's file; 0: not asked for */
    _Atomic uint64_t choice[2];   /* the last transports chosen (select.c), */
    _Atomic uint64_t offered, told;   /* whether to offer, and the last path told of (explain.c) */
};

/* How many runs a tree lists. */
int64_t layout_runs(const struct tree *t);
/* What `block` is for a tree. */
int64_t layout_block(const struct tree *t);

/* After MPI_Init, before any layout_of: makes the attribute's key. 0 or -1. */
int layout_start(void);
/* At MPI_Finalize. */
void layout_finish(void);

/* The layout of a datatype, read and hung on it at first use. NULL for MPI_DATATYPE_NULL and when memory is
 * out. Borrowed: it lives as long as the datatype; layout_ref to keep it longer. */
struct layout *layout_of(MPI_Datatype datatype);
/* Takes the name of a datatype that has a layout, for the statistics. */
void layout_name(MPI_Datatype datatype);
/* An empty one with one reference; NULL when memory is out. */
struct layout *layout_new(void);
struct layout *layout_ref(struct layout *l);
void layout_unref(struct layout *l);

/* A committed type of one element's packed bytes, as plain bytes; it lives as long as the layout.
 * MPI_DATATYPE_NULL without memory, and for elements past 2^31 bytes. */
MPI_Datatype layout_bytes_type(struct layout *l);

/* A committed type of the same layout, to keep longer than the program keeps its own. Not MPI_Type_dup, which would
 * call the copy functions of the program's attributes. MPI_DATATYPE_NULL where the MPI makes none. */
MPI_Datatype type_like(MPI_Datatype datatype);

/* True if `count` elements lie in one contiguous piece. */
bool layout_contiguous(const struct layout *l, int64_t count);
/* The packed bytes of count > 0 elements, or -1 where these or the span pass 2^63. */
int64_t layout_bytes(const struct layout *l, int64_t count);
/* First byte touched by count > 0 elements at buf, and one past the last; for counts that layout_bytes accepts. */
void layout_span(const struct layout *l, int64_t count, int64_t *first, int64_t *past);
/* Returns MPI_SUCCESS where the type is committed; else the MPI's error, raised on comm. */
int layout_committed(struct layout *l, MPI_Datatype datatype, MPI_Comm comm);

#endif
