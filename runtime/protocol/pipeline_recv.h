/* pipeline_recv.h: the receiver's side of messages that come in chunks (pipeline.h). All that were told of together
 * are received together: each chunk arrives where packed bytes may lie, and is unpacked while the next ones come. */
#ifndef STRIDEC_INFLOW_H
#define STRIDEC_INFLOW_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct inflow;

/* What d tells of is to go to p, which stays the caller's until inflows_end. Returns and sets the status as
 * pull_add; what p is too small for is received too, and dropped. */
int inflow_add(struct inflow **all, const struct descriptor *d, struct parcel *p, MPI_Status *status);
/* Begins to receive. */
void inflows_start(struct inflow *all);
/* Until all is in place; gives them back. 0 or -1 (logged). */
int inflows_end(struct inflow *all);

#endif
