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
    struct parcel *parcel;
    struct parcel *watch;   /* or this, of a receive that the MPI makes itself */
    struct offer *offer;    /* or this, of a send */
    struct outflow *outflow;   /* or this; then that, when its descriptor is under way by `told` */
    struct outflow *flown;
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
    struct leaving l;
    if (h->parcel) return MPI_SUCCESS;
    if (!message_leaves(&l, h->offers ? LEAVES_LATER : LEAVES_BUFFERED, h->buf, h->count, h->type, dest, comm, &rc))
        return rc;
    h->offer = l.offer, h->outflow = l.outflow, h->parcel = l.parcel, h->wire = l.wire;
    if (h->parcel) half_parcel(h);
    if (!h->offer) return rc;
    h->buf = (void *)(uintptr_t)offer_descriptor(h->offer), h->count = offer_descriptor_count(h->offer, &h->type);
    offer_feed(h->offer);   /* what is to be received may have to wait for it */
    return rc;
}

/* What is to be replaced, in host memory, is packed where that beats the MPI's engine: a plain exchange does. */
static bool half_replaces(struct half *h, int dest, MPI_Comm comm)
{
    struct layout *l = dest == MPI_PROC_NULL ? NULL : host_sends(h->buf, h->count, h->type, comm);
    if (!l || !(h->parcel = host_packs(l, h->buf, h->count))) return false;
    if (wire_of(h->parcel->bytes, &h->wire) == MPI_SUCCESS) return half_parcel(h), true;
    parcel_close(h->parcel);
    h->parcel = NULL;
    return false;
}

/* The same by the MPI's engine, where a message lies aside (probed.h): it may be the one that replaces, and the
 * MPI's own call would wait for it. So it may where receives show themselves (receive_gate.h). */
static bool half_copies(struct half *h, MPI_Comm comm)
{
    int room = 0, position = 0;
    MPI_Count size = 0;
    if ((!aside_any() && !gate_on()) || PMPI_Type_size_x(h->type, &size) != MPI_SUCCESS) return false;
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
    if (message_awaited(&h->parcel, &h->wire, h->buf, h->count, h->type, source, comm, &rc)) half_parcel(h);
    if (rc != MPI_SUCCESS || h->parcel) return rc;
    rc = pull_watch(&h->watch, h->buf, h->count, h->type, source, comm, false);
    h->type = type_to_receive(h->type, comm);
    return rc;
}

static void half_close(struct half *h)
{
    if (h->parcel) wire_done(&h->wire);
    parcel_close(h->parcel), parcel_close(h->watch);
    if (h->offer) offer_withdraw(h->offer);
    if (h->outflow) outflow_withdraw(h->outflow);
    free(h->copy);
}

/* A send in chunks is all the MPI's before the receive is waited for: what is to be received may have to wait for
 * it. The exchange itself then sends to nobody. */
static int half_flow(struct half *h, int *dest, int tag, MPI_Comm comm)
{
    if (!h->outflow) return MPI_SUCCESS;
    int rc = PMPI_Isend(outflow_descriptor(h->outflow), DESCRIPTOR_BYTES, MPI_BYTE, *dest, tag, comm, &h->told);
    if (rc != MPI_SUCCESS) return rc;
    h->flown = h->outflow, h->outflow = NULL;
    *dest = MPI_PROC_NULL;
    return outflow_feed(h->flown) ? raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed") : rc;
}

static void half_flown(struct half *h)
{
    if (!h->flown) return;
    PMPI_Wait(&h->told, MPI_STATUS_IGNORE);
    outflow_end(h->flown);
}

static int receive_down(struct half *r, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
#ifdef HAVE_Recv_c
    return gate_close(PMPI_Recv_c(r->buf, r->count, r->type, source, tag, comm, status));
#else
    return gate_close(PMPI_Recv(r->buf, (int)r->count, r->type, source, tag, comm, status));
#endif
}

/* A send and a receive of their own, from where the message lies aside, or, with NULL, from the MPI: a gate that
 * stays open while the send waits for its receiver would keep other threads' probes from what this receive does not
 * want any more. */
static int exchange_apart(struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                          const struct aside_at *at, MPI_Comm comm, MPI_Status *status)
{
    MPI_Request request;
#ifdef HAVE_Isend_c
    int rc = PMPI_Isend_c(s->buf, s->count, s->type, dest, sendtag, comm, &request);
#else
    int rc = PMPI_Isend(s->buf, (int)s->count, s->type, dest, sendtag, comm, &request);
#endif
    if (rc != MPI_SUCCESS) return gate_close(rc);
    rc = at ? aside_receive(at, r->buf, r->count, r->type, status) : receive_down(r, source, recvtag, comm, status);
    int ended = PMPI_Wait(&request, MPI_STATUS_IGNORE);
    return rc == MPI_SUCCESS ? ended : rc;
}

static int exchange_down(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source,
                         int recvtag, MPI_Comm comm, MPI_Status *st)
{
    if (gate_on()) return exchange_apart(s, dest, sendtag, r, source, recvtag, NULL, comm, st);
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
    struct aside_at at;
    gate_open(source, recvtag, comm);   /* open already, but for an exchange that replaces */
    bool led = source != MPI_PROC_NULL && aside_take(source, recvtag, comm, &at);
    if (led) gate_close(MPI_SUCCESS);
    int rc = led ? exchange_apart(s, dest, sendtag, r, source, recvtag, &at, comm, st)
                 : exchange_down(next, s, dest, sendtag, r, source, recvtag, comm, st);
    struct parcel *p = r->parcel ? r->parcel : r->watch;
    if (rc != MPI_SUCCESS && !finder_truncated(rc)) return rc;   /* such a one was sent */
    if (p && rc == MPI_SUCCESS) rc = message_arrived(p, st, comm);
    if (s->offer && offer_end(s->offer) && rc == MPI_SUCCESS)
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
    attach_poll();
    int rc = exchange_down(next, &to, dest, sendtag, &from, source, recvtag, comm, st);
    if (rc == MPI_SUCCESS) rc = message_brief(unpacks, r->buf, r->count, comes, st, comm);
    record_poll();
    return rc;
}

static int sendrecv(struct forms next, struct half *s, int dest, int sendtag, struct half *r, int source, int recvtag,
                    MPI_Comm comm, MPI_Status *status)
{
    int64_t out, in;
    struct layout *packs = s->offers ? host_brief(s->buf, s->count, s->type, dest, &out) : NULL;
    struct layout *unpacks =
        packs && !aside_any() && !gate_on() ? host_brief(r->buf, r->count, r->type, source, &in) : NULL;
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

/* Both are the MPI's own, as message_ignored. */
static inline bool both_ignored(const struct half *s, const struct half *r)
{
    if (!message_ignored(r->buf, r->count, r->type)) return false;
    return driver_absent() ? seen_send_ignores(s->type, s->count) : host_message(s->buf, s->type);
}

static inline int left(int rc)
{
    record_poll();
    return rc;
}

/* After an exchange that the MPI made itself, of a receive that light_request.h is for, */
static inline int watched(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Comm comm, MPI_Status *status)
{
    struct watch w = watch_of(buf, count, datatype, comm);
    if (rc == MPI_SUCCESS) rc = watch_done(&w, status);
    record_poll();
    return rc;
}

/* or of any. */
static int replaced(int rc, void *buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                    MPI_Status *status)
{
    if (watch_wants(count, datatype, source)) return watched(rc, buf, count, datatype, comm, status);
    struct parcel *p = NULL;
    if (rc == MPI_SUCCESS) rc = pull_watch(&p, buf, count, datatype, source, comm, false);
    if (p) rc = message_arrived(p, status, comm);
    parcel_close(p);
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
        gate_open(source, recvtag, comm); \
        if (both_ignored(&s, &r)) return left(exchange_down(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
        if (driver_absent() && seen_send_ignores(sendtype, sendcount) && watch_wants(recvcount, recvtype, source)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            attach_poll(); \
            int rc = exchange_down(down, &s, dest, sendtag, &r, source, recvtag, comm, st); \
            return watched(rc, recvbuf, recvcount, recvtype, comm, st); \
        } \
        return gate_close(sendrecv(down, &s, dest, sendtag, &r, source, recvtag, comm, status)); \
    }
/* With a parcel the packed copy is apart from the buffer anyway, so that a plain exchange does. */
#define SENDRECV_REPLACE(name, plain, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int dest, int sendtag, \
                    int source, int recvtag, MPI_Comm comm, MPI_Status *status) \
    { \
        struct half h = {.buf = buf, .count = count, .type = datatype}, s = h; \
        if (!parcel_taken(buf, count, datatype, comm) && !half_apart(&s, dest, comm)) { \
            MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status; \
            gate_open(source, recvtag, comm); \
            int rc = next->name(buf, count, type_to_receive(datatype, comm), dest, sendtag, source, recvtag, comm, st); \
            gate_close(rc); \
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
