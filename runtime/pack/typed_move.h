/* typed_move.h: one message's typed device buffer, and the kernels that move its bytes. */
#ifndef STRIDEC_TYPED_MOVE_H
#define STRIDEC_TYPED_MOVE_H
#include "datatype/layout.h"

struct transport;

struct typed_buffer {
    const struct transport *transport;
    struct layout *layout;     /* a reference */
    struct device *device;     /* owns the typed buffer */
    bool parts;                /* which lies in other memories too */
    char *user;                /* the typed buffer: the address that the application passed */
    int64_t count;             /* elements */
    int64_t bytes;             /* packed */
    bool on_host;              /* better not in device memory on its way */
    MPI_Datatype datatype;     /* a duplicate, for layouts that the MPI packs; else MPI_DATATYPE_NULL */
    struct pool_buffer *wire;   /* what the MPI sends from or receives into */
    struct pool_buffer *stage;   /* staged only: packed bytes on the device */
    void *address;             /* of wire, as the MPI takes it */
    struct bounce *block;   /* or of this, packed bytes of a buffer in host memory (bounce.h) */
    bool landing;   /* a header may come into the buffer itself (typed_buffer_landing) */
    int launches;
    int64_t moved, started;    /* in a batch: bytes, and when; counted when the parcel is closed */
    enum kernel_direction direction;
    struct typed_buffer *next;   /* in the batch */
};

/* Returns a parcel without buffers, for typed_buffer_move. Borrows the layout. The caller does not close it. */
struct typed_buffer typed_buffer_on(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Returns stats_now() if the log or the statistics tell how long messages take, else 0. */
int64_t typed_buffer_begin(void);
/* Adds the launches of p, these bytes, and the time since `begun` (typed_buffer_begin) to the statistics of its datatype. */
void typed_buffer_count(struct typed_buffer *p, const char *transport, int64_t bytes, int64_t begun);
/* Enqueues the kernel between the typed buffer and `packed` for the packed bytes [0, bytes). Returns 0 or -1. */
int typed_buffer_move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, uint64_t packed,
                      int64_t bytes);
/* Enqueues it for the packed bytes [begin, end). d, which is entered, owns all their typed bytes. `packed` is the
 * address of packed byte `begin`. */
int typed_buffer_move_range(struct typed_buffer *p, struct device *d, struct stream *s, enum kernel_direction direction,
                            uint64_t packed, int64_t begin, int64_t end);
/* Enqueues kernel_move_marked for the first `bytes`. Returns 0, -1, or 1 if the kernel can't mark. */
int typed_buffer_move_marked(struct typed_buffer *p, struct device *d, struct stream *s,
                             enum kernel_direction direction, uint64_t packed, int64_t bytes, const struct marks *marks,
                             uint32_t *late);
/* Returns kernel_chunk for all of p. */
int64_t typed_buffer_chunk(const struct typed_buffer *p);

#endif
