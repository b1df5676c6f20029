/* record.h: side records: what stridec has to do when a native request completes.
 *
 * The application holds the MPI's own request handle. A record is found by that handle; where none is, the
 * request is none of stridec's business. Once the MPI has completed a request its handle may be anyone's, another
 * thread's at once: so a record is taken out of the table before the MPI may complete its request, and kept again
 * if it did not. Thread safe: MPI lets one thread at a time complete a request.
 *
 * record.c: the table, and what is put into it; persistent.c: persistent requests; complete.c: completions;
 * freed.c: freed requests. */
#ifndef STRIDEC_REQUEST_H
#define STRIDEC_REQUEST_H
#include "pack/typed_buffer.h"
#include "protocol/rndv_recv.h"
#include "protocol/rndv_send.h"

struct record;

/* At MPI_Init, and at the start of a session: from here on several threads may call the MPI at the same time. */
void record_begin(bool multiple);
/* True if several threads may call the MPI at the same time. Where not, no handle is reused while a call completes
 * it, so that its record may be looked for afterwards. */
bool record_threads(void);

/* Takes the parcel: of a send it is closed when the request completes; of a receive it is unpacked first. */
void record_add(MPI_Request request, struct typed_buffer *p, bool receive, MPI_Comm comm);
/* The same of a receive that takes what was put aside (probed.h). */
struct probed_at;
void record_add_led(MPI_Request request, struct typed_buffer *p, const struct probed_at *at);
/* Takes the offer of a send: its buffer is free when the request, which may become another one, has completed and the
 * offer has ended. 0, or -1 as of rndv_send_end. */
int record_add_offer(MPI_Request *request, struct rndv_send *o);
/* Of a send in chunks: holds the descriptor until the request completes. */
struct pipeline_send;
void record_add_outflow(MPI_Request request, struct pipeline_send *o);
/* True while there are records that step (request_ops.h). */
bool record_defers(void);
/* Goes on with the one of a request, or of a taken record (which may be NULL): true where it is complete, or there
 * is none. */
bool record_step(MPI_Request request);
bool record_stepped(struct record *r);
/* True of a request of one. */
bool record_deferred(MPI_Request request);
/* True of a request whose offer is not ended: whoever does not want to wait does not complete it. */
bool record_offers(MPI_Request request);
bool record_offering(struct record *r);
/* True of a persistent receive that was started when its message had been put aside: the message is here, and the
 * MPI's own request is not active. */
bool record_holds(MPI_Request request);
/* True of one that has a record and ends with its request: no persistent one. */
bool record_goes(MPI_Request request);
/* Out of the table; NULL if there is none. Then either completion_add, record_keep or record_orphan. */
struct record *record_take(MPI_Request request);
/* Back into the table: the request is still active. */
void record_keep(struct record *r);

/* A set of requests that one call completed. */
struct completion {
    struct batch batch;
    struct rndv_recvs pulls;
    struct record *done;   /* to be freed once the batch is waited for */
    struct typed_buffer *read;   /* whose records are freed, to be closed once they are read */
    int rc;
};
/* The request of r has completed with this status (and error code). Unpacks what a receive brought,
 * unless it failed or was cancelled; a descriptor's status becomes that of the payload. */
void completion_add(struct completion *c, struct record *r, MPI_Status *status, int error);
/* Waits for the unpacking and frees the records. MPI_SUCCESS, or an error raised on the communicator of its
 * operation (error_comm.h). */
int completion_end(struct completion *c);

/* The request of a taken record is complete, but a later call will complete it: after completion_add. */
void record_seen(struct record *r);
/* Persistent requests that one call starts. Begins zeroed. */
struct starts {
    struct batch batch;
    struct rndv_send_site site;
    struct record *first;
};
/* Of a taken record of a persistent request: offers what the operation reads, or puts it into the batch. False where
 * that failed. */
bool record_start(struct starts *s, struct record *r);
/* Waits for the packing and puts the records back into the table; `ok`: none failed before. False where the requests
 * can't be started. */
bool record_started(struct starts *s, bool ok);
/* Once the MPI has started them: what goes in chunks follows. False where it can't; the receivers are told. */
bool record_feed(struct starts *s);
/* Takes back that it was started. */
void record_stop(struct record *r);
bool record_persistent(const struct record *r);

/* The application has freed the request: while it is active the record goes on until the MPI has completed it. False of
 * an inactive persistent one: the record is gone, and the request is the MPI's to free. */
bool record_orphan(struct record *r);
/* Looks after orphans; called wherever a message has just arrived. */
void record_poll(void);
/* At MPI_Finalize: waits for orphaned sends, cancels orphaned receives. */
void record_finish(void);

#endif
