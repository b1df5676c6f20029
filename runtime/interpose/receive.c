/* receive.c: receives, also of matched messages. */
#include "base/error.h"
#include "base/log.h"
#include "base/reserve.h"
#include "datatype/byte_types.h"
#include "interpose.h"
#include "large_count.h"
#include "node/peer_access.h"
#include "protocol/host_select.h"
#include "request/light_request.h"
#include "request/p2p.h"
#include "request/probed.h"
#include "request/receive_gate.h"

/* The arguments of a call. */
struct call {
    const struct next *next;
    int (*down)(const struct call *, void *, MPI_Count, MPI_Datatype, MPI_Status *);   /* calls the next function */
    void *buf;
    MPI_Count count;
    MPI_Datatype type;
    int source, tag;          /* of a matched message only whether it is from MPI_PROC_NULL */
    MPI_Comm comm;            /* of a matched message MPI_COMM_SELF, for errors */
    MPI_Status *status;
    bool posts;               /* a nonblocking receive, of *request; it has no status */
    MPI_Request *request;
    bool matched;             /* a receive of *message */
    MPI_Message *message;
};

/* A message in the unexpected (probed) queue; `found` is false if the MPI has it still. */
struct probed_entry {
    bool found;
    struct probed_at at;
};

static struct probed_entry probed_entry_of(const struct call *c)
{
    struct probed_entry e = {.found = false};
    if (c->matched) {
        e.found = c->message && probed_matched(*c->message, &e.at);
        return e;
    }
    e.found = c->source != MPI_PROC_NULL && probed_take(c->source, c->tag, c->comm, &e.at);
    if (e.found) receive_gate_close(MPI_SUCCESS);
    return e;
}

/* Receives, or posts the receive, by the MPI or from the unexpected queue. */
static int receive_into(const struct call *c, const struct probed_entry *e, void *buf, MPI_Count count,
                        MPI_Datatype type, MPI_Status *status)
{
    if (!e->found || c->matched) {
        int rc = receive_gate_close(c->down(c, buf, count, type, status));
        return e->found && !c->posts ? probed_came(&e->at, status, rc) : rc;
    }
    if (c->posts) return probed_ireceive(&e->at, buf, count, type, c->request);
    return probed_receive(&e->at, buf, count, type, status);
}

/* Ends a blocking receive: unpacks what came, unless rc is an error. */
static int end_recv(struct typed_buffer *p, MPI_Status *status, int rc, MPI_Comm comm)
{
    if (p && rc == MPI_SUCCESS) rc = p2p_arrived(p, status, comm);
    typed_buffer_close(p);
    return poll_end(rc);
}

static int end_post(struct typed_buffer *p, int rc, const struct call *c, const struct probed_entry *e)
{
    if (rc != MPI_SUCCESS) typed_buffer_close(p);
    else if (p && e->found) record_add_probed(*c->request, p, &e->at);
    else if (p) record_add(*c->request, p, true, c->comm);
    return rc;
}

/* Opens a typed buffer for a posted receive of the unexpected queue, whose status needs a record. */
static int track_probed(struct typed_buffer **p, const struct call *c)
{
    struct layout *l = layout_of(c->type);
    if (!l || (*p = typed_buffer_new(l, NULL, c->buf, c->count))) return MPI_SUCCESS;
    return raise_error(c->comm, MPI_ERR_NO_MEM, "no memory for the record of a message");
}

/* Receives by a typed buffer, if one is needed. */
static int receive_typed(const struct call *c)
{
    struct typed_buffer *p;
    struct wire w;
    int rc;
    MPI_Status own, *s = c->status == MPI_STATUS_IGNORE ? &own : c->status;
    struct message m = {c->buf, c->count, c->type, c->source, .comm = c->comm};
    bool packed = p2p_awaited(&p, &w, &m, &rc);
    if (!packed && rc == MPI_SUCCESS) rc = rndv_recv_prepare(&p, &m, false);
    if (rc != MPI_SUCCESS) return rc;
    struct probed_entry e = probed_entry_of(c);   /* last: errors leave the entry */
    if (c->posts && e.found && !p) rc = track_probed(&p, c);
    if (rc != MPI_SUCCESS) return rc;
    if (packed) {
        rc = receive_into(c, &e, p->address, w.count, w.type, s);
        mpi_bytes_free(&w);
    } else {
        rc = receive_into(c, &e, c->buf, c->count, type_to_receive(c->type, c->comm), s);
    }
    if (c->posts) return end_post(p, rc, c, &e);
    return end_recv(p, s, rc, c->matched && e.found ? e.at.from_comm : c->comm);
}

static int receive_light(const struct call *c)
{
    struct light_request w = light_request_of(c->buf, c->count, c->type, c->comm);
    MPI_Status own, *s = c->status == MPI_STATUS_IGNORE ? &own : c->status;
    peer_access_poll();
    int rc = receive_gate_close(c->down(c, c->buf, c->count, c->type, s));
    return poll_end(rc == MPI_SUCCESS ? light_request_done(&w, s) : rc);
}

static int receive_short(const struct call *c, struct layout *l, int64_t bytes)
{
    _Alignas(64) char packed[HOST_SHORT_MOST];
    MPI_Status own, *s = c->status == MPI_STATUS_IGNORE ? &own : c->status;
    peer_access_poll();
    int rc = receive_gate_close(c->down(c, packed, bytes, MPI_BYTE, s));
    return poll_end(rc == MPI_SUCCESS ? p2p_short(l, c->buf, c->count, packed, s, c->comm) : rc);
}

/* Returns the layout of a short message and its packed bytes, or NULL if the message is not short. */
static struct layout *short_layout(const struct call *c, int64_t *bytes)
{
    if (!c->buf || c->source == MPI_PROC_NULL || probed_any()) return NULL;
    struct layout *l = host_sends_short(c->buf, c->count, c->type, c->source, bytes);
    return l ? l : host_awaits_short(c->count, c->type, c->comm, bytes);
}

static int receive(const struct call *c)
{
    int64_t bytes;
    if (p2p_ignored(c->buf, c->count, c->type))
        return poll_end(receive_gate_close(c->down(c, c->buf, c->count, c->type, c->status)));
    struct layout *l = short_layout(c, &bytes);
    if (l) return receive_short(c, l, bytes);
    return light_request_wants(c->count, c->type, c->source) ? receive_light(c) : receive_typed(c);
}

static int ireceive_light(const struct call *c)
{
    peer_access_poll();
    int rc = receive_gate_close(c->down(c, c->buf, c->count, c->type, NULL));
    if (rc != MPI_SUCCESS) return rc;
    if (light_request_add(*c->request, light_request_of(c->buf, c->count, c->type, c->comm))) return rc;
    struct typed_buffer *p;
    struct message m = {c->buf, c->count, c->type, c->source, .comm = c->comm};
    rc = rndv_recv_prepare(&p, &m, false);
    if (rc != MPI_SUCCESS) log_fatal("a receive that has begun can't be watched");
    if (p) record_add(*c->request, p, true, c->comm);
    return rc;
}

static int ireceive_short(const struct call *c, struct layout *l, struct bounce *b, int64_t bytes)
{
    peer_access_poll();
    int rc = receive_gate_close(c->down(c, b->memory, bytes, MPI_BYTE, NULL));
    if (rc == MPI_SUCCESS) light_request_comes(*c->request, l, c->buf, c->count, b, c->comm);
    else bounce_put(b);
    return rc;
}

static int ireceive(const struct call *c)
{
    int64_t bytes;
    if (p2p_ignored(c->buf, c->count, c->type))
        return receive_gate_close(c->down(c, c->buf, c->count, c->type, NULL));
    struct layout *l = short_layout(c, &bytes);
    struct bounce *b = l && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) return ireceive_short(c, l, b, bytes);
    bool light = !reserve_low() && light_request_wants(c->count, c->type, c->source);
    return light ? ireceive_light(c) : receive_typed(c);
}

/* Raises errors on MPI_COMM_SELF: only messages of the unexpected queue, such as an RTS, have a known communicator. */
static int receive_matched(struct call *c)
{
    c->matched = true, c->comm = MPI_COMM_SELF;
    c->source = c->message && *c->message == MPI_MESSAGE_NO_PROC ? MPI_PROC_NULL : MPI_ANY_SOURCE;
    return receive_typed(c);
}

/* `number` is the type of the counts of `name`; the last arguments go to the next function. */
#define CALL_NEXT(name, number, ...) \
    static int down_##name(const struct call *c, void *buf, MPI_Count count, MPI_Datatype type, MPI_Status *status) \
    { \
        (void)status; \
        return c->next->name(buf, (number)count, type, __VA_ARGS__); \
    }
#define RECV(name, number) \
    CALL_NEXT(name, number, c->source, c->tag, c->comm, status) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Status *status) \
    { \
        struct call c = {next, down_##name, buf, count, datatype, source, tag, comm, .status = status}; \
        receive_gate_open(source, tag, comm); \
        return receive_gate_close(receive(&c)); \
    }
#define IRECV(name, number) \
    CALL_NEXT(name, number, c->source, c->tag, c->comm, c->request) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        struct call c = {next, down_##name, buf, count, datatype, source, tag, comm, .posts = true, \
                         .request = request}; \
        receive_gate_open(source, tag, comm); \
        return receive_gate_close(ireceive(&c)); \
    }
#define MRECV(name, number) \
    CALL_NEXT(name, number, c->message, status) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, MPI_Message *message, \
                    MPI_Status *status) \
    { \
        struct call c = {next, down_##name, buf, count, datatype, .message = message, .status = status}; \
        return receive_matched(&c); \
    }
#define IMRECV(name, number) \
    CALL_NEXT(name, number, c->message, c->request) \
    int call_##name(const struct next *next, void *buf, number count, MPI_Datatype datatype, MPI_Message *message, \
                    MPI_Request *request) \
    { \
        struct call c = {next, down_##name, buf, count, datatype, .message = message, .posts = true, \
                         .request = request}; \
        return receive_matched(&c); \
    }

#define RECEIVES(c, number) \
    RECV(Recv##c, number) \
    IRECV(Irecv##c, number) \
    MRECV(Mrecv##c, number) \
    IMRECV(Imrecv##c, number)

EACH_FORM(RECEIVES)
