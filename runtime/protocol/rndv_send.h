/* rndv_send.h: the sender's side of zero-copy messages.
 *
 * The sender posts a slot of its file (segment.h) that says where the payload lies and how; an RTS travels in the
 * payload's stead. The receiver reads the memory and sets the slot to DONE. No send waits long for its receiver: after
 * some time the payload moves to memory of stridec's own, or to a file, and the send ends. States: protocol.h. */
#ifndef STRIDEC_RNDV_SEND_H
#define STRIDEC_RNDV_SEND_H
#include "datatype/locate.h"
#include "node/ipc_export.h"
#include "rts.h"

struct rndv_send;

/* Shared by the sends of one call: the last allocation, and the device whose default stream was waited for. Begins
 * zeroed. */
struct rndv_send_site {
    struct ipc_export allocation;
    struct device *drained;
    bool located;   /* the caller has located the message in the same MPI call */
    bool as_before;   /* as in struct location */
    bool feeds;   /* the caller calls rndv_send_feed once the RTS is out */
    bool synchronous;   /* the MPI sends the RTS synchronously, and the send ends only after the match */
    bool moves;   /* the payload moves to memory of stridec's own before the RTS goes out */
    bool *reserved;   /* the sender's (rndv_send_reserve), or NULL */
};
/* Reserves a slot for a persistent send and sets *reserved; returns false if too few are left. The next send takes
 * it, and it is reserved again once that was read. If the send outlives its call, another slot is reserved or,
 * without any, the reservation is lost: no send waits for its receiver to read. */
bool rndv_send_reserve(bool *reserved);
void rndv_send_unreserve(bool *reserved);
/* Posts `count` elements on d, NULL: in host memory, of a readable layout and a committed type, for `peer`; the caller
 * announces the slot. In host memory the layout is not contiguous. Returns NULL if the message goes another way. */
struct rndv_send *rndv_send_to(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                               struct rndv_send_site *site);
/* Packs the payload into a file without a slot: earlier sends hold all slots. The receiver removes the file. Returns
 * NULL if there is no room. The RTS is never short. */
struct rndv_send *rndv_send_apart(struct peer *peer, struct layout *l, struct device *d, const void *buf, int64_t count,
                                  const struct rndv_send_site *site);
const struct rts *rndv_send_rts(const struct rndv_send *o);
/* Returns the count and type of the RTS that the MPI sends. */
int rndv_send_rts_count(const struct rndv_send *o, MPI_Datatype *type);
/* Returns the same for all sends of such memory to peer, short RTS excepted. */
int rndv_send_count(const struct peer *peer, const struct device *d, MPI_Datatype *type);
/* Packs, in pieces that the receiver follows, what is better packed on this side. Call it once the RTS is out.
 * Returns 0, or -1: the receiver is told that no more comes. */
int rndv_send_feed(struct rndv_send *o);
/* Returns true if that has something to pack. */
bool rndv_send_pushes(const struct rndv_send *o);
/* Frees o and its slot: the RTS was not sent, or all has been read. */
void rndv_send_withdraw(struct rndv_send *o);
/* Prefetches the slot that rndv_send_end will read. */
void rndv_send_near(const struct rndv_send *o);
/* Prefetches the slot that the next send will write. */
void rndv_send_next_near(void);
/* Returns true once the receiver has read all: rndv_send_end does not wait then, of a synchronous send either. */
bool rndv_send_read(const struct rndv_send *o);
/* Returns true once the buffer is the application's again, or a receiver is reading it. Does not wait: after some
 * time the payload moves away. Of a synchronous send the MPI has completed the request. */
bool rndv_send_ended(struct rndv_send *o);
/* Lets a synchronous send end without a match: the application has freed its request. */
void rndv_send_unmatch(struct rndv_send *o);
/* Waits until the buffer is the application's again and takes o over. Returns 0, or -1 if the receiver's process
 * is gone (logged). */
int rndv_send_end(struct rndv_send *o);
/* Waits until the receiver has read, makes the MPI progress meanwhile, and takes o over. Returns like rndv_send_end. */
int rndv_send_await(struct rndv_send *o, MPI_Comm comm);
/* Answers NACKs. For waits for a peer that may itself be waiting for an answer. */
void rndv_send_serve(void);
/* Frees sends that outlived their calls and were read. Call it wherever a message may have arrived. */
void rndv_send_poll(void);
/* Waits for them at MPI_Finalize. */
void rndv_send_finish(void);

#endif
