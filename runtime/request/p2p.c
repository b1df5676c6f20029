/* p2p.c: the two ends of a message in a typed buffer. */
#include "p2p.h"
#include "base/error.h"
#include "base/reserve.h"
#include "light_request.h"
#include "node/peer_access.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "protocol/rts.h"
#include <string.h>

/* Closes the typed buffer if rc is an error. Returns true if there is one. */
static bool settled(struct typed_buffer **p, int rc)
{
    if (rc == MPI_SUCCESS) return *p != NULL;
    typed_buffer_close(*p);
    *p = NULL;
    return false;
}

static int no_record(MPI_Comm comm)
{
    return raise_error(comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
}

int p2p_send_end(struct send_op *op, int rc, MPI_Comm comm)
{
    if (rc != MPI_SUCCESS) return op->protocol->abort(op), rc;
    rc = op->protocol->complete(op, comm);
    if (!op->packed) record_poll();
    return rc;
}

/* Feeds a pipelined send. Adds a record unless the MPI has sent the RTS. */
static int continue_pipelined(struct pipeline_send *o, MPI_Comm comm, MPI_Request request)
{
    int rc = MPI_SUCCESS, sent = 0;
    if (pipeline_send_feed(o)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (!sent) record_add_pipelined(request, o);
    pipeline_send_leave(o);
    return rc;
}

int p2p_isend_end(struct send_op *op, int rc, MPI_Comm comm, MPI_Request *request)
{
    if (rc != MPI_SUCCESS) return op->protocol->abort(op), rc;
    if (op->rndv)
        return record_add_rndv(request, op->rndv, comm)
                   ? raise_error(comm, MPI_ERR_OTHER, "a message was not received") : rc;
    if (op->pipelined) return continue_pipelined(op->pipelined, comm, *request);
    mpi_bytes_free(&op->as);
    p2p_sent(*request, op->packed);
    return rc;
}

void p2p_sent(MPI_Request request, struct typed_buffer *p)
{
    int sent = 0;
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (sent) typed_buffer_close(p);
    else record_add(request, p, false, MPI_COMM_NULL);
}

bool p2p_awaited(struct typed_buffer **p, struct wire *w, struct message *m, int *rc)
{
    bool on_device = m->peer != MPI_PROC_NULL && message_locate(m);
    *p = NULL;
    if (reserve_low()) return *rc = no_record(m->comm), false;
    *rc = on_device ? placement_open_receive(p, m) : MPI_SUCCESS;
    peer_access_poll();
    if (*rc == MPI_SUCCESS && !on_device) *p = host_awaits(m->buf, m->count, m->type, m->peer, m->comm);
    if (*rc == MPI_SUCCESS && *p) *rc = mpi_bytes_of((*p)->bytes, w);
    rndv_recv_probe(m);
    return settled(p, *rc);
}

int p2p_arrived(struct typed_buffer *p, MPI_Status *status, MPI_Comm comm)
{
    struct rts d;
    struct rndv_recvs recvs = {0};
    int64_t bytes = mpi_bytes_received(status);
    if (!rndv_recv_is_rts(p, p->address, bytes, &d)) {
        if (p->device && bytes >= RNDV_MIN) placement_note(node_peer(comm, status->MPI_SOURCE), p, false);
        if (p->block) host_arrived(p, bytes);
        return p->transport ? typed_buffer_unpack(p, bytes, comm) : MPI_SUCCESS;
    }
    int rc = rndv_recv_add(&recvs, &d, p->address, p, status);
    bool failed = rndv_recvs_run(&recvs) != 0;
    if (rc == MPI_ERR_TRUNCATE) return raise_error(comm, rc, "a message is longer than its receive");
    if (rc != MPI_SUCCESS || failed) return raise_error(comm, MPI_ERR_OTHER, "a message can't be read");
    return MPI_SUCCESS;
}

int p2p_short(struct layout *l, void *buf, int64_t count, const void *packed, MPI_Status *status, MPI_Comm comm)
{
    int64_t bytes = mpi_abi_status_bytes(status);
    if (!rts_fits(bytes) || !rts_begins(packed)) return host_short_unpack(l, buf, count, packed, bytes), MPI_SUCCESS;
    struct typed_buffer *p = host_block(l, buf, count);
    if (!p) return raise_error(comm, MPI_ERR_OTHER, "no memory for a message that has come");
    memcpy((void *)(uintptr_t)p->address, packed, (size_t)bytes);
    int rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    return rc;
}
