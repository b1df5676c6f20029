/* aside.h: probed descriptors. A probe must tell the payload's size, and that stands in the message alone: so it is
 * received, and kept as a message of this process to itself, which the receive that follows is led to. */
#ifndef STRIDEC_ASIDE_H
#define STRIDEC_ASIDE_H
#include "node.h"

/* Where a message that was put aside now is, and what its status has to say. */
struct aside_at {
    MPI_Comm comm;
    int tag;                     /* there, from the own rank */
    int from_source, from_tag;   /* as it came */
    MPI_Comm from_comm;
};

/* True while any message is aside. */
bool aside_any(void);
/* The first such message that a receive or a probe with these arguments matches, looked at or taken. */
bool aside_probe(int source, int tag, MPI_Comm comm, MPI_Status *status);
bool aside_take(int source, int tag, MPI_Comm comm, struct aside_at *at);
/* Matches such a message where it is now: true and *rc where there is one. */
bool aside_match(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status, int *rc);
/* The same as aside_take of a matched message. */
bool aside_matched(MPI_Message message, struct aside_at *at);
/* After a probe: puts aside what may be a descriptor, and tells the payload's size. */
int aside_look(MPI_Comm comm, MPI_Status *status);
int aside_look_matched(MPI_Message *message, MPI_Comm comm, MPI_Status *status);
/* A status of the receive that took it. */
void aside_fix(const struct aside_at *at, MPI_Status *status);
/* At MPI_Init, any number of times, and at MPI_Finalize. 0 or -1. */
int aside_start(void);
void aside_finish(void);

#endif
