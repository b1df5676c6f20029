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

/* The way down: MPI_Sendrecv, or MPI_Sendrecv_c for a call that came in by a large form. */
struct forms {
    int (*small)(const void *, int, MPI_Datatype, int, int, void *, int, MPI_Datatype, int, int, MPI_Comm,
                 MPI_Status *);
    int (*large)(const void *, MPI_Count, MPI_Datatype, int, int, void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                 MPI_Status *);
};

/* Either side may be the MPI's own: what goes down for a parcel, or for the call's buffer. */
struct half {
    struct typed_buffer *parcel;
    struct typed_buffer *watch;   /* or this, of a receive that the MPI makes itself */
    struct rndv_send *offer;   /* or this, of a send */
    struct pipeline_send *outflow;   /* or this; then that, when its descriptor is under way by `told` */
    struct pipeline_send *flown;
    MPI_Request told;
    bool offers;            /* the buffer stays as it is until the exchange has ended */
    struct wire wire;   /* with a parcel */
    void *copy;             /* what is to be replaced, packed by the MPI */
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
};

static void half_parcel(struct half *h)
{
    h->buf = h->parcel->address;
    h->count = h->wire.count;
    h->type = h->wire.type;
}

static int half_send(struct half *h, int dest, MPI_Comm comm)
{
    int rc;
    struct send_op l;
    if (h->parcel) return MPI_SUCCESS;
    if (!p2p_leaves(&l, h->offers ? LEAVES_LATER : LEAVES_BUFFERED, h->buf, h->count, h->type, dest, comm, &rc))
        return rc;
    h->offer = l.offer, h->outflow = l.outflow, h->parcel = l.parcel, h->wire = l.wire;
    if (h->parcel) half_parcel(h);
    if (!h->offer) return rc;
    h->buf = (void *)(uintptr_t)rndv_send_descriptor(h->offer),
    h->count = rndv_send_descriptor_count(h->offer, &h->type);
    rndv_send_feed(h->offer);   /* what is to be received may have to wait for it */
    return rc;
}

/* What is to be replaced, in host memory, is packed where that beats the MPI's engine: a plain exchange does. */
static bool half_replaces(struct half *h, int dest, MPI_Comm comm)
{
    struct layout *l = dest == MPI_PROC_NULL ? NULL : host_sends(h->buf, h->count, h->type, comm);
    if (!l || !(h->parcel = host_packs(l, h->buf, h->count))) return false;
    if (wire_of(h->parcel->bytes, &h->wire) == MPI_SUCCESS) return half_parcel(h), true;
    typed_buffer_close(h->parcel);
    h->parcel = NULL;
    return false;
}

/* The same by the MPI's engine, where a message lies aside (probed.h): it may be the one that replaces, and the
 * MPI's own call would wait for it. So it may where receives show themselves (receive_gate.h). */
static bool half_copies(struct half *h, MPI_Comm comm)
{
    int room = 0, position = 0;
    MPI_Count size = 0;
    if ((!probed_any() && !receive_gate_on()) || PMPI_Type_size_x(h->type, &size) != MPI_SUCCESS) return false;
    if (size > 0 && h->count > INT_MAX / 2 / size) return false;   /* whatever the MPI adds */
    if (h->count > INT_MAX || PMPI_Pack_size((int)h->count, h->type, comm, &room) != MPI_SUCCESS) return false;
    h->copy = malloc((size_t)room + 1);
    if (!h->copy || PMPI_Pack(h->buf, (int)h->count, h->type, h->copy, room, &position, comm) != MPI_SUCCESS)
        return false;
    h->buf = h->copy, h->count = position, h->type = MPI_PACKED;
    return true;
}

static bool half_apart(struct half *h, int dest, MPI_Comm comm)
{
    if (half_replaces(h, dest, comm) || half_copies(h, comm)) return true;
    free(h->copy);
    h->copy = NULL;
    return false;
}

static int half_receive(struct half *h, int source, MPI_Comm comm)
{
    int rc;
    if (p2p_awaited(&h->parcel, &h->wire, h->buf, h->count, h->type, source, comm, &rc)) half_parcel(h);
    if (rc != MPI_SUCCESS || h->parcel) return rc;
    rc = rndv_recv_watch(&h->watch, h->buf, h->count, h->type, source, comm, false);
    h->type = type_to_receive(h->type, comm);
    return rc;
}

static void half_close(struct half *h)
{
    if (h->parcel) wire_done(&h->wire);
    typed_buffer_close(h->parcel), typed_buffer_close(h->watch);
    if (h->offer) rndv_send_withdraw(h->offer);
    if (h->outflow) pipeline_send_withdraw(h->outflow);
    free(h->copy);
}

/* A send in chunks is all the MPI's before the receive is waited for: what is to be received may have to wait for
 * it. The exchange itself then sends to nobody. */
static int half_flow(struct half *h, int *dest, int tag, MPI_Comm comm)
{
    if (!h->outflow) return MPI_SUCCESS;
    int rc = PMPI_Isend(pipeline_send_descriptor(h->outflow), RTS_BYTES, MPI_BYTE, *dest, tag, comm, &h->told);
    if (rc != MPI_SUCCESS) return rc;
    h->flown = h->outflow, h->outflow = NULL;
    *dest = MPI_PROC_NULL;
    return pipeline_send_feed(h->flown) ? raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed") : rc;
}

static void half_flown(struct half *h)
{
    if (!h->flown) return;
    PMPI_Wait(&h->told, MPI_STATUS_IGNORE);
    pipeline_send_end(h->flown);
}

static int receive_down(struct half *r, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
#ifdef HAVE_Recv_c
    return receive_gate_close(PMPI_Recv_c(r->buf, r->count, r->type, source, tag, comm, status));
#else
    return receive_gate_close(PMPI_Recv(r->buf, (int)r->count, r->type, source, tag, comm, status));
#endif
}

/* A send and a receive of their own, from where the message lies aside, or, with NULL, from the MPI: a gate that
 * stays open while the send waits for its receiver would keep other threads' probes from what this receive does not
 * want any more. */
static int neighbor_exchange_apart(struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                                   const struct probed_at *at, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
#ifdef HAVE_Isend_c
    int rc = PMPI_Isend_c(s->buf, s->count, s->type, dest, sendtag, comm, &request);
#else
    int rc = PMPI_Isend(s->buf, (int)s->count, s->type, dest, sendtag, comm, &request);
#endif
    if (rc != MPI_SUCCESS) return receive_gate_close(rc);
    rc = at ? probed_receive(at, r->buf, r->count, r->type, status) : receive_down(r, source, recvtag, comm, status);
    int ended = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? ended : rc;
}

static int neighbor_exchange_down(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source,
                                  int recvtag, MPI_Comm comm, MPI_Status *st)
{
    if (receive_gate_on()) return neighbor_exchange_apart(s, dest, sendtag, r, source, recvtag, NULL, comm, st);
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
    receive_gate_open(source, recvtag, comm);   /* open already, but for an exchange that replaces */
    bool led = source != MPI_PROC_NULL && probed_take(source, recvtag, comm, &at);
    if (led) receive_gate_close(MPI_SUCCESS);
    int rc = led ? neighbor_exchange_apart(s, dest, sendtag, r, source, recvtag, &at, comm, st)
                 : neighbor_exchange_down(next, s, dest, sendtag, r, source, recvtag, comm, st);
    struct typed_buffer *p = r->parcel ? r->parcel : r->watch;
    if (rc != MPI_SUCCESS && !completion_set_truncated(rc)) return rc;   /* such a one was sent */
    if (p && rc == MPI_SUCCESS) rc = p2p_arrived(p, st, comm);
    if (s->offer && rndv_send_end(s->offer) && rc == MPI_SUCCESS)
        rc = raise_error(comm, MPI_ERR_OTHER, "a message was not received");
    s->offer = NULL;
    return rc;
}

/* Brief messages both. */
static int sendrecv_brief(struct forms next, struct half *s, const struct layout *packs, int64_t out, int dest,
                          int sendtag, struct half *r, struct layout *unpacks, int64_t in, int source, int recvtag,
                          MPI_Comm comm, MPI_Status *status)
{
    _Alignas(64) char leaves[HOST_BRIEF_MOST], comes[HOST_BRIEF_MOST];
    MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status;
    struct half to = {.buf = leaves, .count = out, .type = MPI_BYTE},
                from = {.buf = comes, .count = in, .type = MPI_BYTE};
    host_brief_leaves(packs, s->buf, s->count, leaves, out);
    peer_access_poll();
    int rc = neighbor_exchange_down(next, &to, dest, sendtag, &from, source, recvtag, comm, st);
    if (rc == MPI_SUCCESS) rc = p2p_brief(unpacks, r->buf, r->count, comes, st, comm);
    record_poll();
    return rc;
}

static int sendrecv(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                    MPI_Comm comm, MPI_Status *status)
{
    int64_t out, in;
    struct layout *packs = s->offers ? host_brief(s->buf, s->count, s->type, dest, &out) : NULL;
    struct layout *unpacks =
        packs && !probed_any() && !receive_gate_on() ? host_brief(r->buf, r->count, r->type, source, &in) : NULL;
    if (unpacks)
        return sendrecv_brief(next, s, packs, out, dest, sendtag, r, unpacks, in, source, recvtag, comm, status);
    int rc = half_send(s, dest, comm);
    if (rc == MPI_SUCCESS) rc = half_receive(r, source, comm);
    if (rc == MPI_SUCCESS) rc = half_flow(s, &dest, sendtag, comm);
    if (rc == MPI_SUCCESS) rc = exchange(next, s, dest, sendtag, r, source, recvtag, comm, status);
    half_flown(s);
    half_close(s), half_close(r);
    record_poll();
    return rc;
}

/* Both are the MPI's own, as p2p_ignored. */
static inline bool both_ignored(const struct half *s, const struct half *r)
{
    if (!p2p_ignored(r->buf, r->count, r->type)) return false;
    return driver_absent() ? filter_send_ignores(s->type, s->count) : host_message(s->buf, s->type);
}

static inline int left(int rc)
{
    record_poll();
    return rc;
}

/* After an exchange that the MPI made itself, of a receive that light_request.h is for, */
static inline int watched(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm, MPI_Status *status)
{
    struct light_request w = light_request_of(buf, count, datatype, comm);
    if (rc == MPI_SUCCESS) rc = light_request_done(&w, status);
    record_poll();
    return rc;
}

/* or of any. */
static int replaced(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                    MPI_Status *status)
{
    if (light_request_wants(count, datatype, source)) return watched(rc, buf, count, datatype, comm, status);
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
        struct half s = {.offers = true, .buf = (void *)(uintptr_t)sendbuf, .count = sendcount, .type = sendtype}; \
        struct half r = {.buf = recvbuf, .count = recvcount, .type = recvtype}; \
        struct forms down = {.form = next->name}; \
        receive_gate_open(source, recvtag, comm); \
        if (both_ignored(&s, &r)) \
            return left(neighbor_exchange_down(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
        if (driver_absent() && filter_send_ignores(sendtype, sendcount) && \
            light_request_wants(recvcount, recvtype, source)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            peer_access_poll(); \
            int rc = neighbor_exchange_down(down, &s, dest, sendtag, &r, source, recvtag, comm, st); \
            return watched(rc, recvbuf, recvcount, recvtype, comm, st); \
        } \
        return receive_gate_close(sendrecv(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
    }
/* With a parcel the packed copy is apart from the buffer anyway, so that a plain exchange does. */
#define SENDRECV_REPLACE(name, plain, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, \
                    int source, int recvtag, MPI_Comm comm, MPI_Status *status) \
    { \
        struct half h = {.buf = buf, .count = count, .type = datatype}, s = h; \
        if (!typed_buffer_taken(buf, count, datatype, comm) && !half_apart(&s, dest, comm)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            receive_gate_open(source, recvtag, comm); \
            int rc = \
                next->name(buf, count, type_to_receive(datatype, comm), dest, sendtag, source, recvtag, comm, st); \
            receive_gate_close(rc); \
            return replaced(rc, buf, count, datatype, source, comm, st); \
        } \
        return sendrecv((struct forms){.form = next->plain}, &s, dest, sendtag, &h, source, recvtag, comm, status); \
    }

SENDRECV(Sendrecv, small, int)
SENDRECV_REPLACE(Sendrecv_replace, Sendrecv, small, int)
#ifdef HAVE_Sendrecv_c
SENDRECV(Sendrecv_c, large, MPI_Count)
SENDRECV_REPLACE(Sendrecv_replace_c, Sendrecv_c, large, MPI_Count)
#endif
