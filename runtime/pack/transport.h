/* transport.h: transports: each turns a typed device buffer into bytes that the MPI can move, and back.
 *
 * All have the same skeleton: acquire buffers, enqueue packing, enqueue unpacking. The MPI gets `address` of struct
 * typed_buffer: plain packed bytes in typemap order, so the peer needs no stridec. */
#ifndef STRIDEC_TRANSPORT_H
#define STRIDEC_TRANSPORT_H
#include "typed_move.h"

struct transport {
    const char *name;
    /* Gets the buffers and sets wire, stage and address. Returns false without memory. */
    bool (*acquire)(struct typed_buffer *p);
    /* Enqueues packed bytes [begin, end) to or from wire on s, device entered; `begin` is 0 unless `joins`. Returns 0
     * or -1. */
    int (*move)(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end);
    /* True if each direction is one kernel job between the typed buffer and stage (wire without stage). Then the jobs
     * of several buffers may share a launch, and a message may move in chunks. */
    bool joins;
    /* Enqueues the copy between stage and wire, after packing or before unpacking; NULL if none. Returns 0 or -1. */
    int (*copy)(struct typed_buffer *p, struct stream *s, enum kernel_direction direction, int64_t begin, int64_t end);
};

extern const struct transport transport_device;    /* pack on the GPU, the MPI sends device memory */
extern const struct transport transport_oneshot;   /* kernels write and read mapped host memory */
extern const struct transport transport_staged;    /* pack on the GPU, copy to pinned memory */
extern const struct transport transport_parts;     /* buffers in several memories */
extern const struct transport transport_by_mpi;    /* unreadable types: the MPI packs a host copy */

/* Returns the best transport for `bytes` packed bytes, by STRIDEC_TRANSPORT or the tuned table. host_only: none that
 * passes device memory to the MPI, unless forced. */
const struct transport *transport_choose(struct layout *l, int64_t count, int64_t bytes, bool host_only);

/* Returns true if zero-copy (rndv_send.h) is better than packing, by STRIDEC_TRANSPORT or the tuned table. */
bool transport_zerocopy(struct layout *l, int64_t count, int64_t bytes);

/* Returns true if the MPI takes device pointers; asks it once. */
bool mpi_cuda_aware(void);

#endif
