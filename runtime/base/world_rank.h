/* world_rank.h: translates ranks to MPI_COMM_WORLD. */
#ifndef STRIDEC_WORLD_RANK_H
#define STRIDEC_WORLD_RANK_H
#include <mpi.h>
#include <stdbool.h>

/* Called at MPI_Init, any number of times, and at MPI_Finalize. Returns 0 or -1. */
int world_rank_start(void);
void world_rank_finish(void);

/* Returns the rank in MPI_COMM_WORLD; -1 if there is none, or it is in an intercommunicator's other group. */
int world_rank(MPI_Comm comm, int rank);
/* Makes world_rank return -1 for all ranks of a new communicator, and of its duplicates: then no RTS header takes a
 * message's place there. All its ranks that run stridec call it before their first message. Returns false if the MPI
 * refuses. */
bool world_rank_deny(MPI_Comm comm);

#endif
