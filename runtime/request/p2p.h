/* p2p.h: the two ends of a message that a parcel carries: what send.c, receive.c, sendrecv.c and
 * isendrecv.c share. */
#ifndef STRIDEC_MESSAGE_H
#define STRIDEC_MESSAGE_H
#include "datatype/type_filter.h"
#include "device/driver.h"
#include "protocol/protocol.h"
#include "record.h"

/* Ends a blocking send of send_select: `rc` is what the MPI returned for op->address. Returns MPI_SUCCESS, or an error. */
int p2p_send_end(struct send_op *op, int rc, MPI_Comm comm);
/* Continues a nonblocking one: its record completes with *request, which may change. */
int p2p_isend_end(struct send_op *op, int rc, MPI_Comm comm, MPI_Request *request);
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
