/* progress_thread.h: a thread that answers NACKs while the application computes or is inside the MPI. */
#ifndef STRIDEC_PROGRESS_THREAD_H
#define STRIDEC_PROGRESS_THREAD_H
#include "node/segment.h"

/* Starts the thread, if needed: it calls `serve` after each progress_thread_call. Returns false on failure. */
bool progress_thread_start(void (*serve)(void));
/* Wakes p's thread, after this receiver has set NACK in one of p's slots. */
void progress_thread_call(const struct peer *p);
/* Ends the thread (at MPI_Finalize). */
void progress_thread_finish(void);

#endif
