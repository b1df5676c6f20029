/* job_id.h: identifies the job. */
#ifndef STRIDEC_JOB_ID_H
#define STRIDEC_JOB_ID_H
#include <stdbool.h>
#include <stddef.h>

/* Writes a name that only this job's ranks on this machine share. Its parts: the user's number, the launcher's process
 * and start time, PMIx's namespace. Returns false if no known launcher started the process. */
bool job_id_get(char *text, size_t size);
/* Returns the process that started this one, directly or not, and is a known launcher; -1 if there is none. */
int job_launcher(void);

#endif
