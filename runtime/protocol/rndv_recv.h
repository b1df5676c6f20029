/* rndv_recv.h: the receiver's side of descriptors. Of messages that go from memory to memory (rndv_send.h) one
 * kernel reads the sender's layout and writes the own one; what was offered together is pulled together. Those in
 * chunks are pipeline_recv.h's. */
#ifndef STRIDEC_PULL_H
#define STRIDEC_PULL_H
#include "node/segment.h"
#include "pack/typed_buffer.h"
#include "rts.h"

struct pull;
struct pipeline_recv;
struct rndv_recvs {
    struct pipeline_recv *inflows;   /* what comes in chunks (pipeline_recv.h) */
    struct pull *first, **last;
    int n;
    void (*meanwhile)(void *); /* called once while a GPU, which is entered, moves bytes; or NULL */
    void *arg;                 /* its argument */
};

/* True if messages of that rank of comm, or MPI_ANY_SOURCE, may be descriptors. */
bool rndv_recv_from(MPI_Comm comm, int source);
/* A receive that may bring a descriptor, and that the MPI makes into the buffer itself or, `carried`, into memory of
 * stridec's: *p is a parcel without buffers of its own, or NULL where it can't, since too few bytes fit or nobody of
 * comm offers. MPI_SUCCESS; or, without memory, an error raised on comm: a descriptor would pass for the payload. */
int rndv_recv_watch(struct typed_buffer **p, const void *buf, int64_t count, MPI_Datatype datatype, int source,
                    MPI_Comm comm, bool carried);
/* True if what a receive for p brought, `came` bytes, is a descriptor, or can't be told from one: then its bytes are
 * RNDV_RECV_UNREAD, and rndv_recv_add gives an error. It lies at `packed`, or, NULL, in p's own buffer. */
#define RNDV_RECV_UNREAD (-1)
bool rndv_recv_wanted(struct typed_buffer *p, const void *packed, int64_t came, struct rts *d);
/* The first packed bytes of what came so: where they lie, or in `room`, which has place for them; NULL: they can't
 * be read. */
const char *rndv_recv_head(struct typed_buffer *p, const void *packed, char *room, int64_t bytes);
/* What d, which came so, offers is to go to p: both stay as they are until rndv_recvs_run. MPI_SUCCESS; MPI_ERR_TRUNCATE
 * where p is too small: nothing is moved; MPI_ERR_NO_MEM; or, of RNDV_RECV_UNREAD, MPI_ERR_OTHER. The status becomes that
 * of the payload. rndv_recvs_run is called in any case. */
int rndv_recv_add(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                  MPI_Status *status);
/* Adds what did not come by a descriptor: no brief one (rts_short.h) is under way for it, however short it is. Else
 * as rndv_recv_add. */
int rndv_recv_add_told(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                       MPI_Status *status);
/* Moves all, waits, and tells the senders. 0 or -1 (logged): a sender has ended, too. */
int rndv_recvs_run(struct rndv_recvs *ps);

#endif
