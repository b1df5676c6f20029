/* layout.h: what stridec knows of a datatype, kept as an MPI attribute of that datatype. It is freed with the handle,
 * so a reused handle never finds an old layout. */
#ifndef STRIDEC_LAYOUT_H
#define STRIDEC_LAYOUT_H
#include "observe/stats.h"
#include "host_pack_fast.h"
#include "kernel/kernel.h"
#include <mpi.h>
#include <stdatomic.h>

struct layout {
    atomic_int refs;
    uint64_t number;           /* no other layout of the process had it */
    atomic_bool committed;     /* the MPI has accepted the type in communication */
    bool named;                /* made for a named type */
    MPI_Datatype plain;        /* the named type if host_type_plain, since duplicates share the layout */
    struct tree *tree;         /* canonical; NULL if unreadable: the MPI packs it (transport_mpi.c) */
    _Atomic(struct hulls *) hulls;   /* of locate.c; NULL until found */
    _Atomic(struct layout_parts *) by_memory, by_bytes;   /* of layout_parts.c; NULL until found */
    _Atomic uint32_t no_hulls, no_parts;   /* uses without them (layout_looks) */
    struct kernel *kernel;     /* NULL without tree, and for empty types */
    char *signature;           /* text of tree, for people; of the form if the list is very long; or "(unread)" */
    int64_t size;              /* packed bytes of one element */
    int64_t extent;            /* bytes between elements */
    int64_t low, high;         /* lowest byte of an element; one past the highest */
    int64_t grain;             /* bytes of each basic element; 0 if they differ */
    MPI_Datatype basic;        /* their common type; MPI_DATATYPE_NULL if they differ */
    int64_t block;             /* longest run that all parts consist of, bytes; selects the transport */
    int64_t run;               /* mean length of the contiguous runs, bytes */
    struct stats_row *stats;
    _Atomic(const char *) text;   /* signature, by trace_text; NULL until layout_text needs it */
    bool host_read;   /* read only for MPI_Pack in host memory (type_filter.c) */
    _Atomic uint64_t host_worth;   /* worth of the calls that host_pack_begin saw (type_filter.c) */
    atomic_uint host_served;                /* calls that stridec served */
    struct host_pack_quick quick;
    _Atomic(MPI_Datatype) bytes_type;   /* byte_types.h: its packed bytes; MPI_DATATYPE_NULL until first use */
    _Atomic(MPI_Datatype) runs_type;    /* byte_types.h: its layout; MPI_DATATYPE_NULL until first use */
    atomic_int slots_from;        /* rndv_send.c: where it looks for slots; 0: nowhere yet */
    _Atomic uint64_t published;   /* ipc_export.c: offset of its signature in the own node file; 0: not written */
    _Atomic uint64_t choice[2];   /* the last transports chosen (select.c) */
    _Atomic uint64_t offered, told;   /* whether zero-copy was chosen; the last path logged (explain.c) */
};

/* Returns true at the first use and at each 64th: then a caller looks again for what was not found. It depends on
 * memory at absolute addresses, which changes. */
static inline bool layout_looks(_Atomic uint32_t *uses)
{
    return atomic_fetch_add_explicit(uses, 1, memory_order_relaxed) % 64 == 0;
}
/* Returns the number of contiguous runs of a tree. */
int64_t layout_runs(const struct tree *t);
/* Returns `block` of struct layout for a tree. */
int64_t layout_block(const struct tree *t);

/* Creates the attribute's key after MPI_Init, before any layout_of. Returns 0 or -1. */
int layout_start(void);
/* Removes all layouts of named types and the key, at MPI_Finalize. */
void layout_finish(void);

/* Returns the layout of a datatype; reads and attaches it at first use. The layout lives until the application frees
 * the datatype: use layout_ref to keep it longer. Returns NULL for MPI_DATATYPE_NULL and without memory. */
struct layout *layout_of(MPI_Datatype datatype);
/* Detaches the layout of a datatype that the application is about to free.
 * Workaround (MPICH 4.0, UCX): where a message still uses the datatype, the MPI lets it go when the message completes,
 * and calls the functions of its attributes without the lock of its progress. If another thread progresses meanwhile,
 * UCX ends the job. */
void layout_forget(MPI_Datatype datatype);
/* False until a datatype has a layout. */
extern atomic_bool layout_any;
/* Copies the name of a datatype that has a layout into the statistics. */
void layout_name(MPI_Datatype datatype);
/* Returns the name of a datatype, else its signature if it has a layout, else NULL, by trace_text. */
const char *layout_title(MPI_Datatype datatype);
/* Adds a move that has ended to the statistics and the timeline. */
void layout_moved(struct layout *l, const struct stats_sample *sample);
/* Returns an empty layout with one reference; NULL without memory. */
struct layout *layout_new(void);
struct layout *layout_ref(struct layout *l);
void layout_unref(struct layout *l);

/* Returns a committed type of the same layout; the caller frees it. MPI_Type_dup would call copy functions of the
 * application's attributes, so it is not used. Returns MPI_DATATYPE_NULL on failure. */
MPI_Datatype type_like(MPI_Datatype datatype);

/* Returns true if `count` elements are one contiguous piece. */
bool layout_contiguous(const struct layout *l, int64_t count);
/* Returns true if there are gaps within or between elements, and a kernel packs them. */
bool layout_has_gaps(const struct layout *l);
/* Returns the packed bytes of count > 0 elements; -1 if that or the span exceeds 2^63. */
int64_t layout_bytes(const struct layout *l, int64_t count);
/* Sets *first to the lowest byte of count > 0 elements and *past to one past the highest, relative to the buffer. Valid
 * for counts that layout_bytes accepts. */
void layout_span(const struct layout *l, int64_t count, int64_t *first, int64_t *past);
/* Returns MPI_SUCCESS if the type is committed, else the MPI's error, raised on comm. */
int layout_committed(struct layout *l, MPI_Datatype datatype, MPI_Comm comm);

#endif
