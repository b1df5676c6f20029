/* modex.h: finds out, before any message, which ranks of the job run stridec.
 *
 * Open MPI starts through PMIx: in MPI_Init each rank commits what others must know of it and enters a fence. stridec
 * commits one more entry, its mark, just before: its PMIx_Fence_nb stands before PMIx's. A rank without stridec notices
 * nothing. stridec never starts PMIx, and what it asks never waits for a rank: after the fence all marks are
 * there. So two marked ranks find the same of each other, and may wait for each other's messages. */
#ifndef STRIDEC_MODEX_H
#define STRIDEC_MODEX_H
#include <stdbool.h>

/* Called by the thread that calls the MPI's MPI_Init, before and after it. With `mark` this rank gets the mark. */
void modex_begin(bool mark);
void modex_end(void);
/* Returns true if this rank has the mark, and modex_marked tells of others. */
bool modex_ready(void);
/* Returns true if the rank of MPI_COMM_WORLD has the mark. Two ranks with marks both get true of each other. Asks that
 * rank's server. Not after MPI_Init. */
bool modex_marked(int rank);

#endif
