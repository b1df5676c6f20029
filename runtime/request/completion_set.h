/* completion_set.h: the requests of one completing call. Under MPI_THREAD_MULTIPLE the call takes the records, lets
 * the MPI complete the requests, continues the completed records and keeps the others: a completed request's handle
 * may be another thread's at once. At the other levels no handle is reused before the call returns: the set saves the
 * handles, and looks up only the records of completed requests. */
#ifndef STRIDEC_COMPLETION_SET_H
#define STRIDEC_COMPLETION_SET_H
#include "record.h"
#include "base/mpi_workarounds.h"

struct completion_set {
    int count;
    struct record **records;   /* with threads; NULL: no record */
    MPI_Request *handles;      /* without threads */
    MPI_Request *shown;        /* room for completion_set_show */
    MPI_Status *statuses;      /* own ones if the application wants none: they tell what arrived */
    void *block;               /* memory of these lists, if not in `few` */
    struct {
        struct record *records[32];
        MPI_Request handles[32], shown[32];
        MPI_Status statuses[32];
    } few;
};

/* Opens a set. `statuses` may be MPI_STATUSES_IGNORE. Returns false if no request has a record, as far as known: the
 * call passes to the MPI. Else the caller ends the set by completion_set_close, _all, _one or _some. */
bool completion_set_open(struct completion_set *f, int count, const MPI_Request requests[], MPI_Status *statuses);
/* Allocates the lists only, of own statuses too if needed. completion_set_free frees them. */
void completion_set_alloc(struct completion_set *f, int count, MPI_Status *statuses);
void completion_set_free(struct completion_set *f);

/* Returns true if completing the requests would wait for a receiver. */
bool completion_set_waits(const struct completion_set *f);
/* For calls that complete any of the requests: returns the list for the MPI, without the sends that would wait for
 * their receivers, though the MPI has completed them. It is `requests` if there are none; else the call puts the list's
 * completed handles into `requests`. */
MPI_Request *completion_set_show(const struct completion_set *f, MPI_Request requests[]);
/* Returns that list for calls that only look at requests, in a set whose lists alone were allocated. */
const MPI_Request *completion_set_look(const struct completion_set *f, const MPI_Request requests[]);
/* Advances neighbourhood collectives. Returns true if all are complete for the MPI's next look. */
bool completion_set_step(const struct completion_set *f);
/* Advances them until all are. Calls that wait for the MPI's own requests call this first. */
void completion_set_await(const struct completion_set *f);

/* Keeps the records that did not complete. */
void completion_set_close(struct completion_set *f);
/* Returns true if rc of a call on an array lets requests complete. MPI_ERR_IN_STATUS reports failed requests; another
 * error means wrong arguments, and nothing completed. */
static inline bool completion_set_completed(int rc)
{
    return rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS;
}
/* Returns true if nothing is complete after rc of a call on one request: wrong arguments, or it stays active. */
bool completion_set_refused(int rc);
/* Compares the error's class: a message of the probed queue has the MPI's code. */
bool completion_set_truncated(int error);
/* Returns true if a transient request is pending after an MPI_Waitall that failed for some, whatever its status says.
 * MPICH waits for 64 at a time, and leaves the statuses of later ones unset. Open MPI sets all, and may leave the
 * handles of failed ones. */
static inline bool completion_set_goes_on(MPI_Request request)
{
    return WAITALL_LEAVES_STATUSES && request != MPI_REQUEST_NULL;
}
/* Sets the statuses of those, and of active persistent requests, to MPI_ERR_PENDING, before completion_set_all. */
void completion_set_pending(const struct completion_set *f, const MPI_Request requests[]);
/* Continue and close the set after the MPI returned rc: all requests are complete except those that MPI_ERR_IN_STATUS
 * leaves pending; one is, or none for MPI_UNDEFINED; or some are. Return the call's result. */
int completion_set_all(struct completion_set *f, int rc);
int completion_set_one(struct completion_set *f, int index, MPI_Status *status, int rc);
int completion_set_some(struct completion_set *f, int outcount, const int indices[], int rc);

/* Ends a completion after the MPI returned rc. Returns the call's result. */
int completion_rc(struct completion *c, int rc);

#endif
