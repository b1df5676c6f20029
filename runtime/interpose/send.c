/* send.c: sends. Calls that stridec does not serve pass to the MPI unchanged. */
#include "base/error.h"
#include "base/reserve.h"
#include "large_count.h"
#include "protocol/host_select.h"
#include "request/light_request.h"
#include "request/p2p.h"

FORMS(send_forms, const void *, int, int, MPI_Comm);
FORMS(isend_forms, const void *, int, int, MPI_Comm, MPI_Request *);

static int send_short(struct send_forms next, const struct layout *l, const void *buf, int64_t count, int64_t bytes,
                      int dest, int tag, MPI_Comm comm)
{
    _Alignas(64) char packed[HOST_BRIEF_MOST];
    host_brief_leaves(l, buf, count, packed, bytes);
    return CALL_NEXT(next, packed, bytes, MPI_BYTE, dest, tag, comm);
}

static int send(struct send_forms next, enum reuse reuse, const void *buf, MPI_Count count, MPI_Datatype datatype,
                int dest, int tag, MPI_Comm comm)
{
    struct message m = {buf, count, datatype, dest, comm, reuse, NULL, {0}};
    struct send_op op;
    int rc;
    int64_t bytes;
    struct layout *l = reuse != REUSE_BUFFERED ? host_brief(buf, count, datatype, dest, &bytes) : NULL;
    if (l) return send_short(next, l, buf, count, bytes, dest, tag, comm);
    if (!send_select(&op, &m, &rc))
        return rc != MPI_SUCCESS ? rc : CALL_NEXT(next, buf, count, datatype, dest, tag, comm);
    rc = CALL_NEXT(next, op.address, op.as.count, op.as.type, dest, tag, comm);
    return p2p_send_end(&op, rc, comm);
}

static int isend_short(struct isend_forms next, struct layout *l, const void *buf, int64_t count, struct bounce *b,
                       int64_t bytes, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    host_brief_leaves(l, buf, count, b->memory, bytes);
    int rc = CALL_NEXT(next, b->memory, bytes, MPI_BYTE, dest, tag, comm, request);
    if (rc == MPI_SUCCESS) light_request_leaves(*request, l, count, b);
    else bounce_put(b);
    return rc;
}

static int isend(struct isend_forms next, enum reuse reuse, const void *buf, MPI_Count count, MPI_Datatype datatype,
                 int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    struct message m = {buf, count, datatype, dest, comm, reuse, NULL, {0}};
    struct send_op op;
    int rc;
    int64_t bytes;
    struct layout *l = reuse != REUSE_BUFFERED ? host_brief(buf, count, datatype, dest, &bytes) : NULL;
    struct bounce *b = l && !reserve_low() ? bounce_get(bytes) : NULL;
    if (b) return isend_short(next, l, buf, count, b, bytes, dest, tag, comm, request);
    if (!send_select(&op, &m, &rc))
        return rc != MPI_SUCCESS ? rc : CALL_NEXT(next, buf, count, datatype, dest, tag, comm, request);
    rc = CALL_NEXT(next, op.address, op.as.count, op.as.type, dest, tag, comm, request);
    return p2p_isend_end(&op, rc, comm, request);
}

/* `form` is the member of the structs above for `name`, `number` the type of its counts, `reuse` is from protocol.h. */

#define SEND(name, form, number, reuse) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm) \
    { \
        return send((struct send_forms){.form = next->name}, reuse, buf, count, datatype, dest, tag, comm); \
    }
#define ISEND(name, form, number, reuse) \
    int call_##name(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, int tag, \
                    MPI_Comm comm, MPI_Request *request) \
    { \
        return isend((struct isend_forms){.form = next->name}, reuse, buf, count, datatype, dest, tag, comm, request); \
    }

#define SENDS(c, form, number) \
    SEND(Send##c, form, number, REUSE_BLOCKING) \
    SEND(Ssend##c, form, number, REUSE_SYNCHRONOUS) \
    SEND(Rsend##c, form, number, REUSE_BLOCKING) \
    SEND(Bsend##c, form, number, REUSE_BUFFERED) \
    ISEND(Isend##c, form, number, REUSE_LATER) \
    ISEND(Issend##c, form, number, REUSE_SYNCHRONOUS) \
    ISEND(Irsend##c, form, number, REUSE_LATER) \
    ISEND(Ibsend##c, form, number, REUSE_BUFFERED)

EACH_FORM(SENDS)
