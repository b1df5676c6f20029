/* pipeline_send.h: the sender's side of messages that go in chunks (pipeline.h).
 *
 * The payload is packed into memory of stridec's own, chunk by chunk, and each chunk is handed to the MPI while the
 * next ones are packed: the application's buffer is free when the last one has been. That memory is given back when
 * the MPI has sent it, by a later call. */
#ifndef STRIDEC_OUTFLOW_H
#define STRIDEC_OUTFLOW_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct outflow;

/* Of a buffer that parcel_wants, whose first chunk is mostly being packed from now on. *o stays NULL where the
 * message goes another way: the ranks have not agreed, STRIDEC_TRANSPORT forbids, the message is short or of a type
 * that stridec can't read, or so much is under way that the receivers must be waited for. MPI_SUCCESS, or an error
 * raised on comm. */
int outflow_open(struct outflow **o, struct layout *l, struct where w, const void *buf, int64_t count,
                 MPI_Datatype datatype, int dest, MPI_Comm comm);
/* The same in two steps, the first of which is worth its while once for many messages: the rank that such messages
 * go to in the pipeline, or -1; and a message, whatever is under way. NULL without memory. */
int outflow_way(const struct layout *l, struct where w, int64_t count, int dest, MPI_Comm comm);
struct outflow *outflow_to(int way, struct layout *l, struct where w, const void *buf, int64_t count);
/* To be sent to dest before outflow_feed; it stays as long as o. */
const struct descriptor *outflow_descriptor(const struct outflow *o);
/* It was not sent. */
void outflow_withdraw(struct outflow *o);
/* Packs and sends all chunks. 0, or -1 (logged): the receiver is told that no more comes. */
int outflow_feed(struct outflow *o);
/* After the feeding, o is no longer the caller's: at once, or when the receiver has taken the chunks, if it is at
 * it. */
void outflow_leave(struct outflow *o);
void outflow_end(struct outflow *o);
/* One more holder of o, which needs its descriptor, until outflow_put. */
struct outflow *outflow_hold(struct outflow *o);
void outflow_put(struct outflow *o);   /* NULL is allowed */

/* Gives back what has been sent; called wherever a message may have arrived. */
void outflow_poll(void);
/* True if anything is still being sent. */
bool outflow_any(void);

#endif
