/* rndv_recv.h: the receiver's side of descriptors. Of messages that go from memory to memory (rndv_send.h) one
 * kernel reads the sender's layout and writes the own one; what was offered together is pulled together. Those in
 * chunks are pipeline_recv.h's. */
#ifndef STRIDEC_PULL_H
#define STRIDEC_PULL_H
#include "node/segment.h"
#include "pack/typed_buffer.h"
#include "rts.h"

struct pull;
struct inflow;
struct pulls {
    struct inflow *inflows;   /* what comes in chunks (pipeline_recv.h) */
    struct pull *first, **last;
    int n;
    void (*meanwhile)(void *); /* called once while a GPU, which is entered, moves bytes; or NULL */
    void *arg;                 /* its argument */
};

/* True if messages of that rank of comm, or MPI_ANY_SOURCE, may be descriptors. */
bool pull_from(MPI_Comm comm, int source);
/* A receive that may bring a descriptor, and that the MPI makes into the buffer itself or, `carried`, into memory of
 * stridec's: *p is a parcel without buffers of its own, or NULL where it can't, since too few bytes fit or nobody of
 * comm offers. MPI_SUCCESS; or, without memory, an error raised on comm: a descriptor would pass for the payload. */
int pull_watch(struct parcel **p, const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm,
               bool carried);
/* True if what a receive for p brought, `came` bytes, is a descriptor, or can't be told from one: then its bytes are
 * PULL_UNREAD, and pull_add gives an error. It lies at `packed`, or, NULL, in p's own buffer. */
#define PULL_UNREAD (-1)
bool pull_wanted(struct parcel *p, const void *packed, int64_t came, struct descriptor *d);
/* The first packed bytes of what came so: where they lie, or in `room`, which has place for them; NULL: they can't
 * be read. */
const char *pull_head(struct parcel *p, const void *packed, char *room, int64_t bytes);
/* What d, which came so, offers is to go to p: both stay as they are until pulls_run. MPI_SUCCESS; MPI_ERR_TRUNCATE
 * where p is too small: nothing is moved; MPI_ERR_NO_MEM; or, of PULL_UNREAD, MPI_ERR_OTHER. The status becomes that
 * of the payload. pulls_run is called in any case. */
int pull_add(struct pulls *ps, const struct descriptor *d, const void *packed, struct parcel *p, MPI_Status *status);
/* Adds what did not come by a descriptor: no brief one (rts_short.h) is under way for it, however short it is. Else
 * as pull_add. */
int pull_add_told(struct pulls *ps, const struct descriptor *d, const void *packed, struct parcel *p,
                  MPI_Status *status);
/* Moves all, waits, and tells the senders. 0 or -1 (logged): a sender has ended, too. */
int pulls_run(struct pulls *ps);

#endif
