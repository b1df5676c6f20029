/* probe.c: probes. A probe reports the payload, not its RTS (probed.h). It also closes the receive gate, in case
 * longjmp left an earlier call of this thread. */
#include "interpose.h"
#include "next.h"
#include "request/probed.h"
#include "request/receive_gate.h"
#include <sched.h>

#define TURNS_A_YIELD 32

/* Polls. The MPI's own call would wait for a message that another thread's probe moves to the unexpected queue. */
static int probe_shared(const struct next *next, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    int there = 0, rc = MPI_SUCCESS;
    for (unsigned turns = 1; rc == MPI_SUCCESS && !there; turns++) {
        rc = call_Iprobe(next, source, tag, comm, &there, status);
        if (turns % TURNS_A_YIELD == 0) sched_yield();
    }
    return rc;
}

int call_Probe(const struct next *next, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int there = 1;
    if (receive_gate_on()) return probe_shared(next, source, tag, comm, s);
    if (probed_probe(source, tag, comm, s)) return poll_end(MPI_SUCCESS);
    int rc = next->Probe(source, tag, comm, s);
    return poll_end(rc == MPI_SUCCESS ? probed_look(source, tag, comm, &there, s) : rc);
}

int call_Iprobe(const struct next *next, int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    receive_gate_close(MPI_SUCCESS);
    if (probed_probe(source, tag, comm, s)) return *flag = 1, poll_end(MPI_SUCCESS);
    int rc = next->Iprobe(source, tag, comm, flag, s);
    return poll_end(rc == MPI_SUCCESS && *flag ? probed_look(source, tag, comm, flag, s) : rc);
}

int call_Mprobe(const struct next *next, int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    receive_gate_open(source, tag, comm);
    if (probed_match(source, tag, comm, message, s, &rc)) return poll_end(receive_gate_close(rc));
    rc = receive_gate_close(next->Mprobe(source, tag, comm, message, s));
    return poll_end(rc == MPI_SUCCESS ? probed_look_matched(message, comm, s) : rc);
}

int call_Improbe(const struct next *next, int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                 MPI_Status *status)
{
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    receive_gate_open(source, tag, comm);
    if (probed_match(source, tag, comm, message, s, &rc)) return *flag = 1, poll_end(receive_gate_close(rc));
    rc = receive_gate_close(next->Improbe(source, tag, comm, flag, message, s));
    return poll_end(rc == MPI_SUCCESS && *flag ? probed_look_matched(message, comm, s) : rc);
}
