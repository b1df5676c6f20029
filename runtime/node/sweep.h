/* sweep.h: removes what processes that were killed have left. Names of files, after the folder: "stridec.", the job and
 * a rank, together the name of the rank's own file; others have one more word. */
#ifndef STRIDEC_SWEEP_H
#define STRIDEC_SWEEP_H
#include "segment.h"

/* Writes NODE_DISK and how names of this node's files begin there. */
void sweep_disk(char folder[64]);
/* Removes files of dead processes of other jobs. `prefix`: of the own job's names. This opens all their files, so one
 * rank of the machine does it. If the launcher does not tell local ranks, every rank does it. */
void sweep_others(const char *prefix);

#endif
