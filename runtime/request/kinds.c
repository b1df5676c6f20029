/* kinds.c: the kinds of records: what each does when the MPI has completed its request. */
#include "base/error.h"
#include "base/mpi_workarounds.h"
#include "base/spinlock.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/rts.h"
#include "request_internal.h"

/* ---- receives ---- */

bool record_receives(const struct record *r)
{
    return r->kind->receives || (r->ops && r->ops->partial && r->ops->partial(r->of));
}

/* Returns the packed bytes that came; 0 after an error or a cancellation. */
static int64_t received(const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (error == MPI_SUCCESS) PMPI_Test_cancelled(status, &cancelled);
    return error != MPI_SUCCESS || cancelled ? 0 : mpi_bytes_received(status);
}

/* Raises the error of a payload that can't be received; in each call that reports the request. */
static void refuse(struct completion *c, const struct record *r, MPI_Status *status)
{
    const char *why =
        r->refused == MPI_ERR_TRUNCATE ? "a message is longer than its receive" : "a message can't be read";
    c->rc = status->MPI_ERROR = raise_error(error_comm_comm(r->error_comm), r->refused, why);
}

/* Reports a receive again. Returns false unless its data are in place already. */
static bool receive_seen(struct completion *c, const struct record *r, MPI_Status *status)
{
    if (r->state != RECORD_SEEN) return false;
    if (r->rndv_bytes) PMPI_Status_set_elements_x(status, MPI_BYTE, r->rndv_bytes);
    if (r->refused != MPI_SUCCESS) refuse(c, r, status);
    return true;
}

/* Adds the rendezvous receive that an RTS at `packed` asks for. Returns false if no RTS came. */
static bool receive_rndv(struct completion *c, struct record *r, struct typed_buffer *p, const void *packed,
                         int64_t bytes, MPI_Status *status)
{
    struct rts d;
    if (!bytes || !p || !rndv_recv_is_rts(p, packed, bytes, &d)) return false;
    r->refused = rndv_recv_add(&c->recvs, &d, packed, p, status);
    if (r->refused == MPI_SUCCESS) r->rndv_bytes = d.bytes;
    else refuse(c, r, status);
    return true;
}

/* Unpacks nothing of a truncated message. Open MPI's status has the size of the whole one, and
 * MPI_Request_get_status returns no error with it. */
static void receive_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    struct typed_buffer *p = r->tbuf;
    if (receive_seen(c, r, status)) return;
    int64_t bytes = received(status, error), fit = bytes <= p->bytes ? bytes : 0;
    if (receive_rndv(c, r, p, p->address, bytes, status)) return;
    if (p->block) host_arrived(p, fit);
    else if (p->transport) batch_unpack(&c->batch, p, fit);
}

static void matched_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    status->MPI_SOURCE = r->source, status->MPI_TAG = r->tag;
    receive_complete(c, r, status, error);
}

/* Raises the error of a receive that the MPI made on a communicator of stridec's. */
static void resent_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    if (error != MPI_SUCCESS) PMPI_Comm_call_errhandler(error_comm_comm(r->error_comm), error);
    matched_complete(c, r, status, error);
}

/* ---- sends ---- */

/* Ends the kind that an operation had for one message, or that a send had until its buffer was free. */
static void message_gone(struct record *r)
{
    r->kind = r->ops ? &kind_operation : &kind_send;
}

static void rndv_recall(struct record *r)
{
    rndv_send_withdraw(r->rndv);
    spinlock_count(&record_rndvs, -1);
    message_gone(r);
}

static void rndv_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    int cancelled = 0;
    (void)c;
    if (error == MPI_SUCCESS) PMPI_Test_cancelled(status, &cancelled);
    if (error != MPI_SUCCESS || cancelled) rndv_recall(r);
}

/* Returns true if completing the request would not wait. Asks the MPI, but not where that would end the request. */
static bool rndv_ready(struct record *r)
{
    int sent = GET_STATUS_ENDS_PERSISTENT && r->persistent;
    if (!sent) PMPI_Request_get_status(r->request, &sent, MPI_STATUS_IGNORE);
    return sent && rndv_send_ended(r->rndv);
}

static int rndv_end(struct record *r)
{
    int rc = rndv_send_end(r->rndv);
    spinlock_count(&record_rndvs, -1);
    message_gone(r);
    return rc;
}

static int pipelined_end(struct record *r)
{
    pipeline_send_put(r->pipelined);
    message_gone(r);
    return 0;
}

static void pipelined_recall(struct record *r)
{
    pipeline_send_withdraw(r->pipelined);
    message_gone(r);
}

/* ---- operations ---- */

static void operation_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    const void *packed = NULL;
    if (receive_seen(c, r, status)) return;
    bool partial = record_receives(r);
    int64_t bytes = partial ? received(status, error) : INT64_MAX;
    struct typed_buffer *p = partial && bytes ? r->ops->recv_buffer(r->of, &packed) : NULL;
    if (receive_rndv(c, r, p, packed, bytes, status) || error != MPI_SUCCESS) return;
    if (r->ops->unpack(r->of, &c->batch, bytes))
        c->untold = true, c->rc = record_raise(r, MPI_ERR_OTHER, "unpacking on the GPU failed");
}

static void operation_unpacked(struct record *r)
{
    if (r->ops->unpacked) r->ops->unpacked(r->of);
}

static void stepped_complete(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    const char *what;
    (void)error;
    if (r->state == RECORD_SEEN) return;
    int rc = r->ops->end(r->of, &what);
    status->MPI_ERROR = rc;   /* for calls on arrays */
    if (c->rc == MPI_SUCCESS) c->rc = what ? record_raise(r, rc, what) : rc;
}

static bool stepped_step(struct record *r)
{
    return r->ops->step(r->of);
}

const struct record_kind kind_send = {.complete = NULL};
const struct record_kind kind_receive = {.receives = true, .complete = receive_complete};
const struct record_kind kind_matched = {.receives = true, .complete = matched_complete};
const struct record_kind kind_resent = {.receives = true, .complete = resent_complete};
const struct record_kind kind_rndv = {
    .complete = rndv_complete, .end = rndv_end, .ready = rndv_ready, .recall = rndv_recall};
const struct record_kind kind_pipelined = {.end = pipelined_end, .recall = pipelined_recall};
const struct record_kind kind_operation = {.complete = operation_complete, .unpacked = operation_unpacked};
const struct record_kind kind_stepped = {.complete = stepped_complete, .step = stepped_step};
