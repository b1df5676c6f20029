/* typed_buffer.h: the steps of one message's typed device buffer, used by the interposed calls. */
#ifndef STRIDEC_TYPED_BUFFER_H
#define STRIDEC_TYPED_BUFFER_H
#include "datatype/locate.h"
#include "kernel/typed_copy.h"
#include "transport.h"
#include "typed_move.h"

/* Returns true if typed_buffer_claim finds the buffer. */
bool typed_buffer_claims(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm);
/* Returns the layout of a buffer that lies at least partly in device memory, and sets *w to its location; else NULL. */
struct layout *typed_buffer_find(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w);
/* Returns the layout of a buffer that stridec must take, and sets *w to its location. Returns NULL, and the call passes
 * to the MPI, for host memory, empty messages, bad arguments, and if typed_buffer_mpi_takes. */
struct layout *typed_buffer_claim(const void *buf, int64_t count, MPI_Datatype datatype, MPI_Comm comm,
                                  struct location *w);
/* Returns true if the MPI takes a buffer at w with device memory unchanged. CUDA-aware MPIs check the buffer's address,
 * not its first byte: with absolute addresses at MPI_BOTTOM they take device memory for host memory. */
bool typed_buffer_mpi_takes(const struct layout *l, const void *buf, int64_t count, struct location w);
/* Returns a typed buffer without transport and bounce buffers, for an RTS or for a receive by the MPI itself; the
 * caller closes it. d may be NULL: host memory. Returns NULL without memory. */
struct typed_buffer *typed_buffer_new(struct layout *l, struct device *d, const void *buf, int64_t count);
/* Notes a receive directly into the device buffer. Until p is closed, others at that address use bounce buffers. */
void typed_buffer_note_recv(struct typed_buffer *p);
/* Returns true while such a receive is under way; maybe for other addresses too. */
bool typed_buffer_has_recv(const void *buf);
/* Returns the transport that typed_buffer_open would select. */
const struct transport *typed_buffer_transport(struct layout *l, struct location w, int64_t count);
/* Opens *p for a buffer at w, at least partly on a device, with its transport's buffers. The caller closes it. Returns
 * MPI_SUCCESS, or an error raised on comm. */
int typed_buffer_open(struct typed_buffer **p, struct layout *l, struct location w, const void *buf, int64_t count,
                      MPI_Datatype datatype, MPI_Comm comm);
/* Checks that the type is committed, and lies in one memory if stridec can't read it. Returns MPI_SUCCESS, or an error
 * raised on comm. */
int typed_buffer_check(struct layout *l, struct location w, MPI_Datatype datatype, MPI_Comm comm);
#define TYPED_BUFFER_UNABLE \
    "a datatype that stridec can't read has parts in different memories (host and device, or two devices): not " \
    "supported"
/* Adds the bytes that the last batch moved to the statistics (typed_buffer_stats). */
void typed_buffer_end_batch(struct typed_buffer *p);
void typed_buffer_close(struct typed_buffer *p);   /* NULL is allowed */

/* Packs and waits. Returns MPI_SUCCESS, or an error raised on comm. */
int typed_buffer_pack(struct typed_buffer *p, MPI_Comm comm);
/* Packs a buffer without transport, of an unreadable type, by the MPI into a new bounce buffer. Returns false
 * (logged) on failure. */
bool typed_buffer_mpi_pack(struct typed_buffer *p);
/* Unpacks the first `bytes` packed bytes and waits. */
int typed_buffer_unpack(struct typed_buffer *p, int64_t bytes, MPI_Comm comm);

/* A batch of typed buffers, empty when zeroed: one stream a device, one wait, one launch for all that allow it. */
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
/* Returns the batch's stream on d, which must be entered; NULL on failure. */
struct stream *batch_stream(struct batch *b, struct device *d);
/* Add a typed buffer, which stays the caller's; it may be in one batch at a time. */
void batch_pack(struct batch *b, struct typed_buffer *p);
void batch_unpack(struct batch *b, struct typed_buffer *p, int64_t bytes);
int batch_run(struct batch *b);    /* enqueues what was added; returns 0 or -1 */
int batch_wait(struct batch *b);   /* enqueues, waits and ends the batch; returns 0 or -1 */

/* Returns the side of a typed copy that is count elements at an address, which are packed bytes if contiguous. */
struct typed_copy_side typed_buffer_side(const struct layout *l, uint64_t address, int64_t count);

/* An MPI count and type for `bytes`; past INT_MAX a derived type, which mpi_bytes_free frees. */
struct wire {
    int count;
    MPI_Datatype type;
};
int mpi_bytes_of(int64_t bytes, struct wire *w);
void mpi_bytes_free(struct wire *w);
/* Returns the bytes that a receive delivered. */
int64_t mpi_bytes_received(const MPI_Status *status);

#endif
