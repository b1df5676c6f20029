/* neighbor_nonblocking.h: nonblocking and persistent neighborhood collectives, edge by edge (neighbor_topology.h).
 *
 * The start posts everything and waits for no rank. Each peer gets one message of headers, which say for every edge
 * whether its payload is a rendezvous send. Each edge gets a message too: the payload, or empty. Memory for all
 * receives is acquired before. When the MPI has completed these messages, one launch of the receiver reads the
 * rendezvous sends. If the receiver is late, the sender moves their payload into memory of stridec (rndv_send.h). So
 * a waiting rank depends only on the other ranks' starts of the same operation, as MPI requires.
 *
 * The application's request is a receive from the own rank. Its message is sent when all data are in place. */
#ifndef STRIDEC_NEIGHBOR_NONBLOCKING_H
#define STRIDEC_NEIGHBOR_NONBLOCKING_H
#include "neighbor_topology.h"

/* Returns false if this is not possible. Call it any number of times; neighbor_nonblocking_finish at MPI_Finalize. */
bool neighbor_nonblocking_ready(void);
void neighbor_nonblocking_finish(void);

#endif
