/* sendrecv.c: MPI_Sendrecv and MPI_Sendrecv_replace. */
#include "base/error.h"
#include "datatype/byte_types.h"
#include "datatype/type_filter.h"
#include "next.h"
#include "node/peer_access.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/rndv_send.h"
#include "protocol/rts.h"
#include "request/completion_set.h"
#include "request/light_request.h"
#include "request/p2p.h"
#include "request/probed.h"
#include "request/receive_gate.h"
#include <limits.h>
#include <stdlib.h>

/* The next MPI_Sendrecv, in the form of the call. */
struct forms {
    int (*small)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm,
                 MPI_Status *);
    int (*large)(const void *, MPI_Count, MPI_Datatype, int, int, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                 MPI_Status *);
};

/* One direction of an exchange. The MPI gets buf, count and type: of a typed buffer, an RTS, or the call. */
struct half {
    struct typed_buffer *packed;
    struct typed_buffer *recv;   /* for a receive that the MPI makes itself */
    struct rndv_send *rndv;   /* for a rendezvous send */
    struct pipeline_send *pipelined;   /* for a pipelined send; `sending` after its RTS (rts_request) */
    struct pipeline_send *sending;
    MPI_Request rts_request;
    bool stable;   /* the buffer does not change until the exchange ends */
    struct wire wire;   /* of `packed` */
    void *copy;   /* data that will be replaced, packed by the MPI */
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
};

static void half_use_buffer(struct half *h)
{
    h->buf = h->packed->address;
    h->count = h->wire.count;
    h->type = h->wire.type;
}

static int half_send(struct half *h, int dest, MPI_Comm comm)
{
    int rc;
    struct message m = {h->buf, h->count, h->type, dest, comm, h->stable ? REUSE_LATER : REUSE_BUFFERED, NULL, {0}};
    struct send_op op;
    if (h->packed) return MPI_SUCCESS;
    if (!send_select(&op, &m, &rc)) return rc;
    h->rndv = op.rndv, h->pipelined = op.pipelined, h->packed = op.packed, h->wire = op.as;
    if (h->pipelined) return rc;   /* half_send_pipelined */
    h->buf = (void *)(uintptr_t)op.address, h->count = op.as.count, h->type = op.as.type;
    if (h->rndv) rndv_send_feed(h->rndv);   /* the peer may send only after it has this message */
    return rc;
}

/* Packs host data that the receive will replace, if that beats the MPI's engine. Then a plain exchange suffices. */
static bool half_pack_host(struct half *h, int dest, MPI_Comm comm)
{
    struct layout *l = dest == MPI_PROC_NULL ? NULL : host_sends(h->buf, h->count, h->type, comm);
    if (!l || !(h->packed = host_packs(l, h->buf, h->count))) return false;
    if (mpi_bytes_of(h->packed->bytes, &h->wire) == MPI_SUCCESS) return half_use_buffer(h), true;
    typed_buffer_close(h->packed);
    h->packed = NULL;
    return false;
}

/* Packs by the MPI if the unexpected queue holds messages (probed.h), or if receives register (receive_gate.h). The
 * queue may hold the message that MPI_Sendrecv_replace of the MPI would wait for. */
static bool half_pack_mpi(struct half *h, MPI_Comm comm)
{
    int room = 0, position = 0;
    MPI_Count size = 0;
    if ((!probed_any() && !receive_gate_on()) || PMPI_Type_size_x(h->type, &size) != MPI_SUCCESS) return false;
    if (size > 0 && h->count > INT_MAX / 2 / size) return false;   /* leaves room for what the MPI adds */
    if (h->count > INT_MAX || PMPI_Pack_size((int)h->count, h->type, comm, &room) != MPI_SUCCESS) return false;
    h->copy = malloc((size_t)room + 1);
    if (!h->copy || PMPI_Pack(h->buf, (int)h->count, h->type, h->copy, room, &position, comm) != MPI_SUCCESS)
        return false;
    h->buf = h->copy, h->count = position, h->type = MPI_PACKED;
    return true;
}

static bool half_copy(struct half *h, int dest, MPI_Comm comm)
{
    if (half_pack_host(h, dest, comm) || half_pack_mpi(h, comm)) return true;
    free(h->copy);
    h->copy = NULL;
    return false;
}

static int half_receive(struct half *h, int source, MPI_Comm comm)
{
    int rc;
    if (p2p_awaited(&h->packed, &h->wire, h->buf, h->count, h->type, source, comm, &rc)) half_use_buffer(h);
    if (rc != MPI_SUCCESS || h->packed) return rc;
    rc = rndv_recv_watch(&h->recv, h->buf, h->count, h->type, source, comm, false);
    h->type = type_to_receive(h->type, comm);
    return rc;
}

static void half_close(struct half *h)
{
    if (h->packed) mpi_bytes_free(&h->wire);
    typed_buffer_close(h->packed), typed_buffer_close(h->recv);
    if (h->rndv) rndv_send_withdraw(h->rndv);
    if (h->pipelined) pipeline_send_withdraw(h->pipelined);
    free(h->copy);
}

/* Sends the RTS and all chunks before the receive waits: the peer may need them first. Sets *dest to MPI_PROC_NULL for
 * the exchange itself. */
static int half_send_pipelined(struct half *h, int *dest, int tag, MPI_Comm comm)
{
    if (!h->pipelined) return MPI_SUCCESS;
    int rc = PMPI_Isend(pipeline_send_descriptor(h->pipelined), RTS_BYTES, MPI_BYTE, *dest, tag, comm, &h->rts_request);
    if (rc != MPI_SUCCESS) return rc;
    h->sending = h->pipelined, h->pipelined = NULL;
    *dest = MPI_PROC_NULL;
    return pipeline_send_feed(h->sending) ? raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed") : rc;
}

static void half_end_pipelined(struct half *h)
{
    if (!h->sending) return;
    PMPI_Wait(&h->rts_request, MPI_STATUS_IGNORE);
    pipeline_send_end(h->sending);
}

static int receive_by_mpi(struct half *r, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
#ifdef HAVE_Recv_c
    return receive_gate_close(PMPI_Recv_c(r->buf, r->count, r->type, source, tag, comm, status));
#else
    return receive_gate_close(PMPI_Recv(r->buf, (int)r->count, r->type, source, tag, comm, status));
#endif
}

/* Sends and receives by two calls. Takes the message from the queue's entry `at`, or from the MPI if `at` is NULL. The
 * receive gate must not be open while the send waits: it would hide messages from other threads' probes. */
static int exchange_separately(struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                               const struct probed_at *at, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
#ifdef HAVE_Isend_c
    int rc = PMPI_Isend_c(s->buf, s->count, s->type, dest, sendtag, comm, &request);
#else
    int rc = PMPI_Isend(s->buf, (int)s->count, s->type, dest, sendtag, comm, &request);
#endif
    if (rc != MPI_SUCCESS) return receive_gate_close(rc);
    rc = at ? probed_receive(at, r->buf, r->count, r->type, status) : receive_by_mpi(r, source, recvtag, comm, status);
    int ended = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? ended : rc;
}

static int exchange_by_mpi(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source,
                           int recvtag, MPI_Comm comm, MPI_Status *st)
{
    if (receive_gate_on()) return exchange_separately(s, dest, sendtag, r, source, recvtag, NULL, comm, st);
    if (next.large)
        return next.large(s->buf, s->count, s->type, dest, sendtag, r->buf, r->count, r->type, source, recvtag, comm,
                          st);
    return next.small(s->buf, (int)s->count, s->type, dest, sendtag, r->buf, (int)r->count, r->type, source, recvtag,
                      comm, st);
}

static int exchange(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                    MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status;
    struct probed_at at;
    receive_gate_open(source, recvtag, comm);   /* already open, except for MPI_Sendrecv_replace */
    bool found = source != MPI_PROC_NULL && probed_take(source, recvtag, comm, &at);
    if (found) receive_gate_close(MPI_SUCCESS);
    int rc = found ? exchange_separately(s, dest, sendtag, r, source, recvtag, &at, comm, st)
                   : exchange_by_mpi(next, s, dest, sendtag, r, source, recvtag, comm, st);
    struct typed_buffer *p = r->packed ? r->packed : r->recv;
    if (rc != MPI_SUCCESS && !completion_set_truncated(rc)) return rc;   /* after truncation the send is complete */
    if (p && rc == MPI_SUCCESS) rc = p2p_arrived(p, st, comm);
    if (s->rndv && rndv_send_end(s->rndv) && rc == MPI_SUCCESS)
        rc = raise_error(comm, MPI_ERR_OTHER, "a message was not received");
    s->rndv = NULL;
    return rc;
}

static int sendrecv_short(struct forms next, struct half *s, const struct layout *packs, int64_t out, int dest,
                          int sendtag, struct half *r, struct layout *unpacks, int64_t in, int source, int recvtag,
                          MPI_Comm comm, MPI_Status *status)
{
    _Alignas(64) char leaves[HOST_BRIEF_MOST], comes[HOST_BRIEF_MOST];
    MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status;
    struct half to = {.buf = leaves, .count = out, .type = MPI_BYTE},
                from = {.buf = comes, .count = in, .type = MPI_BYTE};
    host_brief_leaves(packs, s->buf, s->count, leaves, out);
    peer_access_poll();
    int rc = exchange_by_mpi(next, &to, dest, sendtag, &from, source, recvtag, comm, st);
    if (rc == MPI_SUCCESS) rc = p2p_brief(unpacks, r->buf, r->count, comes, st, comm);
    record_poll();
    return rc;
}

static int sendrecv(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                    MPI_Comm comm, MPI_Status *status)
{
    int64_t out, in;
    struct layout *packs = s->stable ? host_brief(s->buf, s->count, s->type, dest, &out) : NULL;
    struct layout *unpacks =
        packs && !probed_any() && !receive_gate_on() ? host_brief(r->buf, r->count, r->type, source, &in) : NULL;
    if (unpacks)
        return sendrecv_short(next, s, packs, out, dest, sendtag, r, unpacks, in, source, recvtag, comm, status);
    int rc = half_send(s, dest, comm);
    if (rc == MPI_SUCCESS) rc = half_receive(r, source, comm);
    if (rc == MPI_SUCCESS) rc = half_send_pipelined(s, &dest, sendtag, comm);
    if (rc == MPI_SUCCESS) rc = exchange(next, s, dest, sendtag, r, source, recvtag, comm, status);
    half_end_pipelined(s);
    half_close(s), half_close(r);
    record_poll();
    return rc;
}

/* Returns true if both sides are the MPI's alone (p2p_ignored). */
static inline bool both_ignored(const struct half *s, const struct half *r)
{
    if (!p2p_ignored(r->buf, r->count, r->type)) return false;
    return driver_absent() ? filter_send_ignores(s->type, s->count) : host_message(s->buf, s->type);
}

static inline int poll_end(int rc)
{
    record_poll();
    return rc;
}

/* Ends an exchange of the MPI whose receive is a light request. */
static inline int end_light(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm,
                            MPI_Status *status)
{
    struct light_request w = light_request_of(buf, count, datatype, comm);
    if (rc == MPI_SUCCESS) rc = light_request_done(&w, status);
    record_poll();
    return rc;
}

static int end_replace(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                       MPI_Status *status)
{
    if (light_request_wants(count, datatype, source)) return end_light(rc, buf, count, datatype, comm, status);
    struct typed_buffer *p = NULL;
    if (rc == MPI_SUCCESS) rc = rndv_recv_watch(&p, buf, count, datatype, source, comm, false);
    if (p) rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    record_poll();
    return rc;
}

#define SENDRECV(name, form, number) \
    int call_##name(const struct next *next, const void *sendbuf, number sendcount, MPI_Datatype sendtype, int dest, \
                    int sendtag, void *recvbuf, number recvcount, MPI_Datatype recvtype, int source, int recvtag, \
                    MPI_Comm comm, MPI_Status *status) \
    { \
        struct half s = {.stable = true, .buf = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype}; \
        struct half r = {.buf = recvbuf, .count = recvcount, .type = recvtype}; \
        struct forms down = {.form = next->name}; \
        receive_gate_open(source, recvtag, comm); \
        if (both_ignored(&s, &r)) \
            return poll_end(exchange_by_mpi(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
        if (driver_absent() && filter_send_ignores(sendtype, sendcount) && \
            light_request_wants(recvcount, recvtype, source)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            peer_access_poll(); \
            int rc = exchange_by_mpi(down, &s, dest, sendtag, &r, source, recvtag, comm, st); \
            return end_light(rc, recvbuf, recvcount, recvtype, comm, st); \
        } \
        return receive_gate_close(sendrecv(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
    }
/* Uses MPI_Sendrecv (`plain`) if the data to send is packed: the packed copy does not overlap the buffer. */
#define SENDRECV_REPLACE(name, plain, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, \
                    int source, int recvtag, MPI_Comm comm, MPI_Status *status) \
    { \
        struct half h = {.buf = buf, .count = count, .type = datatype}, s = h; \
        if (!typed_buffer_claims(buf, count, datatype, comm) && !half_copy(&s, dest, comm)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            receive_gate_open(source, recvtag, comm); \
            int rc = \
                next->name(buf, count, type_to_receive(datatype, comm), dest, sendtag, source, recvtag, comm, st); \
            receive_gate_close(rc); \
            return end_replace(rc, buf, count, datatype, source, comm, st); \
        } \
        return sendrecv((struct forms){.form = next->plain}, &s, dest, sendtag, &h, source, recvtag, comm, status); \
    }

SENDRECV(Sendrecv, small, int)
SENDRECV_REPLACE(Sendrecv_replace, Sendrecv, small, int)
#ifdef HAVE_Sendrecv_c
SENDRECV(Sendrecv_c, large, MPI_Count)
SENDRECV_REPLACE(Sendrecv_replace_c, Sendrecv_c, large, MPI_Count)
#endif
