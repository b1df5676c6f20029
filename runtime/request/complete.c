/* complete.c: what is done once the MPI has completed requests. */
#include "request_internal.h"
#include "base/error.h"
#include "base/spinlock.h"
#include "protocol/host_select.h"
#include "protocol/rts.h"

bool record_brings(const struct record *r)
{
    return r->ops ? r->ops->partial && r->ops->partial(r->of) : r->receive;
}

/* The packed bytes to unpack: 0 for what failed, was cancelled, or was cut short. Open MPI's status of a truncated
 * receive has the whole message's size, and MPI_Request_get_status reports no error with it. */
static int64_t brought(const struct record *r, const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (error != MPI_SUCCESS || !record_brings(r)) return 0;
    PMPI_Test_cancelled(status, &cancelled);
    return cancelled ? 0 : mpi_bytes_received(status);
}

static int unpack(struct record *r, struct batch *b, int64_t bytes, int error)
{
    if (r->parcel && !r->receive) return 0;   /* a send */
    if (r->parcel && r->parcel->block) return host_arrived(r->parcel, bytes <= r->parcel->bytes ? bytes : 0), 0;
    if (r->parcel && !r->parcel->transport) return 0;   /* the MPI itself received it */
    if (r->parcel) return batch_unpack(b, r->parcel, bytes <= r->parcel->bytes ? bytes : 0), 0;
    if (!r->active || error != MPI_SUCCESS || !r->ops) return 0;
    return r->ops->unpack(r->of, b, record_brings(r) ? bytes : INT64_MAX);
}

/* Where a receive's bytes arrive, and for whom: NULL where no descriptor can. */
static struct typed_buffer *awaited(const struct record *r, const void **packed)
{
    if (r->ops) return r->ops->awaited(r->of, packed);
    *packed = r->parcel ? r->parcel->address : NULL;
    return r->parcel;
}

/* What a descriptor stands for can't be received: each call that sees it tells so. */
static void refuse(struct completion *c, const struct record *r, MPI_Status *status)
{
    const char *why =
        r->refused == MPI_ERR_TRUNCATE ? "a message is longer than its receive" : "a message can't be read";
    c->rc = status->MPI_ERROR = raise_error(error_comm_comm(r->home), r->refused, why);
}

static void receive_done(struct completion *c, struct record *r, MPI_Status *status, int error, bool again)
{
    struct rts d;
    const void *packed;
    struct typed_buffer *p = awaited(r, &packed);
    if (r->led) status->MPI_SOURCE = r->source, status->MPI_TAG = r->tag;
    if (r->quiet && error != MPI_SUCCESS) PMPI_Comm_call_errhandler(error_comm_comm(r->home), error);
    if (again) {   /* its data are in place */
        if (r->pulled) PMPI_Status_set_elements_x(status, MPI_BYTE, r->pulled);
        if (r->refused != MPI_SUCCESS) refuse(c, r, status);
        return;
    }
    int64_t bytes = brought(r, status, error);
    if (bytes && p && rndv_recv_wanted(p, packed, bytes, &d)) {
        r->refused = rndv_recv_add(&c->pulls, &d, packed, p, status);
        if (r->refused == MPI_SUCCESS) r->pulled = d.bytes;
        else refuse(c, r, status);
    } else if (unpack(r, &c->batch, bytes, error)) {
        c->rc = raise_error(error_comm_comm(r->home), MPI_ERR_OTHER, "unpacking on the GPU failed");
    }
}

static void rndv_send_done(struct record *r, const MPI_Status *status, int error)
{
    int cancelled = 0;
    if (error == MPI_SUCCESS) PMPI_Test_cancelled(status, &cancelled);
    if (error != MPI_SUCCESS || cancelled) record_drop_offer(r);
}

static void step_done(struct completion *c, struct record *r)
{
    const char *what;
    int rc = r->ops->end(r->of, &what);
    if (c->rc == MPI_SUCCESS) c->rc = what ? raise_error(MPI_COMM_WORLD, rc, what) : rc;
}

/* Of an inactive one nothing is seen: its next completion is another. */
void record_seen(struct record *r)
{
    r->seen = r->active;
}

void completion_add(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    bool again = r->seen;
    r->seen = false;
    if (r->holds) {
        *status = r->found, error = status->MPI_ERROR;
        if (c->rc == MPI_SUCCESS) c->rc = error;
    }
    if (r->offer) rndv_send_done(r, status, error);
    else if (record_steps(r) && r->active && !again) step_done(c, r);
    else if (!r->outflow && !record_steps(r)) receive_done(c, r, status, error, again);
    r->next = c->done;
    c->done = r;
}

/* Frees the record, or keeps it for the next completion. */
static void end(struct completion *c, struct record *r)
{
    if (r->offer) {
        spinlock_count(&request_offers, -1);
        if (rndv_send_end(r->offer) && c->rc == MPI_SUCCESS)
            c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "a message was not received");
        r->offer = NULL;
    }
    if (r->persistent && r->freed) PMPI_Request_free(&r->request);
    if (r->seen) {   /* its status will be asked for once more */
        record_keep(r);
        return;
    }
    r->active = false, r->pulled = 0, r->refused = MPI_SUCCESS;
    record_drop_held(r);
    if (r->persistent && !r->freed) record_keep(r);
    else record_free(r);
}

/* While messages move the records end of those that move, and of sends whose receivers are through. Persistent
 * requests and parcels may need the MPI, which has no business in a device context of stridec's. */
static void end_early(void *completion)
{
    struct completion *c = completion;
    for (struct record **at = &c->done, *r; (r = *at);) {
        bool moves = r->parcel && r->pulled && !r->seen, sent = r->offer && rndv_send_read(r->offer);
        if (r->persistent || (!moves && !sent)) {
            at = &r->next;
            continue;
        }
        if (moves) r->parcel->next = c->read, c->read = r->parcel, r->parcel = NULL;
        *at = r->next;
        end(c, r);
    }
}

static void close_read(struct completion *c)
{
    for (struct typed_buffer *p; (p = c->read); typed_buffer_close(p)) c->read = p->next;
}

int completion_end(struct completion *c)
{
    bool failed = batch_run(&c->batch) != 0;   /* it goes on while the messages are pulled */
    c->pulls.meanwhile = end_early, c->pulls.arg = c;
    if (rndv_recvs_run(&c->pulls)) failed = true;
    close_read(c);
    if ((batch_wait(&c->batch) || failed) && c->rc == MPI_SUCCESS)
        c->rc = raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed");
    for (const struct record *r = c->done; r; r = r->next)
        if (r->offer) rndv_send_near(r->offer);
    for (struct record *r = c->done, *next; r; r = next) {
        next = r->next;
        end(c, r);
    }
    c->done = NULL;
    record_poll();
    return c->rc;
}
