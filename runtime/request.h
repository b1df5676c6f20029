/* request.h: side records: what stridec has to do when a native request completes.
 *
 * The application holds the MPI's own request handle. A record is found by that handle; where none is, the
 * request is none of stridec's business. Once the MPI has completed a request its handle may be anyone's, another
 * thread's at once: so a record is taken out of the table before the MPI may complete its request, and kept again
 * if it did not. Thread safe: MPI lets one thread at a time complete a request. */
#ifndef STRIDEC_REQUEST_H
#define STRIDEC_REQUEST_H
#include "parcel.h"

struct record;

/* Takes the parcel: of a send it is closed when the request completes; of a receive it is unpacked first. */
void record_add(MPI_Request request, struct parcel *p, bool receive);
/* Out of the table; NULL if there is none. Then either completion_add, record_keep or record_orphan. */
struct record *record_take(MPI_Request request);
/* Back into the table: the request is still active. */
void record_keep(struct record *r);

/* A set of requests that one call completed. */
struct completion {
    struct batch batch;
    struct record *done;   /* to be freed once the batch is waited for */
    int rc;
};
/* The request of r has completed with this status (and error code). Unpacks what a receive brought,
 * unless it failed or was cancelled. */
void completion_add(struct completion *c, struct record *r, const MPI_Status *status, int error);
/* Waits for the unpacking and frees the records. MPI_SUCCESS, or an error raised on MPI_COMM_WORLD: the
 * communicator of the operation may be gone by now. */
int completion_end(struct completion *c);

/* The application has freed an active request: the record goes on until the MPI has completed it. */
void record_orphan(struct record *r);
/* Looks after orphans; called wherever a message has just arrived. */
void record_poll(void);
/* At MPI_Finalize: waits for orphaned sends, cancels orphaned receives. */
void record_finish(void);

#endif
