/* typed_move.h: one message's typed device buffer, and the kernels that move its bytes. */
#ifndef STRIDEC_TYPED_MOVE_H
#define STRIDEC_TYPED_MOVE_H
#include "datatype/layout.h"

struct transport;

struct typed_buffer {
    const struct transport *transport;
    struct layout *layout;     /* counted reference */
    struct device *device;     /* owner of the typed buffer */
    bool parts;                /* the buffer lies in other memories too */
    bool hosted;               /* it lies in host memory: CUDA, which may hold up such a question, is not asked */
    char *user;                /* address that the application passed */
    int64_t count;
    int64_t bytes;             /* packed */
    bool on_host;              /* avoid device memory for packed bytes */
    MPI_Datatype datatype;     /* a copy for layouts that the MPI packs; else MPI_DATATYPE_NULL */
    struct pool_buffer *wire;   /* bounce buffer: what the MPI sends or receives */
    struct pool_buffer *stage;   /* staged only: packed bytes on the device */
    void *address;             /* address of wire for the MPI */
    struct bounce *block;   /* or packed bytes of a host buffer (bounce.h) */
    bool recv_noted;   /* an RTS may arrive in the buffer itself (typed_buffer_note_recv) */
    int launches;
    int64_t moved, started;    /* in a batch: bytes, and start time; counted at close */
    enum kernel_direction direction;
    struct typed_buffer *next;   /* in the batch */
};

/* Returns a typed buffer without bounce buffers, for typed_buffer_move. Borrows l; must not be closed. */
struct typed_buffer typed_buffer_on(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Sets *p to that. */
void typed_buffer_set(struct typed_buffer *p, struct layout *l, struct device *d, const void *buf, int64_t count);
/* Returns stats_now() if the log or the statistics need times, else 0. */
int64_t typed_buffer_clock(void);
/* Adds p's launches, `bytes`, and the time since `begun` (typed_buffer_clock) to its datatype's statistics. */
void typed_buffer_stats(struct typed_buffer *p, const char *transport, int64_t bytes, int64_t begun);
/* Enqueues the kernel between the typed buffer and `packed` for packed bytes [0, bytes). Returns 0 or -1. */
int typed_buffer_move(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, uint64_t packed,
                      int64_t bytes);
/* Enqueues it for packed bytes [begin, end), `begin` being at `packed`. d is entered and owns their typed bytes. */
int typed_buffer_move_range(struct typed_buffer *p, struct device *d, struct stream *s, enum kernel_direction direction,
                            uint64_t packed, int64_t begin, int64_t end);
/* Enqueues kernel_move_flagged for the first `bytes`. Returns 0, -1, or 1 if the kernel can't set chunk flags. */
int typed_buffer_move_marked(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, uint64_t packed,
                             int64_t bytes, const struct marks *marks, uint32_t *late);
/* Returns kernel_chunk for all of p. */
int64_t typed_buffer_chunk(const struct typed_buffer *p);

#endif
