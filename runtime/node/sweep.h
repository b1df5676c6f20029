/* sweep.h: removes what processes that were killed have left. Names of files, after the folder: "stridec.", the job, a
 * rank, which make the name of the rank's own file, and maybe one more word. */
#ifndef STRIDEC_SWEEP_H
#define STRIDEC_SWEEP_H
#include "segment.h"

/* Removes files of dead processes of other jobs. `prefix`: of the own job's names. This opens all their files, so one
 * rank of the machine does it. If the launcher does not tell local ranks, every rank does it. */
void sweep_others(const char *prefix);

#endif
