/* reduce_later.h: nonblocking and persistent reductions among the ranks of a node, by kernels: those whose ranks have
 * agreed on it (exchange.h).
 *
 * A nonblocking reduction may wait only for the other ranks' starts of the same one. So no rank reduces for others: a
 * rank that gets a result gets all elements for it, zero-copy (neighbor_nonblocking.c). They become the
 * rows of a buffer, in the order of the ranks, and one kernel of its own reduces them. MPI_Iallreduce then moves more
 * than MPI_Allreduce does, from three ranks on.
 *
 * All ranks get the same bits of MPI_Iallreduce, since all do the same. So they all reduce on the host, by
 * MPI_Reduce_local, if the headers say that one of them must (`plain`): its result lies in host memory, its kernel is
 * not compiled yet, or it has no device memory. The other reductions compute each result once, each rank as it can. */
#ifndef STRIDEC_REDUCE_LATER_H
#define STRIDEC_REDUCE_LATER_H
#include "reduce_call.h"

/* Makes the call's request and sets *rc. Returns false if the MPI does the call, on all ranks: it is too long. */
bool reduce_later(const struct reduce_call *c, struct neighbor_topology *e, MPI_Request *request, int *rc);

#endif
