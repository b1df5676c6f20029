/* world_rank.h: translates ranks to MPI_COMM_WORLD. */
#ifndef STRIDEC_WORLD_RANK_H
#define STRIDEC_WORLD_RANK_H
#include <mpi.h>

/* Called at MPI_Init, any number of times, and at MPI_Finalize. Returns 0 or -1. */
int world_rank_start(void);
void world_rank_finish(void);

/* Returns the rank in MPI_COMM_WORLD; -1 if there is none, or it is in an intercommunicator's other group. */
int world_rank(MPI_Comm comm, int rank);

#endif
