/* receive_gate.h: receives on their way into the MPI, if several threads may call it.
 *
 * A probe takes an RTS out of the MPI (probed.h). Another thread's receive may have looked into the probed queue
 * before, and not have reached the MPI: it would wait for that message for ever. So each receive first shows what it
 * matches, until the MPI's call returns. A probe first counts itself (probed_any), and then leaves such messages
 * alone: one of the two sees the other. Receives of matched messages (MPI_Mrecv) need no gate. */
#ifndef STRIDEC_RECEIVE_GATE_H
#define STRIDEC_RECEIVE_GATE_H
#include "base/activity.h"

/* Shows what this thread is about to receive or match, until receive_gate_close; MPI_COMM_NULL: any message. Ends the
 * process without memory. */
void receive_gate_show(int source, int tag, MPI_Comm comm);
/* Shows it no longer: the MPI knows it. May be called twice. */
void receive_gate_hide(void);
static inline void receive_gate_open(int source, int tag, MPI_Comm comm)
{
    if (receive_gate_on()) receive_gate_show(source, tag, comm);
}
/* Closes the gate after a call of the MPI. Returns rc. */
static inline int receive_gate_close(int rc)
{
    if (receive_gate_on()) receive_gate_hide();
    return rc;
}
/* Returns true if a receive on its way may match such a message. */
bool receive_gate_awaits(int source, int tag, MPI_Comm comm);

#endif
