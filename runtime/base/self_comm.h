/* self_comm.h: communicators for stridec's own calls. With sessions only (MPI-4), a program has no MPI_COMM_WORLD. */
#ifndef STRIDEC_SELF_COMM_H
#define STRIDEC_SELF_COMM_H
#include "next.h"
#include <stdbool.h>

/* Returns true between MPI_Init and MPI_Finalize. */
bool world_exists(void);
/* Returns MPI_COMM_SELF; without a world, a similar communicator from stridec's own session, made at the first
 * call. MPICH 5 then waits for all processes. Returns MPI_COMM_NULL if the MPI gives none. */
MPI_Comm self_comm_get(void);
#ifdef HAVE_Session_init
/* Keeps the error handler of the program's first session, for errors that belong to no communicator. */
void self_comm_set_session(MPI_Session session);
#endif
/* Lets the MPI make progress on all communicators. comm has several processes; does nothing without a world for it.
 * Workaround (MPICH 4.0): a probe of MPI_COMM_SELF, or one that finds a message, makes no progress; probes an unused
 * tag. */
void comm_progress(MPI_Comm comm);
/* Waits for turn number `spins` (backoff.h), and calls comm_progress in some. */
void comm_backoff(MPI_Comm comm, unsigned spins);
void self_comm_finish(void);

#endif
