/* sendrecv.c: MPI_Sendrecv and MPI_Sendrecv_replace. */
#include "base/error.h"
#include "datatype/byte_types.h"
#include "datatype/type_filter.h"
#include "interpose.h"
#include "large_count.h"
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

/* One direction of an exchange. The MPI gets buf, count and type: of a typed buffer, an RTS, or the call. */
struct half {
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
    int peer, tag;
    bool stable;   /* the buffer does not change until the exchange ends */
    struct typed_buffer *packed;
    struct wire wire;   /* of `packed` */
    struct typed_buffer *recv;   /* for a receive that the MPI makes itself */
    struct rndv_send *rndv;   /* for a rendezvous send */
    struct pipeline_send *pipelined;   /* for a pipelined send; `sending` after its RTS (rts_request) */
    struct pipeline_send *sending;
    MPI_Request rts_request;
    void *copy;   /* data that will be replaced, packed by the MPI */
};

/* The arguments of a call. */
struct call {
    const struct next *next;
    int (*down)(const struct call *, const struct half *, const struct half *);   /* calls the next MPI_Sendrecv */
    struct half send, recv;
    MPI_Comm comm;
    MPI_Status *status;
};

static void half_use_buffer(struct half *h)
{
    h->buf = h->packed->address;
    h->count = h->wire.count;
    h->type = h->wire.type;
}

static int half_send(struct half *h, MPI_Comm comm)
{
    int rc;
    struct message m = {h->buf, h->count, h->type, h->peer, comm, .reuse = h->stable ? REUSE_LATER : REUSE_BUFFERED};
    struct send_op op;
    if (h->packed) return MPI_SUCCESS;
    if (!send_select(&op, &m, &rc)) return rc;
    h->rndv = op.rndv, h->pipelined = op.pipelined, h->packed = op.packed, h->wire = op.as;
    if (h->pipelined) return rc;   /* half_send_pipelined */
    h->buf = (void *)(uintptr_t)op.address, h->count = op.as.count, h->type = op.as.type;
    if (h->rndv) rndv_send_feed(h->rndv);   /* the peer may send only after it has this message */
    return rc;
}

/* Sends p's packed bytes in the buffer's place, so that a plain exchange suffices. Returns false without a type. */
static bool half_use_packed(struct half *h, struct typed_buffer *p)
{
    if (!p || mpi_bytes_of(p->bytes, &h->wire) != MPI_SUCCESS) return typed_buffer_close(p), false;
    h->packed = p;
    half_use_buffer(h);
    return true;
}

/* Packs host data that the receive will replace, if that beats the MPI's engine. */
static bool half_pack_host(struct half *h, MPI_Comm comm)
{
    struct layout *l = host_sends(h->buf, h->count, h->type, comm);
    return l && half_use_packed(h, host_packs(l, h->buf, h->count));
}

static bool half_pack_mpi(struct half *h, MPI_Comm comm)
{
    int room = 0, position = 0;
    MPI_Count size = 0;
    if (PMPI_Type_size_x(h->type, &size) != MPI_SUCCESS) return false;
    if (size > 0 && h->count > INT_MAX / 2 / size) return false;   /* leaves room for what the MPI adds */
    if (h->count > INT_MAX || PMPI_Pack_size((int)h->count, h->type, comm, &room) != MPI_SUCCESS) return false;
    h->copy = malloc((size_t)room + 1);
    if (!h->copy || PMPI_Pack(h->buf, (int)h->count, h->type, h->copy, room, &position, comm) != MPI_SUCCESS)
        return false;
    h->buf = h->copy, h->count = position, h->type = MPI_PACKED;
    return true;
}

/* Copies what is to be sent, so that the receive may be another than MPI_Sendrecv_replace of the MPI: that waits for a
 * message which the unexpected queue may hold (probed.h), and can't register (receive_gate.h). */
static bool half_copy(struct half *h, MPI_Comm comm)
{
    bool must = (probed_any() || receive_gate_on()) && h->type != MPI_DATATYPE_NULL && h->count >= 0;
    if (h->peer == MPI_PROC_NULL) return must && (h->count = 0, true);
    if (half_pack_host(h, comm) || (must && half_pack_mpi(h, comm))) return true;
    free(h->copy);
    h->copy = NULL;
    return must && half_use_packed(h, host_packs_any(h->buf, h->count, h->type, comm));   /* what the MPI can't pack */
}

static int half_receive(struct half *h, MPI_Comm comm)
{
    int rc;
    struct message m = {h->buf, h->count, h->type, h->peer, .comm = comm};
    if (p2p_awaited(&h->packed, &h->wire, &m, &rc)) half_use_buffer(h);
    if (rc != MPI_SUCCESS || h->packed) return rc;
    rc = rndv_recv_prepare(&h->recv, &m, false);
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

/* Sends the RTS and all chunks before the receive waits: the peer may need them first. Sets h->peer to MPI_PROC_NULL
 * for the exchange itself. */
static int half_send_pipelined(struct half *h, MPI_Comm comm)
{
    if (!h->pipelined) return MPI_SUCCESS;
    int rc = PMPI_Isend(pipeline_send_rts(h->pipelined), RTS_BYTES, MPI_BYTE, h->peer, h->tag, comm,
                        &h->rts_request);
    if (rc != MPI_SUCCESS) return rc;
    h->sending = h->pipelined, h->pipelined = NULL;
    h->peer = MPI_PROC_NULL;
    return pipeline_send_feed(h->sending) ? raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed") : rc;
}

static void half_end_pipelined(struct half *h)
{
    if (!h->sending) return;
    PMPI_Wait(&h->rts_request, MPI_STATUS_IGNORE);
    pipeline_send_end(h->sending);
}

/* Sends and receives by two calls. Takes the message from the queue's entry `at`, or from the MPI if `at` is NULL. The
 * receive gate must not be open while the send waits: it would hide messages from other threads' probes. */
static int exchange_separately(const struct half *s, const struct half *r, const struct probed_at *at, MPI_Comm comm,
                               MPI_Status *status)
{
    MPI_Request request;
    int rc = PMPI_LARGE(Isend, s->buf, s->count, s->type, s->peer, s->tag, comm, &request);
    if (rc != MPI_SUCCESS) return receive_gate_close(rc);
    rc = at ? probed_receive(at, r->buf, r->count, r->type, status)
            : receive_gate_close(PMPI_LARGE(Recv, r->buf, r->count, r->type, r->peer, r->tag, comm, status));
    int ended = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? ended : rc;
}

static int exchange_by_mpi(const struct call *c, const struct half *s, const struct half *r)
{
    if (receive_gate_on()) return exchange_separately(s, r, NULL, c->comm, c->status);
    return c->down(c, s, r);
}

static int exchange(struct call *c)
{
    struct half *s = &c->send, *r = &c->recv;
    struct probed_at at;
    receive_gate_open(r->peer, r->tag, c->comm);   /* already open, except for MPI_Sendrecv_replace */
    bool found = r->peer != MPI_PROC_NULL && probed_take(r->peer, r->tag, c->comm, &at);
    if (found) receive_gate_close(MPI_SUCCESS);
    int rc = found ? exchange_separately(s, r, &at, c->comm, c->status) : exchange_by_mpi(c, s, r);
    struct typed_buffer *p = r->packed ? r->packed : r->recv;
    if (rc != MPI_SUCCESS && !completion_set_truncated(rc)) return rc;   /* after truncation the send is complete */
    if (p && rc == MPI_SUCCESS) rc = p2p_arrived(p, c->status, c->comm);
    if (s->rndv && rndv_send_end(s->rndv) && rc == MPI_SUCCESS)
        rc = raise_error(c->comm, MPI_ERR_OTHER, "a message was not received");
    s->rndv = NULL;
    return rc;
}

/* Exchanges short messages of host memory: `out` bytes by the layout `packs` for `in` bytes by `unpacks`. */
static int sendrecv_short(struct call *c, const struct layout *packs, int64_t out, struct layout *unpacks, int64_t in)
{
    _Alignas(64) char leaves[HOST_SHORT_MOST], comes[HOST_SHORT_MOST];
    const struct half *s = &c->send, *r = &c->recv;
    struct half to = {.buf = leaves, .count = out, .type = MPI_BYTE, .peer = s->peer, .tag = s->tag},
                from = {.buf = comes, .count = in, .type = MPI_BYTE, .peer = r->peer, .tag = r->tag};
    host_short_pack(packs, s->buf, s->count, leaves, out);
    stats_add_sent(c->comm, s->peer, out);
    peer_access_poll();
    int rc = exchange_by_mpi(c, &to, &from);
    return poll_end(rc == MPI_SUCCESS ? p2p_short(unpacks, r->buf, r->count, comes, c->status, c->comm) : rc);
}

static int sendrecv(struct call *c)
{
    int64_t out, in;
    struct half *s = &c->send, *r = &c->recv;
    struct layout *packs = s->stable ? host_sends_short(s->buf, s->count, s->type, s->peer, &out) : NULL;
    struct layout *unpacks =
        packs && !probed_any() && !receive_gate_on() ? host_sends_short(r->buf, r->count, r->type, r->peer, &in) : NULL;
    if (unpacks) return sendrecv_short(c, packs, out, unpacks, in);
    int rc = half_send(s, c->comm);
    if (rc == MPI_SUCCESS) rc = half_receive(r, c->comm);
    if (rc == MPI_SUCCESS) rc = half_send_pipelined(s, c->comm);
    if (rc == MPI_SUCCESS) rc = exchange(c);
    half_end_pipelined(s);
    half_close(s), half_close(r);
    return poll_end(rc);
}

/* Returns true if both sides are the MPI's alone (p2p_ignored). */
static inline bool both_ignored(const struct half *s, const struct half *r)
{
    if (!p2p_ignored(r->buf, r->count, r->type)) return false;
    return driver_absent() ? filter_send_ignores(s->type, s->count) : host_message(s->buf, s->type);
}

/* Ends an exchange of the MPI whose receive is a light request. */
static int end_light(const struct call *c, int rc)
{
    const struct half *r = &c->recv;
    struct light_request w = light_request_of(r->buf, r->count, r->type, c->comm);
    return poll_end(rc == MPI_SUCCESS ? light_request_done(&w, c->status) : rc);
}

static int exchange_two(struct call *c)
{
    MPI_Status own, *status = c->status;
    const struct half *s = &c->send, *r = &c->recv;
    receive_gate_open(r->peer, r->tag, c->comm);
    if (both_ignored(s, r)) return poll_end(exchange_by_mpi(c, s, r));
    if (status == MPI_STATUS_IGNORE) c->status = &own;
    if (!driver_absent() || !filter_send_ignores(s->type, s->count) || !light_request_wants(r->count, r->type, r->peer))
        return receive_gate_close(sendrecv(c));
    peer_access_poll();
    return end_light(c, exchange_by_mpi(c, s, r));
}

/* Ends an exchange in one buffer that the MPI made. */
static int end_replace(const struct call *c, int rc)
{
    const struct half *r = &c->recv;
    if (light_request_wants(r->count, r->type, r->peer)) return end_light(c, rc);
    struct typed_buffer *p = NULL;
    struct message m = {r->buf, r->count, r->type, r->peer, .comm = c->comm};
    if (rc == MPI_SUCCESS) rc = rndv_recv_prepare(&p, &m, false);
    if (p) rc = p2p_arrived(p, c->status, c->comm);
    typed_buffer_close(p);
    return poll_end(rc);
}

/* Uses MPI_Sendrecv if the data to send is packed: the packed copy does not overlap the buffer. Else calls `replace`,
 * the next MPI_Sendrecv_replace. */
static int exchange_one(struct call *c, int (*replace)(const struct call *, MPI_Datatype))
{
    MPI_Status own;
    struct half *s = &c->send, *r = &c->recv;
    if (c->status == MPI_STATUS_IGNORE) c->status = &own;
    if (typed_buffer_claims(s->buf, s->count, s->type, c->comm) || half_copy(s, c->comm)) return sendrecv(c);
    receive_gate_open(r->peer, r->tag, c->comm);
    int rc = receive_gate_close(replace(c, type_to_receive(r->type, c->comm)));
    return end_replace(c, rc);
}

/* `plain` is MPI_Sendrecv, `name` MPI_Sendrecv_replace, and `number` the type of their counts. */
#define SENDRECV(plain, name, number) \
    static int down_##plain(const struct call *c, const struct half *s, const struct half *r) \
    { \
        return c->next->plain(s->buf, (number)s->count, s->type, s->peer, s->tag, r->buf, (number)r->count, r->type, \
                              r->peer, r->tag, c->comm, c->status); \
    } \
    int call_##plain(const struct next *next, const void *sendbuf, number sendcount, MPI_Datatype sendtype, int dest, \
                     int sendtag, void *recvbuf, number recvcount, MPI_Datatype recvtype, int source, int recvtag, \
                     MPI_Comm comm, MPI_Status *status) \
    { \
        struct call c = {next, down_##plain, {(void *)(uintptr_t)sendbuf, sendcount, sendtype, dest, sendtag, \
                         .stable = true}, {recvbuf, recvcount, recvtype, source, recvtag, .stable = false}, comm, \
                         status}; \
        return exchange_two(&c); \
    } \
    static int down_##name(const struct call *c, MPI_Datatype type) \
    { \
        const struct half *s = &c->send, *r = &c->recv; \
        return c->next->name(r->buf, (number)r->count, type, s->peer, s->tag, r->peer, r->tag, c->comm, c->status); \
    } \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, \
                    int source, int recvtag, MPI_Comm comm, MPI_Status *status) \
    { \
        struct call c = {next, down_##plain, {buf, count, datatype, dest, sendtag, .stable = false}, \
                         {buf, count, datatype, source, recvtag, .stable = false}, comm, status}; \
        return exchange_one(&c, down_##name); \
    }

#define EXCHANGES(c, number) SENDRECV(Sendrecv##c, Sendrecv_replace##c, number)
EACH_FORM(EXCHANGES)
