/* world_rank.h: which rank of MPI_COMM_WORLD a rank of a communicator is. */
#ifndef STRIDEC_TEAM_H
#define STRIDEC_TEAM_H
#include <mpi.h>

/* At MPI_Init, any number of times, and at MPI_Finalize. 0 or -1. */
int world_rank_start(void);
void world_rank_finish(void);

/* -1 where the rank is none, of another world, or of the other group of an intercommunicator. */
int world_rank(MPI_Comm comm, int rank);

#endif
