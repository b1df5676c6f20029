/* job_id.h: which job this is. */
#ifndef STRIDEC_JOB_H
#define STRIDEC_JOB_H
#include <stdbool.h>
#include <stddef.h>

/* A name that all ranks of the job on this machine have, and no other job's: the user, the launcher's process and
 * when it started, and what PMIx calls the job; the user's number first. False where no launcher that is known has
 * started this process. */
bool job_name(char *text, size_t size);

#endif
