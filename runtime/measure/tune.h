/* tune.h: `stridec tune`: measures this system. */
#ifndef STRIDEC_TUNE_H
#define STRIDEC_TUNE_H
#include <stdbool.h>

struct tune_request {
    const char *file;   /* the table to write; NULL: the one that programs look for */
    double seconds;     /* the time that it may take; stages that are begun end somewhat later */
    bool quick, no_kernels, pipeline, host;
};
/* Measures on all ranks, from MPI_Init to MPI_Finalize; rank 0 writes the table, and prints what was found
 * (findings.h). Returns 0, or 1 after a line on standard error. */
int tune_run(struct tune_request want);

#endif
