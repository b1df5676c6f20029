/* p2p.c: the two ends of a message that a parcel carries. */
#include "p2p.h"
#include "base/error.h"
#include "base/reserve.h"
#include "light_request.h"
#include "node/ipc_cache.h"
#include "node/peer_access.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/placement.h"
#include "protocol/rndv_send.h"
#include "protocol/rts.h"
#include <string.h>

/* What failed leaves no parcel. */
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

/* The same of a buffer in host memory. What is buffered by the MPI is packed by it. */
static bool host_leaves(struct send_op *to, enum leaves how, const void *buf, int64_t count, MPI_Datatype datatype,
                        int dest, MPI_Comm comm, int *rc)
{
    bool packs = how != LEAVES_BUFFERED && !reserve_low(), offers = how >= LEAVES_BLOCKING;
    struct layout *l = packs ? host_sends(buf, count, datatype, comm) : NULL;
    if (l && offers && (to->offer = shm_send_open(l, buf, count, dest, comm, how == LEAVES_LATER))) return true;
    to->parcel = l ? host_packs(l, buf, count) : packs ? host_packs_brief(buf, count, datatype, comm) : NULL;
    if (l && !to->parcel) host_left(l, count, dest, comm, offers, how == LEAVES_LATER);
    if (!to->parcel) return false;
    *rc = wire_of(to->parcel->bytes, &to->wire);
    return settled(&to->parcel, *rc);
}

bool p2p_leaves(struct send_op *to, enum leaves how, const void *buf, int64_t count, MPI_Datatype datatype, int dest,
                MPI_Comm comm, int *rc)
{
    struct location w;
    bool offers = how >= LEAVES_BLOCKING;
    if (offers && node_armed()) rndv_send_next_near();   /* while the driver is asked */
    struct layout *l = dest == MPI_PROC_NULL ? NULL : typed_buffer_found(buf, count, datatype, comm, &w);
    *to = (struct send_op){0};
    *rc = MPI_SUCCESS;
    if (!l) return dest != MPI_PROC_NULL && host_leaves(to, how, buf, count, datatype, dest, comm, rc);
    if (reserve_low()) return *rc = no_record(comm), false;
    if (offers && (to->offer = rndv_send_open(l, w, buf, count, datatype, dest, comm))) return true;
    if (typed_buffer_native(l, buf, count, w) &&
        (how == LEAVES_BUFFERED || !placement_packs(l, count, w.device, dest, comm))) {
        if (node_zerocopy() && node_peer(comm, dest)) ipc_export_passes((const char *)buf + l->low, &w.around);
        return false;
    }
    if (offers) *rc = pipeline_send_open(&to->outflow, l, w, buf, count, datatype, dest, comm);
    if (*rc != MPI_SUCCESS || to->outflow) return *rc == MPI_SUCCESS;
    *rc = placement_open_send(&to->parcel, l, w, buf, count, datatype, dest, comm);
    if (*rc == MPI_SUCCESS) *rc = typed_buffer_pack(to->parcel, comm);
    if (*rc == MPI_SUCCESS) *rc = wire_of(to->parcel->bytes, &to->wire);
    return settled(&to->parcel, *rc);
}

void p2p_sent(MPI_Request request, struct typed_buffer *p)
{
    int sent = 0;
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (sent) typed_buffer_close(p);
    else record_add(request, p, false, MPI_COMM_NULL);
}

bool p2p_awaited(struct typed_buffer **p, struct wire *w, void *buf, int64_t count, MPI_Datatype datatype, int source,
                 MPI_Comm comm, int *rc)
{
    struct location w_of;
    struct layout *l = source == MPI_PROC_NULL ? NULL : typed_buffer_found(buf, count, datatype, comm, &w_of);
    *p = NULL;
    if (reserve_low()) return *rc = no_record(comm), false;
    *rc = MPI_SUCCESS;
    if (l) *rc = placement_open_receive(p, l, w_of, buf, count, datatype, source, comm);
    peer_access_poll();
    if (*rc == MPI_SUCCESS && !l) *p = host_awaits(buf, count, datatype, source, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    if (l) ipc_cache_try_source(source, comm, w_of.device);
    return settled(p, *rc);
}

int p2p_arrived(struct typed_buffer *p, MPI_Status *status, MPI_Comm comm)
{
    struct rts d;
    struct rndv_recvs ps = {0};
    int64_t bytes = wire_received(status);
    if (!rndv_recv_wanted(p, p->address, bytes, &d)) {
        if (p->device && bytes >= RNDV_MIN) placement_note(node_peer(comm, status->MPI_SOURCE), p, false);
        if (p->block) host_arrived(p, bytes);
        return p->transport ? typed_buffer_unpack(p, bytes, comm) : MPI_SUCCESS;
    }
    int rc = rndv_recv_add(&ps, &d, p->address, p, status);
    bool failed = rndv_recvs_run(&ps) != 0;
    if (rc == MPI_ERR_TRUNCATE) return raise_error(comm, rc, "a message is longer than its receive");
    if (rc != MPI_SUCCESS || failed) return raise_error(comm, MPI_ERR_OTHER, "a message can't be read");
    return MPI_SUCCESS;
}

int p2p_brief(struct layout *l, void *buf, int64_t count, const void *packed, MPI_Status *status, MPI_Comm comm)
{
    int64_t bytes = light_request_bytes(status);
    if (!rts_fits(bytes) || !rts_begins(packed)) return host_brief_arrived(l, buf, count, packed, bytes), MPI_SUCCESS;
    struct typed_buffer *p = host_block(l, buf, count);
    if (!p) return raise_error(comm, MPI_ERR_OTHER, "no memory for a message that has come");
    memcpy((void *)(uintptr_t)p->address, packed, (size_t)bytes);
    int rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    return rc;
}
