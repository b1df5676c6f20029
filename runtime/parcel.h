/* parcel.h: the steps of one message's device buffer; what the interposed calls are written with. */
#ifndef STRIDEC_PARCEL_H
#define STRIDEC_PARCEL_H
#include "link.h"
#include "transport.h"
#include "typed_move.h"
#include "where.h"

/* Whether stridec takes a buffer. If it does, *p is a parcel with its buffers acquired, to be closed; if it
 * does not (host memory, nothing to move, contiguous on a CUDA-aware MPI, an argument that the MPI will
 * refuse), *p is NULL and the call goes down as it is. peer: the other rank in comm, or a negative number. Returns MPI_SUCCESS, or an error that has been
 * raised on comm: the caller returns it. */
int parcel_open(struct parcel **p, const void *buf, int64_t count, MPI_Datatype datatype, int peer, MPI_Comm comm);
/* True if parcel_open would take the buffer. */
bool parcel_taken(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Finds a buffer that lies in device memory, or partly so: its layout, and where it lies; NULL for any other. */
struct layout *parcel_found(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm, struct where *w);
/* The layout of a buffer that parcel_open takes, and where it lies; NULL for one that it does not. */
struct layout *parcel_wants(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm, struct where *w);
/* True of a buffer with device memory, which lies at w, that the MPI takes as it is. CUDA-aware MPIs look where a buffer's own
 * address is, not its first byte's: by absolute addresses, at MPI_BOTTOM, they take device memory for the host's. */
bool parcel_native(const struct layout *l, const void *buf, int64_t count, struct where w);
/* A parcel of its own without a transport or buffers: of one that an offer describes, or that the MPI itself receives.
 * d may be NULL: host memory. NULL without memory. */
struct parcel *parcel_bare(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Notes that a receive into device memory is under way in the buffer itself. Until its parcel is closed, others into
 * that address are received apart. */
void parcel_landing(struct parcel *p);
/* Returns true where a message from device d that the MPI could take is packed all the same: to a rank of the node, too short
 * for an RTS header, or one of the first, before that rank has tried to read memory of d. What the MPI opens it keeps
 * open past its end, in the way of what lies there next (export_passes). */
bool parcel_sent_apart(const struct layout *l, int64_t count, struct device *d, int dest, MPI_Comm comm);
/* The transport that such a parcel would take. */
const struct transport *parcel_transport(struct layout *l, struct where w, int64_t count, int peer, MPI_Comm comm);
/* As parcel_open, for a buffer that is known to lie at w, not on the host alone, whatever the MPI takes. */
int parcel_open_on(struct parcel **p, struct layout *l, struct where w, const void *buf, int64_t count,
                   MPI_Datatype datatype, int peer, MPI_Comm comm);
/* Opens a parcel for what `source` sends into such a buffer, where that is better received into memory of stridec's:
 * the MPI can't take the buffer itself, or an RTS header is likely to come, which the host then reads at once. Else
 * leaves *p alone. */
int parcel_open_apart(struct parcel **p, struct layout *l, struct where w, const void *buf, int64_t count,
                      MPI_Datatype datatype, int source, MPI_Comm comm);
/* Opens a parcel that is sent: to ranks of the node a CUDA-aware MPI gets it in host memory, so that it opens nothing there. */
int parcel_open_sent(struct parcel **p, struct layout *l, struct where w, const void *buf, int64_t count,
                     MPI_Datatype datatype, int dest, MPI_Comm comm);
/* That the type is committed and, where stridec can't read it, all in one memory: MPI_SUCCESS, or an error raised on
 * comm. */
int parcel_check(struct layout *l, struct where w, MPI_Datatype datatype, MPI_Comm comm);
/* Counts the bytes that its last batch moved (parcel_count). */
void parcel_moved(struct parcel *p);
void parcel_close(struct parcel *p);   /* NULL is allowed */

/* Packs and waits. MPI_SUCCESS, or an error raised on comm. */
int parcel_pack(struct parcel *p, MPI_Comm comm);
/* Of a bare one on a device whose layout has no tree: by the MPI, into a wire that it gets for that. False (logged) where it can't. */
bool parcel_pack_bare(struct parcel *p);
/* Unpacks the first `bytes` packed bytes and waits. */
int parcel_unpack(struct parcel *p, int64_t bytes, MPI_Comm comm);

/* Many parcels packed or unpacked together: one stream a device, one wait, and one launch for all whose transports take
 * part in that. Begins zeroed. */
#define BATCH_DEVICES 16
struct batch {
    struct parcel *first, **last;   /* added since the last batch_run */
    struct link_batch links;
    int devices;
    struct {
        struct device *device;
        struct stream *stream;
    } of[BATCH_DEVICES];
};
/* The batch's stream on d, which must be entered; NULL on failure. */
struct stream *batch_stream(struct batch *b, struct device *d);
/* Adds a parcel, which stays the caller's and is in one batch at a time. */
void batch_pack(struct batch *b, struct parcel *p);
void batch_unpack(struct batch *b, struct parcel *p, int64_t bytes);
int batch_run(struct batch *b);    /* enqueues what was added; 0 or -1 */
int batch_wait(struct batch *b);   /* the same and waits; 0 or -1; ends the batch */

/* `bytes` as an MPI count and type; past INT_MAX a derived type, which wire_done frees. */
struct wire {
    int count;
    MPI_Datatype type;
};
int wire_of(int64_t bytes, struct wire *w);
void wire_done(struct wire *w);
/* The bytes that a receive brought. */
int64_t wire_received(const MPI_Status *status);

#endif
