/* launcher.h: what the launcher of the job tells by environment variables. */
#ifndef STRIDEC_LAUNCHER_H
#define STRIDEC_LAUNCHER_H
#include <stdbool.h>

/* Returns the rank from the launcher's variables, for when MPI_COMM_WORLD can't be asked; -1 if not set. */
int launcher_rank(void);
/* Returns the number of the job's ranks on this machine; -1 if unknown. `rank` and `size` are MPI_COMM_WORLD's. */
int launcher_local_size(int rank, int size);
/* Returns this rank's number among the job's ranks on this machine; -1 if unknown. */
int launcher_local_rank(int rank, int size);
/* Returns true if the launcher tells that all ranks of the job are on this machine. May be called before MPI_Init. */
bool launcher_one_node(void);

#endif
