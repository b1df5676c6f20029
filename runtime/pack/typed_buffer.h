/* typed_buffer.h: the steps of one message's device buffer; what the interposed calls are written with. */
#ifndef STRIDEC_PARCEL_H
#define STRIDEC_PARCEL_H
#include "datatype/locate.h"
#include "kernel/typed_copy.h"
#include "transport.h"
#include "typed_move.h"

/* Returns true if typed_buffer_wants would find it. */
bool typed_buffer_taken(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Finds a buffer that lies in device memory, or partly so: its layout, and where it lies; NULL for any other. */
struct layout *typed_buffer_found(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w);
/* Finds a buffer that stridec has to take: its layout, and where it lies. Returns NULL for host memory, for nothing
 * to move, for what a CUDA-aware MPI takes itself (typed_buffer_native), and for arguments that the MPI will refuse: such
 * a call goes down as it is. */
struct layout *typed_buffer_wants(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w);
/* True of a buffer with device memory, which lies at w, that the MPI takes as it is. CUDA-aware MPIs look where a
 * buffer's own address is, not its first byte's: by absolute addresses, at MPI_BOTTOM, they take device memory for
 * the host's. */
bool typed_buffer_native(const struct layout *l, const void *buf, int64_t count, struct location w);
/* A parcel of its own without a transport or buffers: of one that an offer describes, or that the MPI itself receives.
 * d may be NULL: host memory. NULL without memory. */
struct typed_buffer *typed_buffer_bare(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Notes that a receive into device memory is under way in the buffer itself. Until its parcel is closed, others into
 * that address are received apart. */
void typed_buffer_landing(struct typed_buffer *p);
/* Returns true while such a receive is under way. May say so for others, too. */
bool typed_buffer_lands(const void *buf);
/* Returns the transport that such a parcel takes. */
const struct transport *typed_buffer_transport(struct layout *l, struct location w, int64_t count, bool on_host);
/* Makes *p of a buffer that lies at w, not on the host alone, and gets its transport's buffers. on_host: the packed
 * bytes are not to lie in device memory on their way. The caller closes it. Returns MPI_SUCCESS, or an error raised
 * on comm. */
int typed_buffer_open(struct typed_buffer **p, struct layout *l, struct location w, const void *buf, int64_t count,
                      MPI_Datatype datatype, bool on_host, MPI_Comm comm);
/* That the type is committed and, where stridec can't read it, all in one memory: MPI_SUCCESS, or an error raised on
 * comm. */
int typed_buffer_check(struct layout *l, struct location w, MPI_Datatype datatype, MPI_Comm comm);
/* Counts the bytes that its last batch moved (typed_buffer_count). */
void typed_buffer_moved(struct typed_buffer *p);
void typed_buffer_close(struct typed_buffer *p);   /* NULL is allowed */

/* Packs and waits. MPI_SUCCESS, or an error raised on comm. */
int typed_buffer_pack(struct typed_buffer *p, MPI_Comm comm);
/* Of a bare one on a device whose layout has no tree: by the MPI, into a wire that it gets for that. False (logged)
 * where it can't. */
bool typed_buffer_pack_bare(struct typed_buffer *p);
/* Unpacks the first `bytes` packed bytes and waits. */
int typed_buffer_unpack(struct typed_buffer *p, int64_t bytes, MPI_Comm comm);

/* Many parcels packed or unpacked together: one stream a device, one wait, and one launch for all whose transports take
 * part in that. Begins zeroed. */
#define BATCH_DEVICES 16
struct batch {
    struct typed_buffer *first, **last;   /* added since the last batch_run */
    struct typed_copy_batch links;
    int devices;
    struct {
        struct device *device;
        struct stream *stream;
    } of[BATCH_DEVICES];
};
/* The batch's stream on d, which must be entered; NULL on failure. */
struct stream *batch_stream(struct batch *b, struct device *d);
/* Adds a parcel, which stays the caller's and is in one batch at a time. */
void batch_pack(struct batch *b, struct typed_buffer *p);
void batch_unpack(struct batch *b, struct typed_buffer *p, int64_t bytes);
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
