/* message.h: the two ends of a message that a parcel carries: what calls_p2p.c and calls_exchange.c share. */
#ifndef STRIDEC_MESSAGE_H
#define STRIDEC_MESSAGE_H
#include "request.h"

/* A parcel and its wire type for what is to be sent, packed. True if the call goes on with them; else *p is NULL and
 * *rc says how the call ended or, where it is MPI_SUCCESS, that it goes down as it came. */
bool message_packed(struct parcel **p, struct wire *w, const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                    MPI_Comm comm, int *rc);
/* The same for what is to be received, but for the packing. */
bool message_awaited(struct parcel **p, struct wire *w, void *buf, int64_t count, MPI_Datatype datatype, int source,
                     MPI_Comm comm, int *rc);
/* After a receive: unpacks what arrived, or pulls what its descriptor offers. p may be one that the MPI has received
 * into itself. MPI_SUCCESS, or an error raised on comm. */
int message_arrived(struct parcel *p, MPI_Status *status, MPI_Comm comm);
/* Unpacks the first `bytes` packed bytes, where p has them apart from the buffer. MPI_SUCCESS, or an error raised on comm. */
int message_unpack(struct parcel *p, int64_t bytes, MPI_Comm comm);

#endif
