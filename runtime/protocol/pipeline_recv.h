/* pipeline_recv.h: the receiver's side of messages in chunks (pipeline.h). All messages of one call are received
 * together; a chunk is unpacked while the next ones arrive. */
#ifndef STRIDEC_PIPELINE_RECV_H
#define STRIDEC_PIPELINE_RECV_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct pipeline_recv;

/* Adds the message of the RTS d, to be received into p; the caller owns p and keeps it until pipeline_recvs_end. Sets
 * the status and returns like rndv_recv_add. A message too long for p is received and dropped. */
int pipeline_recv_add(struct pipeline_recv **all, const struct rts *d, struct typed_buffer *p, MPI_Status *status);
/* Starts to receive all; does not block. */
void pipeline_recvs_start(struct pipeline_recv *all);
/* Waits until all messages are in place and frees the list. Returns 0 or -1 (logged). */
int pipeline_recvs_end(struct pipeline_recv *all);

#endif
