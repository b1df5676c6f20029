/* self_comm.h: communicators for what stridec itself does. A program that has started sessions only (MPI-4) has no
 * MPI_COMM_WORLD and no MPI_COMM_SELF. */
#ifndef STRIDEC_WORLD_H
#define STRIDEC_WORLD_H
#include "next.h"
#include <stdbool.h>

/* Between MPI_Init and MPI_Finalize. */
bool world_exists(void);
/* MPI_COMM_SELF or, without a world, one like it from a session of stridec's own, made when it is first asked for:
 * MPICH 5 waits for all processes then. MPI_COMM_NULL where the MPI gives none. */
MPI_Comm world_self(void);
#ifdef HAVE_Session_init
/* Errors that belong to no communicator go to the handler of the program's first session. */
void world_of_session(MPI_Session session);
#endif
/* Lets the MPI go on with what is under way, on any communicator; does nothing where comm is MPI_COMM_WORLD and
 * there is none. comm has several processes: MPICH's probes of MPI_COMM_SELF let nothing go on. Nor do probes that
 * find a message: this one asks for a tag that no message has. */
void world_progress(MPI_Comm comm);
void world_finish(void);

#endif
