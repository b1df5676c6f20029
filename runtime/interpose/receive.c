/* receive.c: receives, and those of matched messages. */
#include "base/error.h"
#include "base/log.h"
#include "base/reserve.h"
#include "datatype/byte_types.h"
#include "large_count.h"
#include "node/peer_access.h"
#include "protocol/host_select.h"
#include "request/light_request.h"
#include "request/p2p.h"
#include "request/probed.h"
#include "request/receive_gate.h"

FORMS(recv_forms, void *, int, int, MPI_Comm, MPI_Status *);
FORMS(irecv_forms, void *, int, int, MPI_Comm, MPI_Request *);
FORMS(mrecv_forms, void *, MPI_Message *, MPI_Status *);
FORMS(imrecv_forms, void *, MPI_Message *, MPI_Request *);

/* The end of a blocking receive: unpacks what came, if it came well. w: NULL where the MPI received it into the
 * buffer. */
static int received(struct typed_buffer *p, struct wire *w, MPI_Status *status, int rc, MPI_Comm comm)
{
    if (w) wire_done(w);
    if (rc == MPI_SUCCESS) rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    record_poll();
    return rc;
}

/* Where a receive finds its message: where it is sent to, or where it was put aside. */
struct road {
    bool led;
    struct probed_at at;
};

static struct road road_of(int source, int tag, MPI_Comm comm)
{
    struct road r = {.led = false};
    r.led = source != MPI_PROC_NULL && probed_take(source, tag, comm, &r.at);
    if (r.led) receive_gate_close(MPI_SUCCESS);
    return r;
}

/* The end of posting a nonblocking one. */
static int posted(struct typed_buffer *p, struct wire *w, int rc, MPI_Request *request, MPI_Comm comm,
                  const struct road *road)
{
    if (w) wire_done(w);
    if (rc != MPI_SUCCESS) typed_buffer_close(p);
    else if (road->led) record_add_led(*request, p, &road->at);
    else record_add(*request, p, true, comm);
    return rc;
}

/* Of a receive that the MPI makes itself: what was put aside has a status to be mended. */
static int watched(struct typed_buffer **p, const void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                   MPI_Comm comm, const struct road *road)
{
    int rc = rndv_recv_watch(p, buf, count, datatype, source, comm, false);
    struct layout *l = *p || !road->led || rc != MPI_SUCCESS ? NULL : layout_of(datatype);
    if (!l || (*p = typed_buffer_bare(l, NULL, buf, count))) return rc;
    return raise_error(comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
}

/* Of what the MPI receives into the buffer itself, in a process without a driver. */
static int receive_watched(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                           int tag, MPI_Comm comm, MPI_Status *status)
{
    struct light_request w = light_request_of(buf, count, datatype, comm);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    peer_access_poll();
    int rc = receive_gate_close(DOWN(next, buf, count, datatype, source, tag, comm, s));
    if (rc == MPI_SUCCESS) rc = light_request_done(&w, s);
    record_poll();
    return rc;
}

static int receive_brief(struct recv_forms next, struct layout *l, void *buf, MPI_Count count, int64_t bytes,
                         int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    peer_access_poll();
    int rc = receive_gate_close(DOWN(next, packed, bytes, MPI_BYTE, source, tag, comm, s));
    if (rc == MPI_SUCCESS) rc = p2p_brief(l, buf, count, packed, s, comm);
    record_poll();
    return rc;
}

/* The layout of one of these, and its bytes; else NULL. */
static struct layout *rts_short_of(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm,
                                   int64_t *bytes)
{
    if (!buf || source == MPI_PROC_NULL || probed_any()) return NULL;
    struct layout *l = host_brief(buf, count, datatype, source, bytes);
    return l ? l : host_awaits_short(count, datatype, comm, bytes);
}

static int left(int rc)
{
    record_poll();
    return rc;
}

static int receive(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Status *status)
{
    int64_t bytes;
    if (p2p_ignored(buf, count, datatype))
        return left(receive_gate_close(DOWN(next, buf, count, datatype, source, tag, comm, status)));
    struct layout *brief = rts_short_of(buf, count, datatype, source, comm, &bytes);
    if (brief) return receive_brief(next, brief, buf, count, bytes, source, tag, comm, status);
    if (light_request_wants(count, datatype, source))
        return receive_watched(next, buf, count, datatype, source, tag, comm, status);
    struct typed_buffer *p;
    struct wire w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    bool packed = p2p_awaited(&p, &w, buf, count, datatype, source, comm, &rc);
    if (!packed && rc == MPI_SUCCESS) rc = rndv_recv_watch(&p, buf, count, datatype, source, comm, false);
    if (rc != MPI_SUCCESS) return rc;
    struct road road = road_of(source, tag, comm);   /* last: after an error the message is still there */
    if (packed) {
        rc = road.led ? probed_receive(&road.at, p->address, w.count, w.type, s)
                      : receive_gate_close(DOWN(next, p->address, w.count, w.type, source, tag, comm, s));
        return received(p, &w, s, rc, comm);
    }
    MPI_Datatype type = type_to_receive(datatype, comm);
    rc = road.led ? probed_receive(&road.at, buf, count, type, s)
                  : receive_gate_close(DOWN(next, buf, count, type, source, tag, comm, p ? s : status));
    if (p) return received(p, NULL, s, rc, comm);
    record_poll();
    return rc;
}

/* As receive_watched and receive_brief. */
static int ireceive_watched(struct irecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                            int tag, MPI_Comm comm, MPI_Request *request)
{
    peer_access_poll();
    int rc = receive_gate_close(DOWN(next, buf, count, datatype, source, tag, comm, request));
    if (rc != MPI_SUCCESS || light_request_add(*request, light_request_of(buf, count, datatype, comm))) return rc;
    struct typed_buffer *p;
    rc = rndv_recv_watch(&p, buf, count, datatype, source, comm, false);
    if (rc != MPI_SUCCESS) log_fatal("a receive that has begun can't be watched");
    if (p) record_add(*request, p, true, comm);
    return rc;
}

static int ireceive_brief(struct irecv_forms next, struct layout *l, void *buf, MPI_Count count, struct bounce *b,
                          int64_t bytes, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    peer_access_poll();
    int rc = receive_gate_close(DOWN(next, b->memory, bytes, MPI_BYTE, source, tag, comm, request));
    if (rc == MPI_SUCCESS) light_request_comes(*request, l, buf, count, b, comm);
    else bounce_put(b);
    return rc;
}

static int ireceive(struct irecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                    MPI_Comm comm, MPI_Request *request)
{
    struct typed_buffer *p;
    struct wire w;
    int rc;
    int64_t bytes;
    if (p2p_ignored(buf, count, datatype))
        return receive_gate_close(DOWN(next, buf, count, datatype, source, tag, comm, request));
    struct layout *brief = rts_short_of(buf, count, datatype, source, comm, &bytes);
    struct bounce *b = brief && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) return ireceive_brief(next, brief, buf, count, b, bytes, source, tag, comm, request);
    if (!reserve_low() && light_request_wants(count, datatype, source))
        return ireceive_watched(next, buf, count, datatype, source, tag, comm, request);
    bool packed = p2p_awaited(&p, &w, buf, count, datatype, source, comm, &rc);
    if (rc != MPI_SUCCESS) return rc;
    struct road road = road_of(source, tag, comm);
    if (packed) {
        rc = road.led ? probed_ireceive(&road.at, p->address, w.count, w.type, request)
                      : receive_gate_close(DOWN(next, p->address, w.count, w.type, source, tag, comm, request));
        return posted(p, &w, rc, request, comm, &road);
    }
    rc = watched(&p, buf, count, datatype, source, comm, &road);
    if (rc != MPI_SUCCESS) return rc;
    MPI_Datatype type = type_to_receive(datatype, comm);
    rc = road.led ? probed_ireceive(&road.at, buf, count, type, request)
                  : receive_gate_close(DOWN(next, buf, count, type, source, tag, comm, request));
    return p ? posted(p, NULL, rc, request, comm, &road) : rc;
}

/* A matched message carries its own communicator, which is known of one that lies aside: descriptors do. Other
 * errors of stridec's own are raised on MPI_COMM_SELF. */
static bool matched(struct typed_buffer **p, struct wire *w, void *buf, MPI_Count count, MPI_Datatype datatype,
                    const MPI_Message *message, int *rc)
{
    int source = message && *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE;
    return p2p_awaited(p, w, buf, count, datatype, source, MPI_COMM_SELF, rc);
}

static struct road road_matched(const MPI_Message *message, MPI_Comm *comm)
{
    struct road r = {.led = false};
    r.led = message && probed_matched(*message, &r.at);
    *comm = r.led ? r.at.from_comm : MPI_COMM_SELF;
    return r;
}

static int matched_came(const struct road *road, MPI_Status *status, int rc)
{
    return road->led ? probed_came(&road->at, status, rc) : rc;
}

static int mreceive(struct mrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                    MPI_Status *status)
{
    struct typed_buffer *p;
    struct wire w;
    MPI_Comm comm;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    bool packed = matched(&p, &w, buf, count, datatype, message, &rc);
    if (!packed && rc == MPI_SUCCESS)
        rc = rndv_recv_watch(&p, buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, false);
    if (rc != MPI_SUCCESS) return rc;
    struct road road = road_matched(message, &comm);
    if (packed) {
        rc = matched_came(&road, s, DOWN(next, p->address, w.count, w.type, message, s));
        return received(p, &w, s, rc, comm);
    }
    rc = matched_came(&road, s, DOWN(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, s));
    return p ? received(p, NULL, s, rc, comm) : rc;
}

static int imreceive(struct imrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                     MPI_Request *request)
{
    struct typed_buffer *p;
    struct wire w;
    MPI_Comm comm;
    int rc;
    bool packed = matched(&p, &w, buf, count, datatype, message, &rc);
    if (rc != MPI_SUCCESS) return rc;
    struct road road = road_matched(message, &comm);
    if (packed) return posted(p, &w, DOWN(next, p->address, w.count, w.type, message, request), request, comm, &road);
    rc = watched(&p, buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, &road);
    if (rc != MPI_SUCCESS) return rc;
    rc = DOWN(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, request);
    return p ? posted(p, NULL, rc, request, comm, &road) : rc;
}

/*
 * The calls: `form` is that of `name`, `number` its counts.
 */

#define RECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Status *status) \
    { \
        receive_gate_open(source, tag, comm); \
        return receive_gate_close( \
            receive((struct recv_forms){.form = next->name}, buf, count, datatype, source, tag, comm, status)); \
    }
#define IRECV(name, form, number) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        receive_gate_open(source, tag, comm); \
        return receive_gate_close( \
            ireceive((struct irecv_forms){.form = next->name}, buf, count, datatype, source, tag, comm, request)); \
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

#define RECEIVES(c, form, number) \
    RECV(Recv##c, form, number) \
    IRECV(Irecv##c, form, number) \
    MRECV(Mrecv##c, form, number) \
    IMRECV(Imrecv##c, form, number)

EACH_FORM(RECEIVES)
