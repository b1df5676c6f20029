/* probed.h: probed descriptors. A probe must tell the payload's size, and that stands in the message alone: so it is
 * received, and kept as a message of this process to itself, which the receive that follows is led to. What the same
 * rank has sent before it, by other tags, is matched and kept with it, for a receive by any tag has to find that
 * first. Where several threads call the MPI, a receive of another one may be about to find a message: that is left
 * to it (receive_gate.h). */
#ifndef STRIDEC_ASIDE_H
#define STRIDEC_ASIDE_H
#include "node/segment.h"

/* Where a message that was put aside now is, and what its status has to say. */
struct probed_at {
    MPI_Message message;         /* matched, and not received yet; else MPI_MESSAGE_NULL: */
    MPI_Comm comm;
    int tag;                     /* there, from the own rank */
    int from_source, from_tag;   /* as it came */
    MPI_Comm from_comm;
};

/* The first such message that a receive or a probe with these arguments matches, looked at or taken. */
bool probed_probe(int source, int tag, MPI_Comm comm, MPI_Status *status);
bool probed_take(int source, int tag, MPI_Comm comm, struct probed_at *at);
/* Matches such a message where it is now: true and *rc where there is one. */
bool probed_match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status, int *rc);
/* The same as probed_take of a matched message. */
bool probed_matched(MPI_Message message, struct probed_at *at);
/* After a probe by these arguments that has found a message with this status: puts aside what may be a descriptor,
 * and tells the payload's size. *flag is false then if no message is left, or if another thread's receive may take
 * it. */
int probed_look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int probed_look_matched(MPI_Message *message, MPI_Comm comm, MPI_Status *status);
/* After a receive of it, which returned rc: what its status has to say; an error is raised where it was sent.
 * Returns rc. */
int probed_came(const struct probed_at *at, MPI_Status *status, int rc);
/* Receives it, with that status; what fails is raised where it came from. The same without waiting; there the error
 * is still to be raised if it is not a message that was only matched. */
int probed_receive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *status);
int probed_ireceive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Request *request);
/* The communicator is about to be freed: another one may get its handle. What was matched may still be received. */
void probed_forget(MPI_Comm comm);
/* At MPI_Init, any number of times, and at MPI_Finalize. 0 or -1. */
int probed_start(void);
void probed_finish(void);

#endif
