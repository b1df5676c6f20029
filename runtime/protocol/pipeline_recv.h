/* pipeline_recv.h: the receiver's side of messages that come in chunks (pipeline.h). All that were told of together
 * are received together: each chunk arrives where packed bytes may lie, and is unpacked while the next ones come. */
#ifndef STRIDEC_INFLOW_H
#define STRIDEC_INFLOW_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct pipeline_recv;

/* What d tells of is to go to p, which stays the caller's until pipeline_recvs_end. Returns and sets the status as
 * rndv_recv_add; what p is too small for is received too, and dropped. */
int pipeline_recv_add(struct pipeline_recv **all, const struct rts *d, struct typed_buffer *p, MPI_Status *status);
/* Begins to receive. */
void pipeline_recvs_start(struct pipeline_recv *all);
/* Until all is in place; gives them back. 0 or -1 (logged). */
int pipeline_recvs_end(struct pipeline_recv *all);

#endif
