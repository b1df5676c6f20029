/* rndv_recv.h: receives announced by an RTS header. For a zero-copy message (rndv_send.h) one kernel reads the sender's
 * layout and writes the receiver's; messages of one call share launches. pipeline_recv.h receives chunks. */
#ifndef STRIDEC_RNDV_RECV_H
#define STRIDEC_RNDV_RECV_H
#include "node/segment.h"
#include "pack/typed_buffer.h"
#include "rts.h"

struct message;
struct rndv_get;
struct pipeline_recv;
struct rndv_recvs {
    struct pipeline_recv *pipelined;   /* messages in chunks (pipeline_recv.h) */
    struct rndv_get *first, **last;
    int n;
    int parts;                   /* of them, parts after the first */
    void (*meanwhile)(void *);   /* called once, device entered, while bytes move; or NULL */
    void *arg;                   /* argument of meanwhile */
};

/* Returns true if a message from `source` (or MPI_ANY_SOURCE) may be an RTS. */
bool rndv_recv_from(MPI_Comm comm, int source);
/* Prepares a receive that may bring an RTS; locates m if that is needed. `carried`: the MPI receives into stridec's
 * memory, else into the buffer. Sets *p to a typed buffer without buffers of its own, or NULL if no RTS can come: too
 * few bytes, or no such sender. Returns MPI_SUCCESS; without memory raises an error on comm, since an RTS would pass
 * for the payload. */
int rndv_recv_prepare(struct typed_buffer **p, struct message *m, bool carried);
/* Tries to read memory of the message's source, or of the first ranks for MPI_ANY_SOURCE, if the buffer is on a device:
 * their later messages to it then need no copy. */
void rndv_recv_probe(const struct message *m);
/* Returns true if the `came` bytes received for p are an RTS, and fills d. If they can't be read, returns true with
 * d->bytes = RNDV_RECV_UNREAD; rndv_recv_add then fails. The bytes lie at `packed`, or, if NULL, in p's buffer. */
#define RNDV_RECV_UNREAD (-1)
bool rndv_recv_is_rts(struct typed_buffer *p, const void *packed, int64_t came, struct rts *d);
/* A probe takes an RTS out of the MPI's queue, which for the MPI is the match. To the sender of a synchronous message
 * it is none: rndv_recv_probing surrounds the taking, and rndv_recv_probed notes in the message's slot that no receive
 * has it yet, or that one has. RTS headers of chunks have no slot. */
void rndv_recv_probing(bool begins);
void rndv_recv_probed(const struct rts *d, bool probed);
/* Returns the first `bytes` packed bytes received, in place or copied to `room`; NULL if they can't be read. */
const char *rndv_recv_head(struct typed_buffer *p, const void *packed, char *room, int64_t bytes);
/* Adds the message of the RTS d, to be received into p. The caller owns both and keeps them until rndv_recvs_run,
 * which it calls in any case. Sets the status of the payload. Returns MPI_SUCCESS, MPI_ERR_NO_MEM,
 * MPI_ERR_TRUNCATE (p too small: nothing is moved) or MPI_ERR_OTHER (RNDV_RECV_UNREAD). */
int rndv_recv_add(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                  MPI_Status *status);
/* Adds a message announced without an RTS, like rndv_recv_add; never counts it as a short RTS (rts_short.h). */
int rndv_recv_add_told(struct rndv_recvs *ps, const struct rts *d, const void *packed, struct typed_buffer *p,
                       MPI_Status *status);
/* Moves all payloads, waits, and sets the slots to DONE. Returns 0, or -1 (logged) also if a sender has ended. */
int rndv_recvs_run(struct rndv_recvs *ps);

#endif
