/* stream_comm.h: the GPU stream of a communicator (MPICH's MPIX_Stream_comm_create). */
#ifndef STRIDEC_STREAM_COMM_H
#define STRIDEC_STREAM_COMM_H
#include "protocol/enqueued.h"

/* Returns the own rank's CUDA stream of comm, or NULL. It lives as long as comm. */
struct mpi_stream *stream_comm_of(MPI_Comm comm);
/* Forgets all streams, at MPI_Finalize. */
void stream_comm_finish(void);

#endif
