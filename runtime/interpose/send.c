/* send.c: sends. What is not stridec's goes down as it came. */
#include "base/error.h"
#include "base/reserve.h"
#include "large_count.h"
#include "protocol/host_select.h"
#include "protocol/pipeline_send.h"
#include "protocol/rndv_send.h"
#include "protocol/rts.h"
#include "request/light_request.h"
#include "request/p2p.h"

FORMS(send_forms, const void *, int, int, MPI_Comm);
FORMS(isend_forms, const void *, int, int, MPI_Comm, MPI_Request *);

/* The end of a blocking send of a descriptor. */
static int offered(struct rndv_send *o, int rc, MPI_Comm comm)
{
    if (rc != MPI_SUCCESS) return rndv_send_withdraw(o), rc;
    rc = rndv_send_end(o) ? raise_error(comm, MPI_ERR_OTHER, "a message was not received") : MPI_SUCCESS;
    record_poll();
    return rc;
}

/* The end of a blocking send of the descriptor of a message in chunks. */
static int flowed(struct pipeline_send *o, int rc, MPI_Comm comm)
{
    if (rc != MPI_SUCCESS) return pipeline_send_withdraw(o), rc;
    if (pipeline_send_feed(o)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    pipeline_send_end(o);
    record_poll();
    return rc;
}

static int send_brief(struct send_forms next, const struct layout *l, const void *buf, int64_t count, int64_t bytes,
                      int dest, int tag, MPI_Comm comm)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    host_brief_leaves(l, buf, count, packed, bytes);
    return DOWN(next, packed, bytes, MPI_BYTE, dest, tag, comm);
}

static int send(struct send_forms next, enum leaves how, const void *buf, MPI_Count count, MPI_Datatype datatype,
                int dest, int tag, MPI_Comm comm)
{
    struct send_op l;
    int rc;
    int64_t bytes;
    struct layout *brief = how != LEAVES_BUFFERED ? host_brief(buf, count, datatype, dest, &bytes) : NULL;
    if (brief) return send_brief(next, brief, buf, count, bytes, dest, tag, comm);
    if (!p2p_leaves(&l, how, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : DOWN(next, buf, count, datatype, dest, tag, comm);
    if (l.offer) {
        count = rndv_send_descriptor_count(l.offer, &datatype);
        rc = DOWN(next, rndv_send_descriptor(l.offer), count, datatype, dest, tag, comm);
        return offered(l.offer, rc, comm);
    }
    if (l.outflow) {
        rc = DOWN(next, pipeline_send_descriptor(l.outflow), RTS_BYTES, MPI_BYTE, dest, tag, comm);
        return flowed(l.outflow, rc, comm);
    }
    rc = DOWN(next, l.parcel->address, l.wire.count, l.wire.type, dest, tag, comm);
    wire_done(&l.wire);
    typed_buffer_close(l.parcel);
    return rc;
}

/* The same of a nonblocking one. */
static int flowing(struct pipeline_send *o, int rc, MPI_Comm comm, MPI_Request request)
{
    int sent = 0;
    if (rc != MPI_SUCCESS) return pipeline_send_withdraw(o), rc;
    if (pipeline_send_feed(o)) rc = raise_error(comm, MPI_ERR_OTHER, "packing on the GPU failed");
    PMPI_Request_get_status(request, &sent, MPI_STATUS_IGNORE);
    if (!sent) record_add_outflow(request, o);
    pipeline_send_leave(o);
    return rc;
}

static int isend_brief(struct isend_forms next, struct layout *l, const void *buf, int64_t count, struct bounce *b,
                       int64_t bytes, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    host_brief_leaves(l, buf, count, b->memory, bytes);
    int rc = DOWN(next, b->memory, bytes, MPI_BYTE, dest, tag, comm, request);
    if (rc == MPI_SUCCESS) light_request_leaves(*request, l, count, b);
    else bounce_put(b);
    return rc;
}

static int isend(struct isend_forms next, enum leaves how, const void *buf, MPI_Count count, MPI_Datatype datatype,
                 int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct send_op l;
    int rc;
    int64_t bytes;
    struct layout *brief = how != LEAVES_BUFFERED ? host_brief(buf, count, datatype, dest, &bytes) : NULL;
    struct bounce *b = brief && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) return isend_brief(next, brief, buf, count, b, bytes, dest, tag, comm, request);
    if (!p2p_leaves(&l, how, buf, count, datatype, dest, comm, &rc))
        return rc != MPI_SUCCESS ? rc : DOWN(next, buf, count, datatype, dest, tag, comm, request);
    if (l.offer) {
        count = rndv_send_descriptor_count(l.offer, &datatype);
        rc = DOWN(next, rndv_send_descriptor(l.offer), count, datatype, dest, tag, comm, request);
        if (rc != MPI_SUCCESS) rndv_send_withdraw(l.offer);
        else if (record_add_offer(request, l.offer))
            rc = raise_error(comm, MPI_ERR_OTHER, "a message was not received");
        return rc;
    }
    if (l.outflow) {
        rc = DOWN(next, pipeline_send_descriptor(l.outflow), RTS_BYTES, MPI_BYTE, dest, tag, comm, request);
        return flowing(l.outflow, rc, comm, rc == MPI_SUCCESS ? *request : MPI_REQUEST_NULL);
    }
    rc = DOWN(next, l.parcel->address, l.wire.count, l.wire.type, dest, tag, comm, request);
    wire_done(&l.wire);
    if (rc == MPI_SUCCESS) p2p_sent(*request, l.parcel);
    else typed_buffer_close(l.parcel);
    return rc;
}

/*
 * The calls: `form` is that of `name`, `number` its counts; `how` as in p2p.h.
 */

#define SEND(name, form, number, how) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm) \
    { \
        return send((struct send_forms){.form = next->name}, how, buf, count, datatype, dest, tag, comm); \
    }
#define ISEND(name, form, number, how) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        return isend((struct isend_forms){.form = next->name}, how, buf, count, datatype, dest, tag, comm, request); \
    }

#define SENDS(c, form, number) \
    SEND(Send##c, form, number, LEAVES_BLOCKING) \
    SEND(Ssend##c, form, number, LEAVES_SYNCHRONOUS) \
    SEND(Rsend##c, form, number, LEAVES_BLOCKING) \
    SEND(Bsend##c, form, number, LEAVES_BUFFERED) \
    ISEND(Isend##c, form, number, LEAVES_LATER) \
    ISEND(Issend##c, form, number, LEAVES_SYNCHRONOUS) \
    ISEND(Irsend##c, form, number, LEAVES_LATER) \
    ISEND(Ibsend##c, form, number, LEAVES_BUFFERED)

EACH_FORM(SENDS)
