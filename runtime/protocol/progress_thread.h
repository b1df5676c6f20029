/* progress_thread.h: a thread that looks after refused offers. Their receivers wait for it, and the application's
 * threads may be anywhere: computing, or inside the MPI. */
#ifndef STRIDEC_ATTEND_H
#define STRIDEC_ATTEND_H
#include "node/segment.h"

/* From the first offer on `serve` is called soon after each attend_call of a peer. Cheap once it runs. False where no
 * thread can be had. */
bool attend_start(void (*serve)(void));
/* The receiver's: one of p's slots is refused. */
void attend_call(const struct peer *p);
/* At MPI_Finalize. */
void attend_finish(void);

#endif
