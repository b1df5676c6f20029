/* tune.h: measures this system: `stridec tune`. */
#ifndef STRIDEC_TUNE_H
#define STRIDEC_TUNE_H
#include <stdbool.h>

/* The options of the command. */
struct tune_request {
    const char *file;   /* where the table goes; NULL: where programs look for it */
    bool quick, no_kernels, pipeline, host;
};
/* Measures on all ranks, from MPI_Init to MPI_Finalize; rank 0 writes the table. Returns the exit status: 0, or 1
 * after a line on standard error. */
int tune_run(struct tune_request want);

#endif
