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

/* Returns the rank of the pipeline that such messages go to; -1 where they go another way: the ranks have not agreed,
 * STRIDEC_TRANSPORT forbids, the message is short, or stridec can't read the type. */
int pipeline_send_way(const struct layout *l, struct location w, int64_t count, int dest, MPI_Comm comm);
/* Begins such a message, whatever is under way. Returns NULL without memory. */
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
