/* pipeline.h: long messages in chunks (Wu et al. 2016, section 4; Wang et al. 2014), between ranks that can't read each
 * other's memory. While one chunk is packed, earlier chunks are copied, sent, received and unpacked.
 *
 * An RTS goes on the user's communicator and tag. The chunks follow on stridec's own communicator, with the tag named
 * in the RTS. The sender (pipeline_send.h) starts all chunk sends before its call returns: a receiver never waits for a
 * later call of the sender. The receiver (pipeline_recv.h) receives chunks once its receive has brought the RTS.
 *
 * All ranks of the job must run stridec: MPI_Init and MPI_Finalize make collective calls. By setting STRIDEC_PIPELINE
 * the user guarantees that, and that all ranks set it. Unset, ranks of several nodes find it out (modex.h). */
#ifndef STRIDEC_PIPELINE_H
#define STRIDEC_PIPELINE_H
#include "base/chunk_settings.h"
#include "rts.h"

struct pipeline {
    MPI_Comm comm;                  /* carries the chunks; ranks as in MPI_COMM_WORLD */
    int rank, size;
    int tags;                       /* tags are 0 .. tags - 1 */
    struct chunk_params settings;
};
/* Returns NULL if the ranks have not agreed. */
const struct pipeline *pipeline_get(void);
/* Sets the settings (`stridec tune`); not allowed while messages are on their way. */
void pipeline_try(const struct chunk_params *p);
/* Returns the pipeline's rank of `rank` in comm, or -1 if there is none. */
int pipeline_peer(MPI_Comm comm, int rank);
/* Returns true if all ranks of comm have agreed: they run stridec. The same on all ranks that do. */
bool pipeline_all(MPI_Comm comm);
/* Fills d as the RTS of a message in chunks. */
void pipeline_name(struct rts *d, uint32_t tag, int64_t bytes, int64_t chunk);
/* Returns true if d is such an RTS. */
bool pipeline_named(const struct rts *d);
/* Returns the number of chunks; pipeline_end returns the byte where chunk i ends. */
int pipeline_chunks(const struct rts *d);
int64_t pipeline_end(const struct rts *d, int i);

/* Returns true if this rank wants chunks, unless others do not. */
bool pipeline_wanted(void);
/* Called after MPI_Init; collective if STRIDEC_PIPELINE is set or all ranks are marked. `able`: this rank can use
 * chunks. Returns true if all ranks can. */
bool pipeline_start(bool able);
/* Called before MPI_Finalize; collective if the ranks have agreed. Drops chunks that nobody will receive. */
void pipeline_finish(void);

#endif
