/* transport.h: the ways in which a typed device buffer becomes bytes that the MPI can move, and back.
 *
 * A parcel is one message's device buffer on its way. Each transport has the same skeleton:
 * acquire its buffers, enqueue the packing, enqueue the unpacking. What the MPI sees is parcel->address:
 * plain packed bytes in typemap order, so the peer may be anything. */
#ifndef STRIDEC_TRANSPORT_H
#define STRIDEC_TRANSPORT_H
#include "typed_move.h"

struct transport {
    const char *name;
    /* Gets the buffers and sets wire, stage and address. False when memory is out. */
    bool (*acquire)(struct typed_buffer *p);
    /* Enqueue on s, device entered: once s is done, wire holds all packed bytes, or the typed buffer holds
     * the first `bytes` packed bytes of wire. 0 or -1. */
    int (*pack)(struct typed_buffer *p, struct stream *s);
    int (*unpack)(struct typed_buffer *p, struct stream *s, int64_t bytes);
    /* Of those that are one kernel job each way, between the typed buffer and stage or, without one, wire: jobs of
     * several parcels may be one launch. */
    bool joins;
    /* Between that stage and wire, after packing or before unpacking; NULL where there is none. 0 or -1. */
    int (*copy)(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end);
    /* The same for the packed range [begin, end) alone; NULL where a message moves as a whole only. */
    int (*pack_part)(struct typed_buffer *p, struct stream *s, int64_t begin, int64_t end);
    int (*unpack_part)(struct typed_buffer *p, struct stream *s, int64_t begin, int64_t end);
};

extern const struct transport transport_device;    /* pack on the GPU, the MPI sends device memory */
extern const struct transport transport_oneshot;   /* kernels write and read mapped host memory */
extern const struct transport transport_staged;    /* pack on the GPU, copy to pinned memory */
extern const struct transport transport_parts;     /* buffers in several memories */
extern const struct transport transport_shadow;    /* types stridec can't read: the MPI packs a host copy */

/* The best transport for `bytes` packed bytes of a layout, from STRIDEC_TRANSPORT or the tuned table. host_only: not
 * one that hands device memory to the MPI, unless forced. */
const struct transport *transport_choose(struct layout *l, int64_t count, int64_t bytes, bool host_only);

/* True if messages of it should go from memory to memory (rndv_send.h) to peers to whom they can, by the same two. */
bool transport_offers(struct layout *l, int64_t count, int64_t bytes);

/* True if the MPI takes device pointers itself (asked once). */
bool mpi_cuda_aware(void);

#endif
