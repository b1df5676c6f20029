/* completion_set.h: what a call that completes requests remembers of them. Under MPI_THREAD_MULTIPLE each call takes
 * the records of its requests, lets the MPI complete them, finishes what completed and keeps the rest: as soon as
 * the MPI has completed a request, its handle may be another thread's. At the other levels nobody reuses a handle
 * before the call returns: only the records of what completed are looked for, by the handles that were there before. */
#ifndef STRIDEC_FINDER_H
#define STRIDEC_FINDER_H
#include "record.h"

/* And statuses of our own where the application wants none, since only they tell what arrived. */
struct completion_set {
    int count;
    struct record **records;   /* with threads: NULL where there is none */
    MPI_Request *handles;      /* else */
    MPI_Status *statuses;
    void *block;               /* what these lie in, if not in `few` */
    struct {
        struct record *records[32];
        MPI_Request handles[32];
        MPI_Status statuses[32];
    } few;
};

/* False if no request has a record, as far as that is known: the call goes straight down. `statuses` may be
 * MPI_STATUSES_IGNORE. Else one of completion_set_close to completion_set_some ends it. */
bool completion_set_open(struct completion_set *f, int count, const MPI_Request requests[], MPI_Status *statuses);
/* Memory for so many requests, and for statuses where the application has none; nothing is looked for. */
void completion_set_room(struct completion_set *f, int count, MPI_Status *statuses);
void completion_set_leave(struct completion_set *f);   /* gives that back */

/* True if a buffer that was offered is not free yet. */
bool completion_set_offers(const struct completion_set *f);
/* Goes on with neighbourhood collectives: true where all among the requests are complete, as far as the MPI's next
 * look at them can tell. Calls that wait for requests of the MPI's own have these complete before. */
bool completion_set_step(const struct completion_set *f);

/* What did not complete goes back into the table. */
void completion_set_close(struct completion_set *f);
/* Not complete; but the MPI goes on. */
int completion_set_later(struct completion_set *f, const MPI_Request requests[], int *flag);
/* Calls on arrays tell failed requests by MPI_ERR_IN_STATUS; any other error is about the arguments, and completed
 * nothing. */
static inline bool completion_set_completed(int rc)
{
    return rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS;
}
/* Calls on one request return its error; these are about the arguments, and completed nothing. */
bool completion_set_refused(int rc);
/* By its class: of a message that lay aside (record_holds) the error is a code of the MPI's. */
bool completion_set_truncated(int error);
/* What the MPI returned as rc has completed: all requests, but those that MPI_ERR_IN_STATUS names as pending; one
 * (or none: MPI_UNDEFINED); or some. What the call returns. */
int completion_set_all(struct completion_set *f, int rc);
/* After MPI_Waitall where some have failed, of a request that ends when it completes: true if it pends, whatever its
 * status says. MPICH waits for some at a time, 64 by default, and leaves the statuses of all further ones as they
 * were; Open MPI tells them all, and may leave the handles of those that failed. */
static inline bool completion_set_goes_on(MPI_Request request)
{
#ifdef OPEN_MPI
    (void)request;
    return false;
#else
    return request != MPI_REQUEST_NULL;
#endif
}
/* Before completion_set_all, then: the statuses of all those say so, and of persistent ones that are still active. */
void completion_set_pending(const struct completion_set *f, const MPI_Request requests[]);
int completion_set_one(struct completion_set *f, int index, MPI_Status *status, int rc);
int completion_set_some(struct completion_set *f, int outcount, const int indices[], int rc);

/* completion_end, of a call that the MPI returned rc from. */
int completion_rc(struct completion *c, int rc);

#endif
