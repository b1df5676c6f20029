/* receive_gate.h: receives that are on their way into the MPI, where several threads may call it.
 *
 * A probe takes a descriptor out of the MPI (probed.h). A receive of another thread may have found nothing aside, and
 * the MPI may not know of it yet: it would wait for that message in vain. So each receive first shows here what it
 * matches, until the MPI's call returns. A probe first says that it takes (probed_any), and then leaves alone what
 * such a receive matches: one of the two sees the other. Receives from matched messages (MPI_Mrecv) need no gate. */
#ifndef STRIDEC_GATE_H
#define STRIDEC_GATE_H
#include "base/activity.h"

/* Shows what this thread is about to receive, or to match, until receive_gate_close. With MPI_COMM_NULL it may be any
 * message. Where there is no memory the process ends. */
void receive_gate_show(int source, int tag, MPI_Comm comm);
/* The MPI knows of it, or has done it. Closing twice does no harm. */
void receive_gate_hide(void);
static inline void receive_gate_open(int source, int tag, MPI_Comm comm)
{
    if (receive_gate_on()) receive_gate_show(source, tag, comm);
}
/* Closes the gate after a call of the MPI's, and returns what that returned. */
static inline int receive_gate_close(int rc)
{
    if (receive_gate_on()) receive_gate_hide();
    return rc;
}
/* Returns true if a receive that is on its way may match such a message. */
bool receive_gate_awaits(int source, int tag, MPI_Comm comm);

#endif
