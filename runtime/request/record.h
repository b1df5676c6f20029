/* record.h: records: what stridec has to do when the MPI has completed a request.
 *
 * The application holds the MPI's own request handle. A record is found by that handle; a request without one is the
 * MPI's alone. A completed request's handle may be another thread's at once. So a record leaves the table before the
 * MPI may complete its request, and returns if it did not. Thread safe: MPI lets one thread at a time complete a
 * request.
 *
 * A record is of a kind (request_internal.h), and in a state:
 *
 *    record_add_of, persistent                 record_add*, light_request_record
 *              |            record_start                    |
 *              v        ------------------------>           v
 *          INACTIVE                                       ACTIVE
 *           |  ^  ^     <------------------------           |
 *           |  |            record_stop                     | completion_add
 *           |  |                                            v
 *           |  +---- completion_end, persistent ------- COMPLETE --- completion_end ---> freed
 *           |                                             ^   |
 *           +--- record_freed ---> freed   completion_add |   | record_seen
 *                                                         |   v
 *                                                         SEEN
 *
 * INACTIVE records pass a completion unchanged. The data of a record in SEEN are in place: MPI_Request_get_status has
 * reported it. A COMPLETE record is in a struct completion, outside the table. If the application frees an active
 * request, its record goes to a queue of freed.c until it is COMPLETE.
 *
 * Requests in stream order, which the MPI mostly never starts or completes, have tables of their own:
 * protocol/channel.c, collective/neighbor_spread.c, protocol/enqueued.c.
 *
 * Two things are no kinds. Light requests (light_request.h) take neither memory nor a lock; a record takes both. A
 * probed message (probed.h) has no request yet.
 *
 * record.c: the table, and adding; kinds.c: the kinds; persistent.c: persistent requests; complete.c: completions;
 * freed.c: freed requests. */
#ifndef STRIDEC_RECORD_H
#define STRIDEC_RECORD_H
#include "error_comm.h"
#include "pack/typed_buffer.h"
#include "protocol/rndv_recv.h"
#include "protocol/rndv_send.h"

struct record;
struct probed_at;
struct pipeline_send;

/* Begins at MPI_Init, and with each session. `multiple`: several threads may call the MPI at once from here on. */
void record_begin(bool multiple);
/* Returns true if several threads may call the MPI at once. If not, no handle is reused while a call completes it: its
 * record may be looked up afterwards. */
bool record_threads(void);

/* ---- adding: each takes over its object ---- */

/* Adds a send, whose typed buffer closes at completion, or a receive, which is unpacked first. */
void record_add(MPI_Request request, struct typed_buffer *p, bool receive, MPI_Comm comm);
/* Adds a receive from the unexpected (probed) queue. */
void record_add_probed(MPI_Request request, struct typed_buffer *p, const struct probed_at *at);
/* Adds a rendezvous send, which completes when the RTS is sent and the buffer is free. *request may change. Returns 0,
 * or -1 if rndv_send_end failed. */
int record_add_rndv(MPI_Request *request, struct rndv_send *o, MPI_Comm comm);
/* Adds a pipelined send: holds its RTS until the request completes. The caller still leaves o. */
void record_add_pipelined(MPI_Request request, struct pipeline_send *o);

/* ---- questions about the record of a request, or a taken record, which may be NULL ---- */

/* Returns true while there are records with steps (request_ops.h). */
bool record_any_steps(void);
/* Advance the operation. Return true if it is complete, or if there is none. */
bool record_step(MPI_Request request);
bool record_step_taken(struct record *r);
/* Returns true for a record with steps. */
bool record_has_steps(MPI_Request request);
/* Returns true while there are rendezvous sends with records. */
bool record_any_rndv(void);
/* Return true if completing the request would wait for a receiver. A test must not complete it. */
bool record_waits(MPI_Request request);
bool record_waits_taken(struct record *r);
/* Returns true if the message of a persistent receive came from the probed queue at its start: the MPI's own request
 * is not active. */
bool record_held(MPI_Request request);
/* Returns true if the request has a record and is not persistent. */
bool record_transient(MPI_Request request);
bool record_persistent(const struct record *r);

/* ---- completion ---- */

/* Takes a record out of the table; NULL if there is none. Then call completion_add, record_keep or record_freed. */
struct record *record_take(MPI_Request request);
/* Puts a record into the table: its request is active. */
void record_keep(struct record *r);

/* The requests that one call completes. Begins zeroed. */
struct completion {
    struct batch batch;
    struct rndv_recvs recvs;
    struct record *done;          /* to be ended after the batch */
    struct typed_buffer *moved;   /* of ended records; to be closed after the rendezvous receives */
    struct error_comm moved_comm; /* of the last of these */
    int rc;
    bool untold;                  /* an error that no status tells of */
};
/* Adds a record whose request has completed with this status and error. Adds what a receive brought, unless it failed
 * or was cancelled. After an RTS the status becomes the payload's. */
void completion_add(struct completion *c, struct record *r, MPI_Status *status, int error);
/* Waits for the unpacking and ends the records. Returns MPI_SUCCESS, or an error raised on the communicator of the
 * operation (error_comm.h). */
int completion_end(struct completion *c);
/* Keeps a record after completion_add: a later call will complete its request. */
void record_seen(struct record *r);

/* ---- persistent requests ---- */

/* The requests that one call starts. Begins zeroed. */
struct starts {
    struct batch batch;
    struct rndv_send_site site;
    struct record *first;
};
/* Begins the operation of a taken record. Returns false on failure. */
bool record_start(struct starts *s, struct record *r);
/* Waits for the packing and keeps the records. `ok`: nothing failed before. Returns false if the requests can't be
 * started: all starts are taken back. */
bool record_started(struct starts *s, bool ok);
/* Sends the chunks, after the MPI has started the requests. Returns one that has failed, or NULL; receivers hear it. */
const struct record *record_feed(struct starts *s);
/* Raises an error of a request. Returns its code. */
int record_raise(const struct record *r, int code, const char *what);
/* Takes the start of a persistent request back. */
void record_stop(struct record *r);

/* ---- freed requests ---- */

/* Frees a taken record as its request is freed: at once, or at completion. Returns false if at once: the caller passes
 * the call to the MPI. */
bool record_freed(struct record *r);
/* Completes freed requests that are done. Call it wherever a message may have arrived. */
void record_poll(void);
/* Completes freed sends and cancels freed receives, at MPI_Finalize. */
void record_finish(void);

#endif
