/* neighbor_nonblocking.h: neighbourhood collectives that go edge by edge (neighbor_topology.h) and on after their
 * call: nonblocking and persistent ones.
 *
 * At the start everything becomes the MPI's, and nobody is waited for: to each peer goes one message that says of
 * every edge whether its payload is offered, and on every edge one that is the payload or, where it is offered or
 * there is none, empty. Room for all that may come is there before. When the MPI is through with its messages, what
 * was offered is pulled, in one launch, by the receiver alone; and an offer whose receiver is late moves to memory
 * of stridec's own (rndv_send.h). So a rank that waits depends on nothing but that the others have started the same
 * operation, as MPI has it.
 *
 * The application's request is a receive from the own rank, which is sent its message when all is in place: the MPI
 * completes it like any other. */
#ifndef STRIDEC_DEFERRED_H
#define STRIDEC_DEFERRED_H
#include "neighbor_topology.h"

/* Returns false where there can be none. Any number of times; and at MPI_Finalize. */
bool neighbor_nonblocking_ready(void);
void neighbor_nonblocking_finish(void);

#endif
