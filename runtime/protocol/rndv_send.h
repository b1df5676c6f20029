/* rndv_send.h: the sender's side of messages that go from memory to memory.
 *
 * An offer is a slot of the own file (segment.h) that says where the payload lies and how; a descriptor of it
 * travels in the payload's stead. The receiver reads the memory itself and marks the slot done. A receiver that does
 * not come in time is not waited for: the payload moves to memory of stridec's own, the offer then says so, and the
 * sender goes on, so that no send waits for what an MPI that buffers would not wait for. */
#ifndef STRIDEC_OFFER_H
#define STRIDEC_OFFER_H
#include "datatype/locate.h"
#include "node/ipc_export.h"
#include "rts.h"

struct rndv_send;

/* What the offers of one call have in common: the allocation that the last one was of, and the device whose default
 * stream was waited for. Begins zeroed. */
struct rndv_send_site {
    struct ipc_export allocation;
    struct device *drained;
    bool feeds;   /* the caller calls rndv_send_feed when the receiver has been told */
    bool moves;              /* the payload is moved to memory of stridec's own before the receiver is told */
    bool *promise;   /* the sender's (rndv_send_promise), or NULL */
};
/* Keeps a slot free for a sender whose offers follow one another, and says so in *promise; false where too few are
 * left. Its next offer takes that slot, and it is kept again when that has been read. Behind an offer that stays
 * another slot is kept or, where none is free, the promise is lost: no send may wait for its receiver to read. */
bool rndv_send_promise(bool *promise);
void rndv_send_break_promise(bool *promise);
/* The same to a peer that is told of it otherwise than by a descriptor, of any size: `count` elements of a layout
 * that can be read, of a committed type, that lie on d. */
struct rndv_send *rndv_send_to(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                               struct rndv_send_site *site);
const struct rts *rndv_send_descriptor(const struct rndv_send *o);
/* What goes down for it: so many of a type. */
int rndv_send_descriptor_count(const struct rndv_send *o, MPI_Datatype *type);
/* After the descriptor of an offer of rndv_send_open was sent: packs what is better packed on this side, in pieces,
 * while the receiver reads those before. 0, or -1: the receiver is told that nothing more comes. */
int rndv_send_feed(struct rndv_send *o);
/* The descriptor was not sent. */
void rndv_send_withdraw(struct rndv_send *o);
/* What rndv_send_end will look at, the receiver's until now, is on its way. */
void rndv_send_near(const struct rndv_send *o);
/* And the slot that the next offer will write. */
void rndv_send_next_near(void);
/* True once the receiver has read all of it: rndv_send_end waits for nothing then. */
bool rndv_send_read(const struct rndv_send *o);
/* True once the sender's buffer is its own again, or will be when the receiver that reads it now is through. Waits
 * for no receiver to begin: after some time the payload moves away, if there is memory. */
bool rndv_send_ended(struct rndv_send *o);
/* Waits until the buffer is free, and gives o back, now or once the receiver has read. 0, or -1: the receiver's
 * process is gone (logged). */
int rndv_send_end(struct rndv_send *o);
/* As rndv_send_end, of an offer whose receiver must come before this call may return: the payload stays where it is, and
 * the MPI goes on meanwhile. */
int rndv_send_await(struct rndv_send *o, MPI_Comm comm);
/* Answers receivers that can't read the memory; called where one of stridec's own calls waits for a peer that may be
 * waiting too. */
void rndv_send_serve(void);
/* Looks after offers whose sends have ended; called wherever a message may have arrived. */
void rndv_send_poll(void);
/* At MPI_Finalize: waits for them. */
void rndv_send_finish(void);

#endif
