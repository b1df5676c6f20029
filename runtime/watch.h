/* watch.h: receives into host memory that the MPI makes itself, in a process without a driver: they may bring a descriptor
 * and hardly ever do, and what is known of them until they complete costs some nanoseconds. A request is watched here, or
 * has a record (request.h); whoever looks for a record finds these too. */
#ifndef STRIDEC_WATCH_H
#define STRIDEC_WATCH_H
#include "descriptor.h"
#include "parcel.h"
#include <mpi.h>

struct watch {
    void *buf;
    int64_t count;
    MPI_Datatype type;
    bool plain;  /* its first bytes are the message's */
    struct layout *layout;   /* held, of other types in a request, which may be freed before it completes */
    int error;   /* the caller's */
};
/* True of receives that are for here: the call goes down first. */
bool watch_wants(int64_t count, MPI_Datatype type, int source);
/* Of one of these, that blocks. */
struct watch watch_of(void *buf, int64_t count, MPI_Datatype type);
/* After a receive with this status: true if it may have brought a descriptor. Not of one that failed. The status is read as
 * the MPI's header lays it out, where that is known. */
static inline bool watch_hit(const struct watch *w, const MPI_Status *status)
{
#if defined OPEN_MPI
    if (!descriptor_fits((int64_t)status->_ucount)) return false;
#elif defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
    if (!descriptor_fits(status->count_lo)) return false;
#else
    if (!descriptor_fits(wire_received(status))) return false;
#endif
    return !w->plain || descriptor_begins(w->buf);
}
/* What it brought goes to its buffer. MPI_SUCCESS, or an error raised on comm. */
int watch_arrived(const struct watch *w, MPI_Status *status, MPI_Comm comm);
/* A parcel for what it may bring; NULL without memory. */
struct parcel *watch_parcel(const struct watch *w);

/* Watches a request. False where there is no room, or the type can't be read: it wants a record. */
bool watch_add(MPI_Request request, struct watch w);
/* The request is watched no more; false where it was not. */
bool watch_take(MPI_Request request, struct watch *w);
/* The same for one that was taken and has not completed: it is watched again, or has a record. */
void watch_return(MPI_Request request, const struct watch *w);
/* Ends one that was taken. */
void watch_end(struct watch *w);
/* True if requests are watched, and none has a record. */
bool watch_alone(void);

#endif
