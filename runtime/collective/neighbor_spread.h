/* neighbor_spread.h: persistent neighbourhood collectives whose ranks are on several nodes. They are the MPI's; where
 * stridec_start_on starts one, its edges are messages instead (neighbor_stream.h): all ranks agreed on it when the
 * request was made. */
#ifndef STRIDEC_NEIGHBOR_SPREAD_H
#define STRIDEC_NEIGHBOR_SPREAD_H
#include "neighbor_stream.h"

/* Takes a call that makes a persistent request, as neighbor_blocking_take does. Where it returns false the ranks have
 * agreed whether its edges may be messages, and neighbor_spread_note follows the MPI's call. All ranks call it. */
bool neighbor_spread_take(struct args_set *o);
/* Notes the request that the MPI's call has made, and what it was made of. Returns rc. */
int neighbor_spread_note(int rc, const struct args_set *o, const MPI_Request *request);

/* Do what neighbor_stream_of and its kin do, for these requests. neighbor_spread_remove also forgets one. */
bool neighbor_spread_of(MPI_Request request, struct neighbor_messages **m);
struct neighbor_messages *neighbor_spread_started(MPI_Request request);
struct neighbor_messages *neighbor_spread_remove(MPI_Request request);
/* Forgets all requests, at MPI_Finalize. */
void neighbor_spread_finish(void);

#endif
