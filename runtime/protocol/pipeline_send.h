/* pipeline_send.h: the sender's side of messages that go in chunks (pipeline.h).
 *
 * The payload is packed into memory of stridec's own, chunk by chunk, and each chunk is handed to the MPI while the
 * next ones are packed: the application's buffer is free when the last one has been. That memory is given back when
 * the MPI has sent it, by a later call. */
#ifndef STRIDEC_OUTFLOW_H
#define STRIDEC_OUTFLOW_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct pipeline_send;

/* Of a buffer that typed_buffer_wants, whose first chunk is mostly being packed from now on. *o stays NULL where the
 * message goes another way: the ranks have not agreed, STRIDEC_TRANSPORT forbids, the message is short or of a type
 * that stridec can't read, or so much is under way that the receivers must be waited for. MPI_SUCCESS, or an error
 * raised on comm. */
int pipeline_send_open(struct pipeline_send **o, struct layout *l, struct location w, const void *buf, int64_t count,
                       MPI_Datatype datatype, int dest, MPI_Comm comm);
/* The same in two steps, the first of which is worth its while once for many messages: the rank that such messages
 * go to in the pipeline, or -1; and a message, whatever is under way. NULL without memory. */
int pipeline_send_way(const struct layout *l, struct location w, int64_t count, int dest, MPI_Comm comm);
struct pipeline_send *pipeline_send_to(int way, struct layout *l, struct location w, const void *buf, int64_t count);
/* To be sent to dest before pipeline_send_feed; it stays as long as o. */
const struct rts *pipeline_send_descriptor(const struct pipeline_send *o);
/* It was not sent. */
void pipeline_send_withdraw(struct pipeline_send *o);
/* Packs and sends all chunks. 0, or -1 (logged): the receiver is told that no more comes. */
int pipeline_send_feed(struct pipeline_send *o);
/* After the feeding, o is no longer the caller's: at once, or when the receiver has taken the chunks, if it is at
 * it. */
void pipeline_send_leave(struct pipeline_send *o);
void pipeline_send_end(struct pipeline_send *o);
/* One more holder of o, which needs its descriptor, until pipeline_send_put. */
struct pipeline_send *pipeline_send_hold(struct pipeline_send *o);
void pipeline_send_put(struct pipeline_send *o);   /* NULL is allowed */

/* Gives back what has been sent; called wherever a message may have arrived. */
void pipeline_send_poll(void);
/* True if anything is still being sent. */
bool pipeline_send_any(void);

#endif
