/* progress_thread.h: a thread that looks after refused offers. Their receivers wait for it, and the application's
 * threads may be anywhere: computing, or inside the MPI. */
#ifndef STRIDEC_ATTEND_H
#define STRIDEC_ATTEND_H
#include "node/segment.h"

/* From the first offer on `serve` is called soon after each progress_thread_call of a peer. Cheap once it runs. False where no
 * thread can be had. */
bool progress_thread_start(void (*serve)(void));
/* The receiver's: one of p's slots is refused. */
void progress_thread_call(const struct peer *p);
/* At MPI_Finalize. */
void progress_thread_finish(void);

#endif
