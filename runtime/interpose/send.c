/* send.c: sends. Calls that stridec does not serve pass to the MPI unchanged. */
#include "base/error.h"
#include "base/reserve.h"
#include "observe/trace.h"
#include "large_count.h"
#include "protocol/host_select.h"
#include "request/light_request.h"
#include "request/p2p.h"

/* The arguments of a call. */
struct call {
    const struct next *next;
    int (*down)(const struct call *, const void *, MPI_Count, MPI_Datatype);   /* calls the next function */
    struct message m;
    int tag;
    bool posts;               /* a nonblocking send, of *request */
    MPI_Request *request;
};

static int send_short(const struct call *c, const struct layout *l, int64_t bytes)
{
    _Alignas(64) char packed[HOST_SHORT_MOST];
    trace_way = "short";
    host_short_pack(l, c->m.buf, c->m.count, packed, bytes);
    return c->down(c, packed, bytes, MPI_BYTE);
}

static int isend_short(const struct call *c, struct layout *l, struct bounce *b, int64_t bytes)
{
    trace_way = "short";
    host_short_pack(l, c->m.buf, c->m.count, b->memory, bytes);
    int rc = c->down(c, b->memory, bytes, MPI_BYTE);
    if (rc == MPI_SUCCESS) light_request_leaves(*c->request, l, c->m.count, b);
    else bounce_put(b);
    return rc;
}

/* Sends synchronously what is packed while the receiver reads. The RTS header's own send must not wait: the receiver,
 * once it has matched that, waits for packed bytes, and makes no progress in which its answer would go out. */
static int send_pushed(const struct call *c, struct send_op *op)
{
    const struct message *m = &c->m;
    MPI_Request rts;
    int rc = PMPI_LARGE(Issend, op->address, op->as.count, op->as.type, m->peer, c->tag, m->comm, &rts);
    if (rc != MPI_SUCCESS) return p2p_send_end(op, rc, m->comm);
    int packed = rndv_send_feed(op->rndv);
    rc = PMPI_Wait(&rts, MPI_STATUS_IGNORE);
    /* Also after an error: the receiver may have taken the slot. */
    int ended = p2p_send_end(op, MPI_SUCCESS, m->comm);
    if (rc != MPI_SUCCESS || ended != MPI_SUCCESS) return rc != MPI_SUCCESS ? rc : ended;
    return packed ? raise_error(m->comm, MPI_ERR_OTHER, "packing on the GPU failed") : rc;
}

static int send(struct call *c)
{
    struct message *m = &c->m;
    struct send_op op;
    int rc;
    int64_t bytes;
    struct layout *l = m->reuse != REUSE_BUFFERED ? host_sends_short(m->buf, m->count, m->type, m->peer, &bytes) : NULL;
    if (l && !c->posts) {
        stats_add_sent(m->comm, m->peer, bytes);
        return send_short(c, l, bytes);
    }
    struct bounce *b = l && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) stats_add_sent(m->comm, m->peer, bytes);
    if (b) return isend_short(c, l, b, bytes);
    if (!send_select(&op, m, &rc)) return rc != MPI_SUCCESS ? rc : c->down(c, m->buf, m->count, m->type);
    if (m->synchronous && !c->posts && op.rndv && rndv_send_pushes(op.rndv)) return send_pushed(c, &op);
    rc = c->down(c, op.address, op.as.count, op.as.type);
    return c->posts ? p2p_isend_end(&op, rc, m->comm, c->request) : p2p_send_end(&op, rc, m->comm);
}

/* `number` is the type of the counts of `name`, `when` an enum reuse, `sync`: the send is synchronous. */

#define SEND(name, number, when, sync) \
    static int down_##name(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->name(buf, (number)count, type, c->m.peer, c->tag, c->m.comm); \
    } \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm) \
    { \
        struct call c = {next, down_##name, {buf, count, datatype, dest, comm, .reuse = when, .synchronous = sync}, \
                         tag, false, NULL}; \
        return send(&c); \
    }
#define ISEND(name, number, when, sync) \
    static int down_##name(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->name(buf, (number)count, type, c->m.peer, c->tag, c->m.comm, c->request); \
    } \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        struct call c = {next, down_##name, {buf, count, datatype, dest, comm, .reuse = when, .synchronous = sync}, \
                         tag, true, request}; \
        return send(&c); \
    }

#define SENDS(c, number) \
    SEND(Send##c, number, REUSE_BLOCKING, false) \
    SEND(Ssend##c, number, REUSE_BLOCKING, true) \
    SEND(Rsend##c, number, REUSE_BLOCKING, false) \
    SEND(Bsend##c, number, REUSE_BUFFERED, false) \
    ISEND(Isend##c, number, REUSE_LATER, false) \
    ISEND(Issend##c, number, REUSE_LATER, true) \
    ISEND(Irsend##c, number, REUSE_LATER, false) \
    ISEND(Ibsend##c, number, REUSE_BUFFERED, false)

EACH_FORM(SENDS)
