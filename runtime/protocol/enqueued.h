/* enqueued.h: messages that the MPI itself moves in the order of a program's stream (MPICH's MPIX_Send_enqueue and its
 * kin). For device memory those calls allocate pinned memory, each time, and pack into it as the MPI packs. Here a
 * kernel packs into pinned memory that stays with the stream, and the MPI gets bytes of the host's:
 *
 *    send:      pack; the MPI sends them
 *    receive:   pack, since a shorter message leaves the rest as it was; the MPI receives them; unpack
 *
 * Messages may use the same memory one after the other: the order of the stream keeps them apart. */
#ifndef STRIDEC_ENQUEUED_H
#define STRIDEC_ENQUEUED_H
#include "channel.h"

/* A stream that the MPI knows, and the pinned memory for its messages. */
struct mpi_stream;
/* Returns one with one reference; NULL without memory. */
struct mpi_stream *mpi_stream_new(CUstream handle);
void mpi_stream_ref(struct mpi_stream *s);
/* Frees it with the last reference. The program's stream may be gone, and its messages under way: their memory is freed
 * later then. NULL is allowed. */
void mpi_stream_unref(struct mpi_stream *s);
/* Frees what can be freed, at MPI_Finalize. */
void mpi_streams_finish(void);

struct enqueued;
/* Enqueues the packing of a message. Returns it; NULL where the MPI is to move it: host memory, several memories,
 * memory of another device than the stream's, more packed bytes than `most`, a stream that is being captured, no
 * memory. Sets *rc to MPI_SUCCESS, or, with NULL, to an error raised on the communicator. */
struct enqueued *enqueued_begin(struct mpi_stream *s, const struct channel_call *call, int64_t most, int *rc);
/* Returns the packed bytes, and sets *bytes to their number. */
void *enqueued_packed(const struct enqueued *e, int64_t *bytes);
/* Enqueues, behind the MPI's own operation, the unpacking of a receive, and frees e. Returns 0 or -1 (logged). */
int enqueued_end(struct enqueued *e);
/* Frees e, whose operation the MPI has refused. */
void enqueued_drop(struct enqueued *e);

/* Keep a nonblocking message by its request, and take it again: NULL if none is kept. */
void enqueued_keep(struct enqueued *e, MPI_Request request);
struct enqueued *enqueued_take(MPI_Request request);

#endif
