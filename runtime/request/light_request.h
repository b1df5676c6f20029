/* light_request.h: receives into host memory that the MPI makes itself, in a process without a driver: they may
 * bring a descriptor and hardly ever do, and what is known of them until they complete costs some nanoseconds. So do
 * brief messages, which have little to gain (host_brief). A request is watched here, or has a record (record.h);
 * whoever looks for a record finds these too. */
#ifndef STRIDEC_WATCH_H
#define STRIDEC_WATCH_H
#include "base/bounce.h"
#include "error_comm.h"
#include "pack/typed_buffer.h"
#include "protocol/rts.h"
#include <mpi.h>

struct watch {
    void *buf;
    int64_t count;
    MPI_Datatype type;
    bool plain;  /* its first bytes are the message's */
    bool sends;  /* what is in the block */
    struct layout *layout;   /* held, of other types in a request, which may be freed before it completes */
    struct block *block;     /* of a brief message, packed; else NULL */
    struct home home;   /* of a request */
    int error;   /* the caller's */
};
/* True of receives that are for here: the call goes down first. */
bool watch_wants(int64_t count, MPI_Datatype type, int source);
/* One of these; it holds nothing of the type. */
struct watch watch_of(void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm);
/* The bytes that a receive brought, modulo 2^31. The status is read as the MPI's header lays it out, where that is
 * known. */
static inline int64_t watch_bytes(const MPI_Status *status)
{
#if defined OPEN_MPI
    return (int64_t)status->_ucount & INT32_MAX;
#elif defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
    return status->count_lo & INT32_MAX;
#else
    return wire_received(status) & INT32_MAX;
#endif
}
/* After a receive with this status: true if it may have brought a descriptor. Not of one that failed. */
static inline bool watch_hit(const struct watch *w, const MPI_Status *status)
{
    if (!descriptor_fits(watch_bytes(status))) return false;
    return !w->plain || descriptor_begins(w->buf);
}
/* What it brought goes to its buffer. MPI_SUCCESS, or an error raised on its communicator. */
int watch_arrived(struct watch *w, MPI_Status *status);
/* After any that has completed well. */
static inline int watch_done(struct watch *w, MPI_Status *status)
{
    bool more = w->block ? !w->sends : watch_hit(w, status);
    return more ? watch_arrived(w, status) : MPI_SUCCESS;
}

/* Watches a request of a receive. False where there is no room, or the type can't be read: it wants a record. */
bool watch_add(MPI_Request request, struct watch w);
/* The same of a brief message in a block: it is watched, or has a record. */
void watch_comes(MPI_Request request, struct layout *l, void *buf, int64_t count, struct block *b, MPI_Comm comm);
/* The same of one that is sent. Whether it is over already is asked only where other sends have the same handle, as
 * MPIs give to all that are over at once: the question lets the MPI go on. */
void watch_leaves(MPI_Request request, struct layout *l, int64_t count, struct block *b);
/* The request is watched no more; false where it was not. */
bool watch_take(MPI_Request request, struct watch *w);
/* One that was taken and has not completed is watched again, or has a record. */
void watch_return(MPI_Request request, struct watch *w);
/* The record of one that was taken. */
struct record *watch_record(MPI_Request request, struct watch *w);
/* Ends one that was taken. */
void watch_end(struct watch *w);
/* True if requests are watched, and none has a record. */
bool watch_alone(void);

#endif
