/* p2p.h: the two ends of a message that a parcel carries: what send.c, receive.c, sendrecv.c and
 * isendrecv.c share. */
#ifndef STRIDEC_MESSAGE_H
#define STRIDEC_MESSAGE_H
#include "datatype/type_filter.h"
#include "device/driver.h"
#include "record.h"

/* What goes down in place of a buffer that is sent: the descriptor of an offer, or of an outflow, which is then fed;
 * or a parcel, packed, by its wire type. */
struct send_op {
    struct rndv_send *offer;
    struct pipeline_send *outflow;
    struct typed_buffer *parcel;
    struct wire wire;
};
/* Whose the buffer is when the call returns: the MPI has a copy; the receiver has had it; or it stays as it is until
 * the send has ended. A synchronous send ends when its receive has begun: no descriptor goes down for it, for the
 * receiver's probes take those from the MPI (probed.h). */
enum leaves { LEAVES_BUFFERED, LEAVES_SYNCHRONOUS, LEAVES_BLOCKING, LEAVES_LATER };
/* True if the call goes on with one of these; else *rc says how the call ended or, where it is MPI_SUCCESS, that it
 * goes down as it came. */
bool p2p_leaves(struct send_op *to, enum leaves how, const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                MPI_Comm comm, int *rc);
/* Keeps the parcel of a nonblocking send until its request completes. One that is over already (eager, buffered)
 * gives its buffers back at once and needs no record. */
void p2p_sent(MPI_Request request, struct typed_buffer *p);
/* A parcel and its wire type for what is to be received; the same is true of *rc. */
bool p2p_awaited(struct typed_buffer **p, struct wire *w, void *buf, int64_t count, MPI_Datatype datatype, int source,
                 MPI_Comm comm, int *rc);
/* Returns true of a receive that shows itself (receive_gate.h), and that the stub would have left to the MPI if none
 * did; false while messages lie aside. */
static inline bool p2p_ignored(const void *buf, MPI_Count count, MPI_Datatype datatype)
{
    if (!receive_gate_on() || probed_any()) return false;
    if (driver_absent()) return filter_receive_is_below(rts_least(), datatype, count);
    return (int64_t)count < rts_least() / 32 && host_message(buf, datatype);
}
/* After a receive: unpacks what arrived, or pulls what its descriptor offers. p may be one that the MPI has received
 * into itself. MPI_SUCCESS, or an error raised on comm. */
int p2p_arrived(struct typed_buffer *p, MPI_Status *status, MPI_Comm comm);
/* The same of a brief message (host_brief) that was received packed. */
int p2p_brief(struct layout *l, void *buf, int64_t count, const void *packed, MPI_Status *status, MPI_Comm comm);

#endif
