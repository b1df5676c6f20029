/* calls_p2p.c: point-to-point calls. What a parcel does not take goes down as it came. */
#include "next.h"
#include "request.h"

typedef int send_call(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int isend_call(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Opens a parcel for buf and packs it. True if the call is to go on with it; else *rc says how it ended,
 * or, where *rc is MPI_SUCCESS, the call goes down. */
static bool packed(struct parcel **p, const void *buf, int count, MPI_Datatype datatype, int dest, MPI_Comm comm,
                   int *rc)
{
    *p = NULL;
    *rc = dest == MPI_PROC_NULL ? MPI_SUCCESS : parcel_open(p, buf, count, datatype, dest, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = parcel_pack(*p, comm);
    if (*rc == MPI_SUCCESS && *p) return true;
    parcel_close(*p);
    return false;
}

static int send(send_call *down, const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    struct parcel *p;
    struct wire w;
    int rc;
    if (!packed(&p, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : down(buf, count, datatype, dest, tag, comm);
    rc = wire_of(p->bytes, &w);
    if (rc == MPI_SUCCESS) {
        rc = down(p->address, w.count, w.type, dest, tag, comm);
        wire_done(&w);
    }
    parcel_close(p);
    return rc;
}

/* A send that is over already (eager, buffered) gives its buffers back at once and needs no record. */
static void keep_until_sent(MPI_Request request, struct parcel *p)
{
    int sent = 0;
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (sent) parcel_close(p);
    else record_add(request, p, false);
}

static int isend(isend_call *down, const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                 MPI_Request *request)
{
    struct parcel *p;
    struct wire w;
    int rc;
    if (!packed(&p, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : down(buf, count, datatype, dest, tag, comm, request);
    rc = wire_of(p->bytes, &w);
    if (rc == MPI_SUCCESS) {
        rc = down(p->address, w.count, w.type, dest, tag, comm, request);
        wire_done(&w);
    }
    if (rc == MPI_SUCCESS) keep_until_sent(*request, p);
    else parcel_close(p);
    return rc;
}

#define SEND(name) \
    int call_##name(const struct next *next, const void *buf, int count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm) \
    { \
        return send(next->name, buf, count, datatype, dest, tag, comm); \
    }
#define ISEND(name) \
    int call_##name(const struct next *next, const void *buf, int count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        return isend(next->name, buf, count, datatype, dest, tag, comm, request); \
    }
SEND(Send)
SEND(Ssend)
SEND(Rsend)
SEND(Bsend)
ISEND(Isend)
ISEND(Issend)
ISEND(Irsend)
ISEND(Ibsend)

/* A parcel and its wire type for a receive. True if the call goes on with them; else as for packed(). */
static bool awaited(struct parcel **p, struct wire *w, void *buf, int count, MPI_Datatype datatype, int source,
                    MPI_Comm comm, int *rc)
{
    *p = NULL;
    *rc = source == MPI_PROC_NULL ? MPI_SUCCESS : parcel_open(p, buf, count, datatype, source, comm);
    if (*rc == MPI_SUCCESS && *p) *rc = wire_of((*p)->bytes, w);
    if (*rc == MPI_SUCCESS && *p) return true;
    parcel_close(*p);
    return false;
}

/* The end of a blocking receive: unpacks what came, if it came well. */
static int received(struct parcel *p, struct wire *w, const MPI_Status *status, int rc, MPI_Comm comm)
{
    wire_done(w);
    if (rc == MPI_SUCCESS) rc = parcel_unpack(p, wire_received(status), comm);
    parcel_close(p);
    record_poll();
    return rc;
}

/* The end of posting a nonblocking one. */
static int posted(struct parcel *p, struct wire *w, int rc, MPI_Request *request)
{
    wire_done(w);
    if (rc == MPI_SUCCESS) record_add(*request, p, true);
    else parcel_close(p);
    return rc;
}

int call_Recv(const struct next *next, void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Status *status)
{
    struct parcel *p;
    struct wire w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    if (!awaited(&p, &w, buf, count, datatype, source, comm, &rc)) {
        if (rc == MPI_SUCCESS) rc = next->Recv(buf, count, datatype, source, tag, comm, status);
        record_poll();
        return rc;
    }
    rc = next->Recv(p->address, w.count, w.type, source, tag, comm, s);
    return received(p, &w, s, rc, comm);
}

int call_Irecv(const struct next *next, void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    struct parcel *p;
    struct wire w;
    int rc;
    if (!awaited(&p, &w, buf, count, datatype, source, comm, &rc))
        return rc != MPI_SUCCESS ? rc : next->Irecv(buf, count, datatype, source, tag, comm, request);
    rc = next->Irecv(p->address, w.count, w.type, source, tag, comm, request);
    return posted(p, &w, rc, request);
}

/* A matched message carries its own communicator; errors of stridec's own are raised on MPI_COMM_SELF. */
int call_Mrecv(const struct next *next, void *buf, int count, MPI_Datatype datatype, MPI_Message *message,
               MPI_Status *status)
{
    struct parcel *p;
    struct wire w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int source = message && *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE, rc;
    if (!awaited(&p, &w, buf, count, datatype, source, MPI_COMM_SELF, &rc))
        return rc != MPI_SUCCESS ? rc : next->Mrecv(buf, count, datatype, message, status);
    rc = next->Mrecv(p->address, w.count, w.type, message, s);
    return received(p, &w, s, rc, MPI_COMM_SELF);
}

int call_Imrecv(const struct next *next, void *buf, int count, MPI_Datatype datatype, MPI_Message *message,
                MPI_Request *request)
{
    struct parcel *p;
    struct wire w;
    int source = message && *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE, rc;
    if (!awaited(&p, &w, buf, count, datatype, source, MPI_COMM_SELF, &rc))
        return rc != MPI_SUCCESS ? rc : next->Imrecv(buf, count, datatype, message, request);
    rc = next->Imrecv(p->address, w.count, w.type, message, request);
    return posted(p, &w, rc, request);
}

/* Either side of a Sendrecv may be the MPI's own: `s` and `r` stand for both kinds. */
struct half {
    struct parcel *parcel;
    struct wire wire;
    const void *buf;
};

static void half_native(struct half *h, const void *buf, int count, MPI_Datatype datatype)
{
    h->buf = buf;
    h->wire = (struct wire){count, datatype};
}

static int half_send(struct half *h, const void *buf, int count, MPI_Datatype datatype, int dest, MPI_Comm comm)
{
    int rc;
    if (!packed(&h->parcel, buf, count, datatype, dest, comm, &rc)) {
        h->parcel = NULL;
        half_native(h, buf, count, datatype);
        return rc;
    }
    h->buf = h->parcel->address;
    return wire_of(h->parcel->bytes, &h->wire);
}

static int half_receive(struct half *h, void *buf, int count, MPI_Datatype datatype, int source, MPI_Comm comm)
{
    int rc;
    if (awaited(&h->parcel, &h->wire, buf, count, datatype, source, comm, &rc)) {
        h->buf = h->parcel->address;
    } else {
        h->parcel = NULL;
        half_native(h, buf, count, datatype);
    }
    return rc;
}

static void half_close(struct half *h)
{
    if (!h->parcel) return;
    wire_done(&h->wire);
    parcel_close(h->parcel);
}

static int exchange(const struct next *next, struct half *s, int dest, int sendtag, struct half *r, int source,
                    int recvtag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own, *st = status == MPI_STATUS_IGNORE ? &own : status;
    int rc = next->Sendrecv(s->buf, s->wire.count, s->wire.type, dest, sendtag, (void *)r->buf, r->wire.count,
                            r->wire.type, source, recvtag, comm, st);
    if (rc == MPI_SUCCESS && r->parcel) rc = parcel_unpack(r->parcel, wire_received(st), comm);
    return rc;
}

int call_Sendrecv(const struct next *next, const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
                  int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                  MPI_Comm comm, MPI_Status *status)
{
    struct half s = {0}, r = {0};
    int rc = half_send(&s, sendbuf, sendcount, sendtype, dest, comm);
    if (rc == MPI_SUCCESS) rc = half_receive(&r, recvbuf, recvcount, recvtype, source, comm);
    if (rc == MPI_SUCCESS) rc = exchange(next, &s, dest, sendtag, &r, source, recvtag, comm, status);
    half_close(&s), half_close(&r);
    record_poll();
    return rc;
}

/* With a parcel the packed copy is apart from the buffer anyway, so that a plain exchange does. */
int call_Sendrecv_replace(const struct next *next, void *buf, int count, MPI_Datatype datatype, int dest, int sendtag,
                          int source, int recvtag, MPI_Comm comm, MPI_Status *status)
{
    if (!parcel_taken(buf, count, datatype, comm))
        return next->Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
    return call_Sendrecv(next, buf, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                         status);
}
