/* pipeline_send.h: the sender's side of messages in chunks (pipeline.h).
 *
 * Each chunk is packed into a bounce buffer and sent while the next ones are packed. The application may reuse its
 * buffer once the last chunk is packed. A later call frees the bounce buffer, after the MPI has sent it. */
#ifndef STRIDEC_PIPELINE_SEND_H
#define STRIDEC_PIPELINE_SEND_H
#include "pack/typed_buffer.h"
#include "rts.h"

struct pipeline_send;

/* Returns the destination's rank in the pipeline, or -1 if the message can't go in chunks: the ranks have not agreed,
 * STRIDEC_TRANSPORT forbids it, the message is short, or stridec can't read the type. */
struct message;
int pipeline_send_way(const struct message *m);
/* Begins such a message, with no limit on unfinished bytes. Returns NULL without memory. */
struct pipeline_send *pipeline_send_to(int way, struct layout *l, struct location w, const void *buf, int64_t count);
/* Returns the RTS, owned by o. The caller sends it before pipeline_send_feed. */
const struct rts *pipeline_send_rts(const struct pipeline_send *o);
/* Frees o; its RTS was not sent. */
void pipeline_send_withdraw(struct pipeline_send *o);
/* Packs and sends all chunks; blocks until they are packed. Returns 0, or -1 (logged) and tells the receiver. */
int pipeline_send_feed(struct pipeline_send *o);
/* After pipeline_send_feed: gives o up at once. */
void pipeline_send_leave(struct pipeline_send *o);
/* Leaves o too, but waits while the receiver takes chunks (PATIENCE_NS for each). */
void pipeline_send_end(struct pipeline_send *o);
/* Adds a holder, who may use the RTS of o until pipeline_send_put. Returns o. */
struct pipeline_send *pipeline_send_hold(struct pipeline_send *o);
void pipeline_send_put(struct pipeline_send *o);   /* NULL is allowed */

/* Frees completed sends; called wherever a message may have arrived. */
void pipeline_send_poll(void);
/* Returns true if a send given up by its caller is not complete. */
bool pipeline_send_any(void);

#endif
