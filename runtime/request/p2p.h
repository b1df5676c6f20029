/* p2p.h: the two ends of a message in a typed buffer, for send.c, receive.c, sendrecv.c and isendrecv.c. */
#ifndef STRIDEC_P2P_H
#define STRIDEC_P2P_H
#include "datatype/type_filter.h"
#include "device/driver.h"
#include "protocol/protocol.h"
#include "record.h"

/* Ends a blocking send of send_select: `rc` is what the MPI returned for op->address. Returns MPI_SUCCESS, or an
 * error. */
int p2p_send_end(struct send_op *op, int rc, MPI_Comm comm);
/* Ends a nonblocking send like p2p_send_end. Its record completes with *request, which may change. */
int p2p_isend_end(struct send_op *op, int rc, MPI_Comm comm, MPI_Request *request);
/* Keeps the typed buffer of a nonblocking send until its request completes. Closes it at once if the send is complete
 * (eager, buffered). */
void p2p_sent(MPI_Request request, struct typed_buffer *p);
/* Locates m. Opens *p, and sets *w to its count and type, for a receive. Returns false if the MPI receives into the
 * buffer itself, or if *rc is an error, raised on comm. */
bool p2p_awaited(struct typed_buffer **p, struct wire *w, struct message *m, int *rc);
/* Returns true if a receive is stridec's only because receives show themselves (receive_gate.h). Returns false while
 * there are probed messages. */
static inline bool p2p_ignored(const void *buf, MPI_Count count, MPI_Datatype datatype)
{
    if (!receive_gate_on() || probed_any()) return false;
    if (driver_absent()) return filter_receive_is_below(rts_least(), datatype, count);
    return (int64_t)count < rts_least() / 32 && host_message(buf, datatype);
}
/* Ends a receive: unpacks what arrived, or receives by rendezvous after an RTS. p may have no transport: the MPI
 * received into the buffer itself. Returns MPI_SUCCESS, or an error raised on comm. */
int p2p_arrived(struct typed_buffer *p, MPI_Status *status, MPI_Comm comm);
/* Ends a receive of a short message (host_sends_short) whose packed bytes came. Returns like p2p_arrived. */
int p2p_short(struct layout *l, void *buf, int64_t count, const void *packed, MPI_Status *status, MPI_Comm comm);

#endif
