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

struct offer;

/* Offers a buffer that parcel_wants has told of to a rank of comm. NULL where that can't be, and other ways are
 * right: the peer is not on this node, has no stridec or can't read the memory; the memory is not to be shared
 * (virtual-memory mappings, pools, managed, host); the type is too long to describe; STRIDEC_TRANSPORT forbids;
 * payloads below BRIEF_MIN, and those below OFFER_MIN to ranks that take no brief descriptors (rts_short.h). */
struct offer *offer_open(struct layout *l, struct where w, const void *buf, int64_t count, MPI_Datatype datatype,
                         int dest, MPI_Comm comm);
/* The peer that it would be offered to, as far as is known without looking at the memory; else NULL. */
struct peer *offer_peer(struct layout *l, struct where w, int64_t count, MPI_Datatype datatype, int dest,
                        MPI_Comm comm);
/* What the offers of one call have in common: the allocation that the last one was of, and the device whose default
 * stream was waited for. Begins zeroed. */
struct offer_site {
    struct export allocation;
    struct device *drained;
    bool feeds;              /* the caller calls offer_feed when the receiver has been told */
    bool moves;              /* the payload is moved to memory of stridec's own before the receiver is told */
    bool *promise;           /* the sender's (offer_promise), or NULL */
};
/* Keeps a slot free for a sender whose offers follow one another, and says so in *promise; false where too few are
 * left. Its next offer takes that slot, and it is kept again when that has been read. Behind an offer that stays
 * another slot is kept or, where none is free, the promise is lost: no send may wait for its receiver to read. */
bool offer_promise(bool *promise);
void offer_break_promise(bool *promise);
/* The same to a peer that is told of it otherwise than by a descriptor, of any size: `count` elements of a layout
 * that can be read, of a committed type, that lie on d. */
struct offer *offer_to(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                       struct offer_site *site);
const struct descriptor *offer_descriptor(const struct offer *o);
/* What goes down for it: so many of a type. */
int offer_descriptor_count(const struct offer *o, MPI_Datatype *type);
/* After the descriptor of an offer of offer_open was sent: packs what is better packed on this side, in pieces,
 * while the receiver reads those before. 0, or -1: the receiver is told that nothing more comes. */
int offer_feed(struct offer *o);
/* The descriptor was not sent. */
void offer_withdraw(struct offer *o);
/* What offer_end will look at, the receiver's until now, is on its way. */
void offer_near(const struct offer *o);
/* And the slot that the next offer will write. */
void offer_next_near(void);
/* True once the receiver has read all of it: offer_end waits for nothing then. */
bool offer_read(const struct offer *o);
/* True once the sender's buffer is its own again, or will be when the receiver that reads it now is through. Waits
 * for no receiver to begin: after some time the payload moves away, if there is memory. */
bool offer_ended(struct offer *o);
/* Waits until the buffer is free, and gives o back, now or once the receiver has read. 0, or -1: the receiver's
 * process is gone (logged). */
int offer_end(struct offer *o);
/* As offer_end, of an offer whose receiver must come before this call may return: the payload stays where it is, and
 * the MPI goes on meanwhile. */
int offer_await(struct offer *o, MPI_Comm comm);
/* Answers receivers that can't read the memory; called where one of stridec's own calls waits for a peer that may be
 * waiting too. */
void offer_serve(void);
/* Looks after offers whose sends have ended; called wherever a message may have arrived. */
void offer_poll(void);
/* At MPI_Finalize: waits for them. */
void offer_finish(void);

#endif
