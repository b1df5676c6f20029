/* typed_move.h: one message's typed device buffer, and the kernels that move its bytes. */
#ifndef STRIDEC_TYPED_MOVE_H
#define STRIDEC_TYPED_MOVE_H
#include "datatype/layout.h"

struct transport;

struct parcel {
    const struct transport *transport;
    struct layout *layout;     /* a reference */
    struct device *device;     /* owns the typed buffer */
    bool parts;                /* which lies in other memories too */
    char *user;                /* the typed buffer: the address that the application passed */
    int64_t count;             /* elements */
    int64_t bytes;             /* packed */
    bool on_host;              /* better not in device memory on its way */
    MPI_Datatype datatype;     /* a duplicate, for layouts that the MPI packs; else MPI_DATATYPE_NULL */
    struct buffer *wire;       /* what the MPI sends from or receives into */
    struct buffer *stage;      /* staged only: packed bytes on the device */
    void *address;             /* of wire, as the MPI takes it */
    struct block *block;       /* or of this, packed bytes of a buffer in host memory (bounce.h) */
    bool landing;              /* a header may come into the buffer itself (parcel_landing) */
    int launches;
    int64_t moved, started;    /* in a batch: bytes, and when; counted when the parcel is closed */
    enum kernel_direction direction;
    struct parcel *next;       /* in the batch */
};

/* Returns a parcel without buffers, for parcel_move. Borrows the layout. The caller does not close it. */
struct parcel parcel_on(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Returns stats_now() if the log or the statistics tell how long messages take, else 0. */
int64_t parcel_begin(void);
/* Adds the launches of p, these bytes, and the time since `begun` (parcel_begin) to the statistics of its datatype. */
void parcel_count(struct parcel *p, const char *transport, int64_t bytes, int64_t begun);
/* Enqueues the kernel between the typed buffer and `packed` for the packed bytes [0, bytes). Returns 0 or -1. */
int parcel_move(struct parcel *p, struct stream *s, enum kernel_direction direction, uint64_t packed, int64_t bytes);
/* Enqueues it for the packed bytes [begin, end). d, which is entered, owns all their typed bytes. `packed` is the
 * address of packed byte `begin`. */
int parcel_move_range(struct parcel *p, struct device *d, struct stream *s, enum kernel_direction direction,
                      uint64_t packed, int64_t begin, int64_t end);
/* Enqueues kernel_move_marked for the first `bytes`. Returns 0, -1, or 1 if the kernel can't mark. */
int parcel_move_marked(struct parcel *p, struct device *d, struct stream *s, enum kernel_direction direction,
                       uint64_t packed, int64_t bytes, const struct marks *marks, uint32_t *late);
/* Returns kernel_chunk for all of p. */
int64_t parcel_chunk(const struct parcel *p);

#endif
