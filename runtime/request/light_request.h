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

struct light_request {
    void *buf;
    int64_t count;
    MPI_Datatype type;
    bool plain;  /* its first bytes are the message's */
    bool sends;  /* what is in the block */
    struct layout *layout;   /* held, of other types in a request, which may be freed before it completes */
    struct bounce *block;   /* of a brief message, packed; else NULL */
    struct error_comm error_comm;   /* of a request */
    int error;   /* the caller's */
};
/* True of receives that are for here: the call goes down first. */
bool light_request_wants(int64_t count, MPI_Datatype type, int source);
/* One of these; it holds nothing of the type. */
struct light_request light_request_of(void *buf, int64_t count, MPI_Datatype type, MPI_Comm comm);
/* The bytes that a receive brought, modulo 2^31. The status is read as the MPI's header lays it out, where that is
 * known. */
static inline int64_t light_request_bytes(const MPI_Status *status)
{
#if defined OPEN_MPI
    return (int64_t)status->_ucount & INT32_MAX;
#elif defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
    return status->count_lo & INT32_MAX;
#else
    return mpi_bytes_received(status) & INT32_MAX;
#endif
}
/* After a receive with this status: true if it may have brought a descriptor. Not of one that failed. */
static inline bool light_request_hit(const struct light_request *w, const MPI_Status *status)
{
    if (!rts_fits(light_request_bytes(status))) return false;
    return !w->plain || rts_begins(w->buf);
}
/* What it brought goes to its buffer. MPI_SUCCESS, or an error raised on its communicator. */
int light_request_arrived(struct light_request *w, MPI_Status *status);
/* After any that has completed well. */
static inline int light_request_done(struct light_request *w, MPI_Status *status)
{
    bool more = w->block ? !w->sends : light_request_hit(w, status);
    return more ? light_request_arrived(w, status) : MPI_SUCCESS;
}

/* Watches a request of a receive. False where there is no room, or the type can't be read: it wants a record. */
bool light_request_add(MPI_Request request, struct light_request w);
/* The same of a brief message in a block: it is watched, or has a record. */
void light_request_comes(MPI_Request request, struct layout *l, void *buf, int64_t count, struct bounce *b,
                         MPI_Comm comm);
/* The same of one that is sent. Whether it is over already is asked only where other sends have the same handle, as
 * MPIs give to all that are over at once: the question lets the MPI go on. */
void light_request_leaves(MPI_Request request, struct layout *l, int64_t count, struct bounce *b);
/* The request is watched no more; false where it was not. */
bool light_request_take(MPI_Request request, struct light_request *w);
/* One that was taken and has not completed is watched again, or has a record. */
void light_request_return(MPI_Request request, struct light_request *w);
/* The record of one that was taken. */
struct record *light_request_record(MPI_Request request, struct light_request *w);
/* Ends one that was taken. */
void light_request_end(struct light_request *w);
/* True if requests are watched, and none has a record. */
bool light_request_alone(void);

#endif
