/* ranks.h: the ranks of a command that runs under mpirun, and their texts on rank 0. */
#ifndef STRIDEC_MEASURE_RANKS_H
#define STRIDEC_MEASURE_RANKS_H
#include <stdbool.h>

/* Starts the MPI, and stridec with it: all ranks alike, as both talk to each other. Ends them: collective. */
void ranks_begin(void);
void ranks_end(void);
/* Return this rank and the number of ranks. */
int ranks_own(void);
int ranks_count(void);
/* Returns the text of each rank on rank 0, by rank, each malloc'd in a malloc'd list; NULL elsewhere and without
 * memory. Collective. */
char **ranks_gather(const char *text);
/* Returns rank 0's value on all ranks. Collective. */
int ranks_follow(int value);
/* Returns true if any rank's value is true. Collective. */
bool ranks_any(bool value);

#endif
