/* pipeline.h: long messages in chunks (Wu et al. 2016, section 4; Wang et al. 2014), between ranks that don't read
 * each other's memory: while one chunk is packed, those before are copied, sent, received and unpacked.
 *
 * On the user's communicator and tag goes a descriptor; the chunks follow as plain bytes on a communicator of
 * stridec's own, with a tag that the descriptor names. The sender (pipeline_send.h) hands all chunks to the MPI
 * before its call returns, so that no receiver ever waits for a call that the sender has yet to make; the receiver
 * (pipeline_recv.h) takes them when the descriptor has arrived in its receive.
 *
 * STRIDEC_PIPELINE is the user's promise that every rank of the job runs stridec and has that variable: then, and
 * only then, MPI_Init and MPI_Finalize agree by calls that are collective. */
#ifndef STRIDEC_PIPELINE_H
#define STRIDEC_PIPELINE_H
#include "base/chunk_settings.h"
#include "rts.h"

struct pipeline {
    MPI_Comm comm;                  /* of the chunks: MPI_COMM_WORLD's ranks */
    int rank, size;
    int tags;                       /* tags go from 0 to one less */
    struct chunk_params settings;
};
/* NULL where the ranks have not agreed. */
const struct pipeline *pipeline_get(void);
/* From now on by these settings (`stridec tune`); not while messages are under way. */
void pipeline_try(const struct chunk_params *p);
/* The rank of comm in the pipeline; -1 where none, or none such. */
int pipeline_peer(MPI_Comm comm, int rank);
/* Makes d, and tells such from other messages. */
void pipeline_name(struct rts *d, uint32_t tag, int64_t bytes, int64_t chunk);
bool pipeline_named(const struct rts *d);
/* Number of chunks of a message, and where the i-th ends. */
int pipeline_chunks(const struct rts *d);
int64_t pipeline_end(const struct rts *d, int i);

/* After MPI_Init, collective where STRIDEC_PIPELINE is set: true if messages may now come in chunks. able: this rank
 * can. */
bool pipeline_start(bool able);
/* Before MPI_Finalize, collective after such a start: what was sent in chunks and will not be received is done away
 * with. */
void pipeline_finish(void);

#endif
