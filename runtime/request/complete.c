/* complete.c: continues records whose requests the MPI has completed. */
#include "base/error.h"
#include "request_internal.h"

/* Leaves an inactive record as it is: its next completion is another one. */
void record_seen(struct record *r)
{
    if (r->state == RECORD_COMPLETE) r->state = RECORD_SEEN;
}

void completion_add(struct completion *c, struct record *r, MPI_Status *status, int error)
{
    if (r->held) {
        *status = r->found, error = status->MPI_ERROR;
        if (c->rc == MPI_SUCCESS) c->rc = error;
    }
    if (r->state != RECORD_INACTIVE) {
        if (r->kind->complete) r->kind->complete(c, r, status, error);
        r->state = RECORD_COMPLETE;
    }
    r->next = c->done;
    c->done = r;
}

/* Frees the record, or keeps it for the next completion. */
static void end(struct completion *c, struct record *r)
{
    if (r->kind->end && r->kind->end(r)) {
        c->untold = true;
        if (c->rc == MPI_SUCCESS) c->rc = record_raise(r, MPI_ERR_OTHER, "a message was not received");
    }
    if (r->state == RECORD_SEEN) {
        record_keep(r);
        return;
    }
    record_unhold(r);
    if (r->persistent && !r->freed) {
        r->state = RECORD_INACTIVE, r->rndv_bytes = 0, r->refused = MPI_SUCCESS;
        record_keep(r);
        return;
    }
    if (r->persistent) PMPI_Request_free(&r->request);
    record_free(r);
}

/* Returns true if the record may end while a GPU moves messages. Persistent requests and other typed buffers may need
 * the MPI, which must not be called in a device context of stridec's. Takes over the typed buffer of a receive. */
static bool ends_early(struct completion *c, struct record *r)
{
    if (r->persistent) return false;
    if (r->kind == &kind_rndv) return rndv_send_read(r->rndv);
    if (!r->tbuf || !r->rndv_bytes || r->state == RECORD_SEEN) return false;
    r->tbuf->next = c->moved;
    c->moved = r->tbuf, c->moved_comm = r->error_comm;
    r->tbuf = NULL;
    return true;
}

/* Ends records of a completion while its messages move. */
static void end_early(void *completion)
{
    struct completion *c = completion;
    for (struct record **at = &c->done, *r; (r = *at);) {
        if (!ends_early(c, r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        end(c, r);
    }
}

static void close_moved(struct completion *c)
{
    for (struct typed_buffer *p; (p = c->moved); typed_buffer_close(p)) c->moved = p->next;
}

int record_raise(const struct record *r, int code, const char *what)
{
    if (r->ops && r->ops->raise && r->ops->raise(r->of, code, what)) return code;
    return raise_error(error_comm_comm(r->error_comm), code, what);
}

/* Raises an error of some requests for one of them: an operation, a receive, or any. */
static int raise_one(const struct completion *c, const char *what)
{
    const struct record *operation = c->done, *receive = c->done;
    while (operation && !operation->ops) operation = operation->next;
    while (receive && !record_receives(receive)) receive = receive->next;
    if (operation) return record_raise(operation, MPI_ERR_OTHER, what);
    if (receive) return record_raise(receive, MPI_ERR_OTHER, what);
    return raise_error(error_comm_comm(c->moved_comm), MPI_ERR_OTHER, what);
}

int completion_end(struct completion *c)
{
    bool failed = batch_run(&c->batch) != 0;   /* runs while the rendezvous receives do */
    c->recvs.meanwhile = end_early, c->recvs.arg = c;
    if (rndv_recvs_run(&c->recvs)) failed = true;
    close_moved(c);
    if (batch_wait(&c->batch)) failed = true;
    for (struct record *r = c->done; r; r = r->next) {
        if (r->kind->unpacked) r->kind->unpacked(r);   /* before any end waits for another rank: a thread may wait */
        if (r->kind == &kind_rndv) rndv_send_near(r->rndv);
    }
    c->untold |= failed;
    if (failed && c->rc == MPI_SUCCESS) c->rc = raise_one(c, "unpacking on the GPU failed");
    for (struct record *r = c->done, *next; r; r = next) {
        next = r->next;
        end(c, r);
    }
    c->done = NULL;
    record_poll();
    return c->rc;
}
