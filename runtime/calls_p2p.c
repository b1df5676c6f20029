/* calls_p2p.c: sends and receives. What a parcel does not take goes down as it came. */
#include "aside.h"
#include "attach.h"
#include "host_message.h"
#include "message.h"
#include "next.h"
#include "offer.h"
#include "outflow.h"
#include "watch.h"
#include "write_type.h"

/* The way down: MPI_X, or MPI_X_c for a call that came in by that one. */
#define FORMS(name, buffer, ...) \
    struct name { \
        int (*small)(buffer, int, MPI_Datatype, __VA_ARGS__); \
        int (*large)(buffer, MPI_Count, MPI_Datatype, __VA_ARGS__); \
    }
#define DOWN(forms, buf, count, ...) \
    ((forms).large ? (forms).large(buf, count, __VA_ARGS__) : (forms).small(buf, (int)(count), __VA_ARGS__))

FORMS(send_forms, const void *, int, int, MPI_Comm);
FORMS(isend_forms, const void *, int, int, MPI_Comm, MPI_Request *);
FORMS(recv_forms, void *, int, int, MPI_Comm, MPI_Status *);
FORMS(irecv_forms, void *, int, int, MPI_Comm, MPI_Request *);
FORMS(mrecv_forms, void *, MPI_Message *, MPI_Status *);
FORMS(imrecv_forms, void *, MPI_Message *, MPI_Request *);

/* The end of a blocking send of a descriptor. */
static int offered(struct offer *o, int rc, MPI_Comm comm)
{
    if (rc != MPI_SUCCESS) return offer_withdraw(o), rc;
    rc = offer_end(o) ? raise_error(comm, MPI_ERR_OTHER, "a message was not received") : MPI_SUCCESS;
    record_poll();
    return rc;
}

/* The end of a blocking send of the descriptor of a message in chunks. */
static int flowed(struct outflow *o, int rc, MPI_Comm comm)
{
    if (rc != MPI_SUCCESS) return outflow_withdraw(o), rc;
    if (outflow_feed(o)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    outflow_end(o);
    record_poll();
    return rc;
}

static int send_brief(struct send_forms next, const struct layout *l, const void *buf, int64_t count, int64_t bytes, int dest,
                      int tag, MPI_Comm comm)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    host_brief_leaves(l, buf, count, packed, bytes);
    return DOWN(next, packed, bytes, MPI_BYTE, dest, tag, comm);
}

static int send(struct send_forms next, bool offers, const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm)
{
    struct leaving l;
    int rc;
    int64_t bytes;
    struct layout *brief = offers ? host_brief(datatype, count, &bytes) : NULL;
    if (brief) return send_brief(next, brief, buf, count, bytes, dest, tag, comm);
    if (!message_leaves(&l, offers ? LEAVES_BLOCKING : LEAVES_BUFFERED, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : DOWN(next, buf, count, datatype, dest, tag, comm);
    if (l.offer) {
        count = offer_descriptor_count(l.offer, &datatype);
        rc = DOWN(next, offer_descriptor(l.offer), count, datatype, dest, tag, comm);
        return offered(l.offer, rc, comm);
    }
    if (l.outflow) {
        rc = DOWN(next, outflow_descriptor(l.outflow), DESCRIPTOR_BYTES, MPI_BYTE, dest, tag, comm);
        return flowed(l.outflow, rc, comm);
    }
    rc = DOWN(next, l.parcel->address, l.wire.count, l.wire.type, dest, tag, comm);
    wire_done(&l.wire);
    parcel_close(l.parcel);
    return rc;
}

/* The same of a nonblocking one. */
static int flowing(struct outflow *o, int rc, MPI_Comm comm, MPI_Request request)
{
    int sent = 0;
    if (rc != MPI_SUCCESS) return outflow_withdraw(o), rc;
    if (outflow_feed(o)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (!sent) record_add_outflow(request, o);
    outflow_leave(o);
    return rc;
}

static int isend_brief(struct isend_forms next, struct layout *l, const void *buf, int64_t count, struct block *b, int64_t bytes,
                       int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    host_brief_leaves(l, buf, count, b->memory, bytes);
    int rc = DOWN(next, b->memory, bytes, MPI_BYTE, dest, tag, comm, request);
    if (rc == MPI_SUCCESS) watch_leaves(*request, l, count, b);
    else block_put(b);
    return rc;
}

static int isend(struct isend_forms next, bool offers, const void *buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                 MPI_Comm comm, MPI_Request *request)
{
    struct leaving l;
    int rc;
    int64_t bytes;
    struct layout *brief = offers ? host_brief(datatype, count, &bytes) : NULL;
    struct block *b = brief ? block_get(bytes) : NULL;
    if (b) return isend_brief(next, brief, buf, count, b, bytes, dest, tag, comm, request);
    if (!message_leaves(&l, offers ? LEAVES_LATER : LEAVES_BUFFERED, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : DOWN(next, buf, count, datatype, dest, tag, comm, request);
    if (l.offer) {
        count = offer_descriptor_count(l.offer, &datatype);
        rc = DOWN(next, offer_descriptor(l.offer), count, datatype, dest, tag, comm, request);
        if (rc != MPI_SUCCESS) offer_withdraw(l.offer);
        else if (record_add_offer(request, l.offer)) rc = raise_error(comm, MPI_ERR_OTHER, "a message was not received");
        return rc;
    }
    if (l.outflow) {
        rc = DOWN(next, outflow_descriptor(l.outflow), DESCRIPTOR_BYTES, MPI_BYTE, dest, tag, comm, request);
        return flowing(l.outflow, rc, comm, rc == MPI_SUCCESS ? *request : MPI_REQUEST_NULL);
    }
    rc = DOWN(next, l.parcel->address, l.wire.count, l.wire.type, dest, tag, comm, request);
    wire_done(&l.wire);
    if (rc == MPI_SUCCESS) message_sent(*request, l.parcel);
    else parcel_close(l.parcel);
    return rc;
}

/* The end of a blocking receive: unpacks what came, if it came well. w: NULL where the MPI received it into the buffer. */
static int received(struct parcel *p, struct wire *w, MPI_Status *status, int rc, MPI_Comm comm)
{
    if (w) wire_done(w);
    if (rc == MPI_SUCCESS) rc = message_arrived(p, status, comm);
    parcel_close(p);
    record_poll();
    return rc;
}

/* Where a receive finds its message: where it is sent to, or where it was put aside. */
struct road {
    int source, tag;
    MPI_Comm comm;
    bool led;
    struct aside_at at;
};

static struct road road_of(int source, int tag, MPI_Comm comm)
{
    struct road r = {.source = source, .tag = tag, .comm = comm};
    if (source == MPI_PROC_NULL || !aside_take(source, tag, comm, &r.at)) return r;
    r.led = true, r.source = 0, r.tag = r.at.tag, r.comm = r.at.comm;
    return r;
}

/* The end of posting a nonblocking one. */
static int posted(struct parcel *p, struct wire *w, int rc, MPI_Request *request, const struct road *road)
{
    if (w) wire_done(w);
    if (rc != MPI_SUCCESS) parcel_close(p);
    else if (road->led) record_add_led(*request, p, &road->at);
    else record_add(*request, p, true);
    return rc;
}

/* Of a receive that the MPI makes itself: what was put aside has a status to be mended. */
static struct parcel *watched(const void *buf, MPI_Count count, MPI_Datatype datatype, int source, MPI_Comm comm,
                              const struct road *road)
{
    struct parcel *p = pull_watch(buf, count, datatype, source, comm, false);
    struct layout *l = p || !road->led ? NULL : layout_of(datatype);
    return l ? parcel_bare(l, NULL, buf, count) : p;
}

/* Of what the MPI receives into the buffer itself, in a process without a driver. */
static int receive_watched(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                           MPI_Comm comm, MPI_Status *status)
{
    struct watch w = watch_of(buf, count, datatype);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    attach_poll();
    int rc = DOWN(next, buf, count, datatype, source, tag, comm, s);
    if (rc == MPI_SUCCESS) rc = watch_done(&w, s, comm);
    record_poll();
    return rc;
}

static int receive_brief(struct recv_forms next, struct layout *l, void *buf, MPI_Count count, int64_t bytes, int source,
                         int tag, MPI_Comm comm, MPI_Status *status)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    attach_poll();
    int rc = DOWN(next, packed, bytes, MPI_BYTE, source, tag, comm, s);
    if (rc == MPI_SUCCESS) rc = message_brief(l, buf, count, packed, s, comm);
    record_poll();
    return rc;
}

static int receive(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Status *status)
{
    int64_t bytes;
    struct layout *brief = aside_any() ? NULL : host_brief(datatype, count, &bytes);
    if (brief) return receive_brief(next, brief, buf, count, bytes, source, tag, comm, status);
    if (watch_wants(count, datatype, source)) return receive_watched(next, buf, count, datatype, source, tag, comm, status);
    struct parcel *p;
    struct wire w;
    struct road road = road_of(source, tag, comm);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    if (message_awaited(&p, &w, buf, count, datatype, source, comm, &rc)) {
        rc = DOWN(next, p->address, w.count, w.type, road.source, road.tag, road.comm, s);
        rc = received(p, &w, s, rc, comm);
    } else if (rc == MPI_SUCCESS) {
        p = pull_watch(buf, count, datatype, source, comm, false);
        rc = DOWN(next, buf, count, type_to_receive(datatype, comm), road.source, road.tag, road.comm,
                  p || road.led ? s : status);
        if (p) rc = received(p, NULL, s, rc, comm);
        else record_poll();
    }
    if (road.led) aside_fix(&road.at, s);
    return rc;
}

static int ireceive(struct irecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                    MPI_Comm comm, MPI_Request *request)
{
    struct parcel *p;
    struct wire w;
    int rc;
    int64_t bytes;
    struct layout *brief = aside_any() || source == MPI_PROC_NULL ? NULL : host_brief(datatype, count, &bytes);
    struct block *b = brief ? block_get(bytes) : NULL;
    if (b) {
        attach_poll();
        rc = DOWN(next, b->memory, bytes, MPI_BYTE, source, tag, comm, request);
        if (rc == MPI_SUCCESS) watch_comes(*request, brief, buf, count, b);
        else block_put(b);
        return rc;
    }
    if (watch_wants(count, datatype, source)) {
        attach_poll();
        rc = DOWN(next, buf, count, datatype, source, tag, comm, request);
        if (rc != MPI_SUCCESS || watch_add(*request, watch_of(buf, count, datatype))) return rc;
        p = pull_watch(buf, count, datatype, source, comm, false);
        if (p) record_add(*request, p, true);
        return rc;
    }
    struct road road = road_of(source, tag, comm);
    if (message_awaited(&p, &w, buf, count, datatype, source, comm, &rc)) {
        rc = DOWN(next, p->address, w.count, w.type, road.source, road.tag, road.comm, request);
        return posted(p, &w, rc, request, &road);
    }
    if (rc != MPI_SUCCESS) return rc;
    p = watched(buf, count, datatype, source, comm, &road);
    rc = DOWN(next, buf, count, type_to_receive(datatype, comm), road.source, road.tag, road.comm, request);
    return p ? posted(p, NULL, rc, request, &road) : rc;
}

/* A matched message carries its own communicator; errors of stridec's own are raised on MPI_COMM_SELF. */
static bool matched(struct parcel **p, struct wire *w, void *buf, MPI_Count count, MPI_Datatype datatype,
                    const MPI_Message *message, int *rc)
{
    int source = message && *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE;
    return message_awaited(p, w, buf, count, datatype, source, MPI_COMM_SELF, rc);
}

static int mreceive(struct mrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                    MPI_Status *status)
{
    struct parcel *p;
    struct wire w;
    struct road road = {.led = message && aside_matched(*message, &road.at)};
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    if (matched(&p, &w, buf, count, datatype, message, &rc)) {
        rc = received(p, &w, s, DOWN(next, p->address, w.count, w.type, message, s), MPI_COMM_SELF);
    } else if (rc == MPI_SUCCESS) {
        p = pull_watch(buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, false);
        rc = DOWN(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, s);
        if (p) rc = received(p, NULL, s, rc, MPI_COMM_SELF);
    }
    if (road.led) aside_fix(&road.at, s);
    return rc;
}

static int imreceive(struct imrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                     MPI_Request *request)
{
    struct parcel *p;
    struct wire w;
    struct road road = {.led = message && aside_matched(*message, &road.at)};
    int rc;
    if (matched(&p, &w, buf, count, datatype, message, &rc))
        return posted(p, &w, DOWN(next, p->address, w.count, w.type, message, request), request, &road);
    if (rc != MPI_SUCCESS) return rc;
    p = watched(buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, &road);
    rc = DOWN(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, request);
    return p ? posted(p, NULL, rc, request, &road) : rc;
}

/*
 * The calls: `form` is that of `name`, `number` its counts; what is buffered is never offered.
 */

#define SEND(name, form, number, offers) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm) \
    { \
        return send((struct send_forms){.form = next->name}, offers, buf, count, datatype, dest, tag, comm); \
    }
#define ISEND(name, form, number, offers) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        return isend((struct isend_forms){.form = next->name}, offers, buf, count, datatype, dest, tag, comm, request); \
    }
#define RECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Status *status) \
    { \
        return receive((struct recv_forms){.form = next->name}, buf, count, datatype, source, tag, comm, status); \
    }
#define IRECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        return ireceive((struct irecv_forms){.form = next->name}, buf, count, datatype, source, tag, comm, request); \
    }
#define MRECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, MPI_Message *message, \
                    MPI_Status *status) \
    { \
        return mreceive((struct mrecv_forms){.form = next->name}, buf, count, datatype, message, status); \
    }
#define IMRECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, MPI_Message *message, \
                    MPI_Request *request) \
    { \
        return imreceive((struct imrecv_forms){.form = next->name}, buf, count, datatype, message, request); \
    }

SEND(Send, small, int, true)
SEND(Ssend, small, int, true)
SEND(Rsend, small, int, true)
SEND(Bsend, small, int, false)
ISEND(Isend, small, int, true)
ISEND(Issend, small, int, true)
ISEND(Irsend, small, int, true)
ISEND(Ibsend, small, int, false)
RECV(Recv, small, int)
IRECV(Irecv, small, int)
MRECV(Mrecv, small, int)
IMRECV(Imrecv, small, int)

#ifdef HAVE_Send_c   /* they came with MPI-4.0, all at once */
SEND(Send_c, large, MPI_Count, true)
SEND(Ssend_c, large, MPI_Count, true)
SEND(Rsend_c, large, MPI_Count, true)
SEND(Bsend_c, large, MPI_Count, false)
ISEND(Isend_c, large, MPI_Count, true)
ISEND(Issend_c, large, MPI_Count, true)
ISEND(Irsend_c, large, MPI_Count, true)
ISEND(Ibsend_c, large, MPI_Count, false)
RECV(Recv_c, large, MPI_Count)
IRECV(Irecv_c, large, MPI_Count)
MRECV(Mrecv_c, large, MPI_Count)
IMRECV(Imrecv_c, large, MPI_Count)
#endif
