/* enqueued.h: messages that the MPI itself moves in the order of a program's stream (MPICH's MPIX_Send_enqueue and its
 * kin). For device memory those calls allocate pinned memory, each time, and pack into it as the MPI packs. Here a
 * kernel packs into pinned memory of a pool, and the MPI gets bytes of the host's:
 *
 *    send:      pack; the MPI sends them
 *    receive:   pack, since a shorter message leaves the rest as it was; the MPI receives them; unpack
 *
 * The calls return before the stream has come to any of it. So memory and layout are held until it has, which an event
 * tells; later calls look. */
#ifndef STRIDEC_ENQUEUED_H
#define STRIDEC_ENQUEUED_H
#include "channel.h"

/* A stream that the MPI knows. None of these calls the driver: the MPI frees communicators in functions of the host's,
 * which may not. */
struct mpi_stream;
/* Returns one with one reference; NULL without memory. */
struct mpi_stream *mpi_stream_new(CUstream handle);
void mpi_stream_ref(struct mpi_stream *s);
void mpi_stream_unref(struct mpi_stream *s);   /* NULL is allowed */

struct enqueued;
/* Enqueues the packing of a message. Returns it; NULL where the MPI is to move it: host memory, one contiguous piece,
 * several memories, memory of another device than the stream's, more packed bytes than `most`, a stream that is being
 * captured, no memory. Sets *rc to MPI_SUCCESS, or, with NULL, to an error raised on the communicator. */
struct enqueued *enqueued_begin(struct mpi_stream *s, const struct channel_call *call, int64_t most, int *rc);
/* Returns the packed bytes, and sets *bytes to their number. */
void *enqueued_packed(const struct enqueued *e, int64_t *bytes);
/* Enqueues, behind the MPI's own operation, the unpacking of a receive, and ends e. Returns 0 or -1 (logged). */
int enqueued_end(struct enqueued *e);
/* Ends e, whose operation the MPI has refused, or has ended without the stream. */
void enqueued_drop(struct enqueued *e);

/* Keep a nonblocking message by its request, and take it again: NULL if none is kept. enqueued_keep_on: by the request
 * that it was kept by before. */
void enqueued_keep(struct enqueued *e, MPI_Request request);
void enqueued_keep_on(struct enqueued *e);
struct enqueued *enqueued_take(MPI_Request request);
/* Frees what streams are done with, and forgets the rest, at MPI_Finalize. */
void enqueued_finish(void);

#endif
