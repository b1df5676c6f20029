/* probed.h: the unexpected (probed) queue. A probe must tell the payload's size, which only the RTS itself holds. So
 * the probe receives the RTS and sends it again, to this process itself; the receive that follows gets it from there.
 * Earlier messages of the same rank with other tags are matched and queued before it, because a receive of any tag
 * must find them first. A message that another thread's receive is about to find is left to that (receive_gate.h). */
#ifndef STRIDEC_PROBED_H
#define STRIDEC_PROBED_H
#include "node/segment.h"

/* A message of the queue: where it is now, and what its status must say. */
struct probed_at {
    MPI_Message message;         /* matched, not received yet; MPI_MESSAGE_NULL: sent again, */
    MPI_Comm comm;               /* on this communicator */
    int tag;                     /* with this tag */
    int from_source, from_tag;   /* for the status */
    MPI_Comm from_comm;
};

/* Return true if a receive or a probe with these arguments matches a queued message. Set the status of the first such,
 * or take it out of the queue. */
bool probed_probe(int source, int tag, MPI_Comm comm, MPI_Status *status);
bool probed_take(int source, int tag, MPI_Comm comm, struct probed_at *at);
/* Matches such a message for MPI_Mprobe. Returns true, and sets *rc, if there is one. */
bool probed_match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status, int *rc);
/* Takes the message with a handle of probed_match out of the queue. Returns false if it is not queued. */
bool probed_matched(MPI_Message message, struct probed_at *at);
/* Continue a probe of the MPI that found a message with this status: queue what may be an RTS, and set the status to
 * the payload's. *flag becomes false if no message is left, or another thread's receive may take it. Return the MPI's
 * error. */
int probed_look(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status);
int probed_look_matched(MPI_Message *message, MPI_Comm comm, MPI_Status *status);
/* Ends a receive of a queued message, which returned rc: corrects the status, and raises an error on its communicator.
 * Returns rc. */
int probed_came(const struct probed_at *at, MPI_Status *status, int rc);
/* Receives a taken message, and ends it like probed_came. */
int probed_receive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *status);
/* Receives a taken message without waiting. Returns the MPI's error, raised. The errors of a message that was sent
 * again are to be raised at completion. */
int probed_ireceive(const struct probed_at *at, void *buf, MPI_Count count, MPI_Datatype type, MPI_Request *request);
/* Drops the messages of a communicator that is about to be freed. Matched ones may still be received. */
void probed_forget(MPI_Comm comm);
/* Start at MPI_Init, any number of times; finish at MPI_Finalize. Return 0 or -1. */
int probed_start(void);
void probed_finish(void);

#endif
