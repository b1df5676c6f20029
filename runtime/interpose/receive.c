/* receive.c: receives, also of matched messages. */
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

/* Ends a blocking receive: unpacks what came, unless rc is an error. w is NULL if the MPI received into the
 * application's buffer. */
static int end_recv(struct typed_buffer *p, struct wire *w, MPI_Status *status, int rc, MPI_Comm comm)
{
    if (w) mpi_bytes_free(w);
    if (rc == MPI_SUCCESS) rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    record_poll();
    return rc;
}

/* A message in the unexpected (probed) queue; `found` is false if the MPI has it still. */
struct probed_entry {
    bool found;
    struct probed_at at;
};

static struct probed_entry probed_entry_of(int source, int tag, MPI_Comm comm)
{
    struct probed_entry r = {.found = false};
    r.found = source != MPI_PROC_NULL && probed_take(source, tag, comm, &r.at);
    if (r.found) receive_gate_close(MPI_SUCCESS);
    return r;
}

static int end_post(struct typed_buffer *p, struct wire *w, int rc, MPI_Request *request, MPI_Comm comm,
                    const struct probed_entry *entry)
{
    if (w) mpi_bytes_free(w);
    if (rc != MPI_SUCCESS) typed_buffer_close(p);
    else if (entry->found) record_add_probed(*request, p, &entry->at);
    else record_add(*request, p, true, comm);
    return rc;
}

/* Sets *p if the MPI's own receive needs a record. A message of the unexpected queue needs one for its status. */
static int track_recv(struct typed_buffer **p, const void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                      MPI_Comm comm, const struct probed_entry *entry)
{
    int rc = rndv_recv_watch(p, buf, count, datatype, source, comm, false);
    struct layout *l = *p || !entry->found || rc != MPI_SUCCESS ? NULL : layout_of(datatype);
    if (!l || (*p = typed_buffer_new(l, NULL, buf, count))) return rc;
    return raise_error(comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
}

static int receive_light(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                         MPI_Comm comm, MPI_Status *status)
{
    struct light_request w = light_request_of(buf, count, datatype, comm);
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    peer_access_poll();
    int rc = receive_gate_close(CALL_NEXT(next, buf, count, datatype, source, tag, comm, s));
    if (rc == MPI_SUCCESS) rc = light_request_done(&w, s);
    record_poll();
    return rc;
}

static int receive_short(struct recv_forms next, struct layout *l, void *buf, MPI_Count count, int64_t bytes,
                         int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    peer_access_poll();
    int rc = receive_gate_close(CALL_NEXT(next, packed, bytes, MPI_BYTE, source, tag, comm, s));
    if (rc == MPI_SUCCESS) rc = p2p_brief(l, buf, count, packed, s, comm);
    record_poll();
    return rc;
}

/* Returns the layout of a short message and its packed bytes, or NULL if the message is not short. */
static struct layout *short_layout(const void *buf, int64_t count, MPI_Datatype datatype, int source, MPI_Comm comm,
                                   int64_t *bytes)
{
    if (!buf || source == MPI_PROC_NULL || probed_any()) return NULL;
    struct layout *l = host_brief(buf, count, datatype, source, bytes);
    return l ? l : host_awaits_short(count, datatype, comm, bytes);
}

static int poll_end(int rc)
{
    record_poll();
    return rc;
}

static int receive(struct recv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                   MPI_Comm comm, MPI_Status *status)
{
    int64_t bytes;
    if (p2p_ignored(buf, count, datatype))
        return poll_end(receive_gate_close(CALL_NEXT(next, buf, count, datatype, source, tag, comm, status)));
    struct layout *l = short_layout(buf, count, datatype, source, comm, &bytes);
    if (l) return receive_short(next, l, buf, count, bytes, source, tag, comm, status);
    if (light_request_wants(count, datatype, source))
        return receive_light(next, buf, count, datatype, source, tag, comm, status);
    struct typed_buffer *p;
    struct wire w;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    bool packed = p2p_awaited(&p, &w, buf, count, datatype, source, comm, &rc);
    if (!packed && rc == MPI_SUCCESS) rc = rndv_recv_watch(&p, buf, count, datatype, source, comm, false);
    if (rc != MPI_SUCCESS) return rc;
    struct probed_entry entry = probed_entry_of(source, tag, comm);   /* last: errors leave the entry */
    if (packed) {
        rc = entry.found ? probed_receive(&entry.at, p->address, w.count, w.type, s)
                         : receive_gate_close(CALL_NEXT(next, p->address, w.count, w.type, source, tag, comm, s));
        return end_recv(p, &w, s, rc, comm);
    }
    MPI_Datatype type = type_to_receive(datatype, comm);
    rc = entry.found ? probed_receive(&entry.at, buf, count, type, s)
                     : receive_gate_close(CALL_NEXT(next, buf, count, type, source, tag, comm, p ? s : status));
    if (p) return end_recv(p, NULL, s, rc, comm);
    record_poll();
    return rc;
}

static int ireceive_light(struct irecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, int source,
                          int tag, MPI_Comm comm, MPI_Request *request)
{
    peer_access_poll();
    int rc = receive_gate_close(CALL_NEXT(next, buf, count, datatype, source, tag, comm, request));
    if (rc != MPI_SUCCESS || light_request_add(*request, light_request_of(buf, count, datatype, comm))) return rc;
    struct typed_buffer *p;
    rc = rndv_recv_watch(&p, buf, count, datatype, source, comm, false);
    if (rc != MPI_SUCCESS) log_fatal("a receive that has begun can't be watched");
    if (p) record_add(*request, p, true, comm);
    return rc;
}

static int ireceive_short(struct irecv_forms next, struct layout *l, void *buf, MPI_Count count, struct bounce *b,
                          int64_t bytes, int source, int tag, MPI_Comm comm, MPI_Request *request)
{
    peer_access_poll();
    int rc = receive_gate_close(CALL_NEXT(next, b->memory, bytes, MPI_BYTE, source, tag, comm, request));
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
        return receive_gate_close(CALL_NEXT(next, buf, count, datatype, source, tag, comm, request));
    struct layout *l = short_layout(buf, count, datatype, source, comm, &bytes);
    struct bounce *b = l && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) return ireceive_short(next, l, buf, count, b, bytes, source, tag, comm, request);
    if (!reserve_low() && light_request_wants(count, datatype, source))
        return ireceive_light(next, buf, count, datatype, source, tag, comm, request);
    bool packed = p2p_awaited(&p, &w, buf, count, datatype, source, comm, &rc);
    if (rc != MPI_SUCCESS) return rc;
    struct probed_entry entry = probed_entry_of(source, tag, comm);
    if (packed) {
        rc = entry.found ? probed_ireceive(&entry.at, p->address, w.count, w.type, request)
                         : receive_gate_close(CALL_NEXT(next, p->address, w.count, w.type, source, tag, comm, request));
        return end_post(p, &w, rc, request, comm, &entry);
    }
    rc = track_recv(&p, buf, count, datatype, source, comm, &entry);
    if (rc != MPI_SUCCESS) return rc;
    MPI_Datatype type = type_to_receive(datatype, comm);
    rc = entry.found ? probed_ireceive(&entry.at, buf, count, type, request)
                     : receive_gate_close(CALL_NEXT(next, buf, count, type, source, tag, comm, request));
    return p ? end_post(p, NULL, rc, request, comm, &entry) : rc;
}

/* Opens a typed buffer for a matched message, if it needs one. Raises errors on MPI_COMM_SELF. Only messages of the
 * unexpected queue, such as an RTS, have a known communicator. */
static bool matched_buffer(struct typed_buffer **p, struct wire *w, void *buf, MPI_Count count, MPI_Datatype datatype,
                           const MPI_Message *message, int *rc)
{
    int source = message && *message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE;
    return p2p_awaited(p, w, buf, count, datatype, source, MPI_COMM_SELF, rc);
}

static struct probed_entry matched_entry(const MPI_Message *message, MPI_Comm *comm)
{
    struct probed_entry r = {.found = false};
    r.found = message && probed_matched(*message, &r.at);
    *comm = r.found ? r.at.from_comm : MPI_COMM_SELF;
    return r;
}

static int matched_status(const struct probed_entry *entry, MPI_Status *status, int rc)
{
    return entry->found ? probed_came(&entry->at, status, rc) : rc;
}

static int mreceive(struct mrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                    MPI_Status *status)
{
    struct typed_buffer *p;
    struct wire w;
    MPI_Comm comm;
    MPI_Status own, *s = status == MPI_STATUS_IGNORE ? &own : status;
    int rc;
    bool packed = matched_buffer(&p, &w, buf, count, datatype, message, &rc);
    if (!packed && rc == MPI_SUCCESS)
        rc = rndv_recv_watch(&p, buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, false);
    if (rc != MPI_SUCCESS) return rc;
    struct probed_entry entry = matched_entry(message, &comm);
    if (packed) {
        rc = matched_status(&entry, s, CALL_NEXT(next, p->address, w.count, w.type, message, s));
        return end_recv(p, &w, s, rc, comm);
    }
    rc = matched_status(&entry, s, CALL_NEXT(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, s));
    return p ? end_recv(p, NULL, s, rc, comm) : rc;
}

static int imreceive(struct imrecv_forms next, void *buf, MPI_Count count, MPI_Datatype datatype, MPI_Message *message,
                     MPI_Request *request)
{
    struct typed_buffer *p;
    struct wire w;
    MPI_Comm comm;
    int rc;
    bool packed = matched_buffer(&p, &w, buf, count, datatype, message, &rc);
    if (rc != MPI_SUCCESS) return rc;
    struct probed_entry entry = matched_entry(message, &comm);
    if (packed)
        return end_post(p, &w, CALL_NEXT(next, p->address, w.count, w.type, message, request), request, comm, &entry);
    rc = track_recv(&p, buf, count, datatype, MPI_ANY_SOURCE, MPI_COMM_SELF, &entry);
    if (rc != MPI_SUCCESS) return rc;
    rc = CALL_NEXT(next, buf, count, type_to_receive(datatype, MPI_COMM_SELF), message, request);
    return p ? end_post(p, NULL, rc, request, comm, &entry) : rc;
}

/* `form` is the member of the structs above for `name`, `number` the type of its counts. */

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
