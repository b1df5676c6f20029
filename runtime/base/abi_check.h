/* abi_check.h: is the MPI that the process runs on the one whose handles this library was compiled with? */
#ifndef STRIDEC_WHICH_MPI_H
#define STRIDEC_WHICH_MPI_H
#include <stdbool.h>

/* False, after one line on standard error from the first rank, where it is another, or another copy of this library
 * serves: then no function may be called and no handle used but through the stubs' own straight calls. Two releases
 * of one MPI count as one. */
bool which_mpi_fits(void);
/* The same, for copies of the library that are loaded later. */
int stridec_serves(void);
/* The rank that the launcher tells, where MPI_COMM_WORLD can't be asked; -1 where it doesn't. */
int launcher_rank(void);
/* How many ranks of MPI_COMM_WORLD, of which this is one of so many, it has started on this machine; -1 where it
 * doesn't tell. */
int launcher_neighbors(int rank, int size);
/* Returns this rank's number among those of the job on this machine; -1 where the launcher doesn't tell. */
int launcher_local_rank(int rank, int size);

#endif
