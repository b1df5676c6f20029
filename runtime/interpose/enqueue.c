/* enqueue.c: MPICH's sends and receives in the order of a communicator's stream. Those of device memory become packed
 * bytes (protocol/enqueued.h); all others pass to the MPI. */
#include "base/error.h"
#include "large_count.h"
#include "observe/stats.h"
#include "stream_comm.h"
#include <limits.h>
#include <stdlib.h>

#ifdef HAVE_Send_enqueue

/* The arguments of a call. */
struct call {
    const struct next *next;
    int (*down)(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type);   /* calls the next one */
    struct channel_call of;
    MPI_Count most;           /* that its count can tell */
    MPI_Request *request;     /* of a nonblocking call */
    MPI_Status *status;       /* of a blocking receive */
};

/* Keeps a nonblocking message, if it is stridec's. What was kept by that handle has ended in another way. */
static void keep(struct enqueued *e, MPI_Request request)
{
    struct enqueued *stale = enqueued_take(request);
    if (stale) enqueued_drop(stale);
    if (e) enqueued_keep(e, request);
}

static int enqueue(const struct call *c)
{
    struct mpi_stream *stream = stream_comm_of(c->of.comm);
    int rc = MPI_SUCCESS;
    int64_t bytes = 0;
    struct enqueued *e = stream ? enqueued_begin(stream, &c->of, c->most, &rc) : NULL;
    if (rc != MPI_SUCCESS) return rc;
    void *packed = e ? enqueued_packed(e, &bytes) : NULL;
    rc = e ? c->down(c, packed, bytes, MPI_BYTE) : c->down(c, c->of.buf, c->of.count, c->of.type);
    if (e && rc != MPI_SUCCESS) enqueued_drop(e);
    if (rc != MPI_SUCCESS) return rc;
    if (e && c->of.sends) stats_add_sent(c->of.comm, c->of.peer, bytes);
    if (c->request) keep(e, *c->request);
    if (!e || c->request) return rc;
    return enqueued_end(e) ? raise_error(c->of.comm, MPI_ERR_OTHER, "unpacking on the GPU failed") : rc;
}

#define SENDS(c_, number, greatest) \
    static int down_Send##c_(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->Send_enqueue##c_(buf, (number)count, type, c->of.peer, c->of.tag, c->of.comm); \
    } \
    static int down_Isend##c_(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->Isend_enqueue##c_(buf, (number)count, type, c->of.peer, c->of.tag, c->of.comm, c->request); \
    } \
    int call_Send_enqueue##c_(const struct next *next, const void *buf, number count, MPI_Datatype datatype, int dest, \
                              int tag, MPI_Comm comm) \
    { \
        return enqueue(&(struct call){next, down_Send##c_, {buf, count, datatype, dest, tag, comm, true}, greatest, \
                                      NULL, NULL}); \
    } \
    int call_Isend_enqueue##c_(const struct next *next, const void *buf, number count, MPI_Datatype datatype, \
                               int dest, int tag, MPI_Comm comm, MPI_Request *request) \
    { \
        return enqueue(&(struct call){next, down_Isend##c_, {buf, count, datatype, dest, tag, comm, true}, greatest, \
                                      request, NULL}); \
    }
#define RECEIVES(c_, number, greatest) \
    static int down_Recv##c_(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->Recv_enqueue##c_((void *)(uintptr_t)buf, (number)count, type, c->of.peer, c->of.tag, \
                                         c->of.comm, c->status); \
    } \
    static int down_Irecv##c_(const struct call *c, const void *buf, MPI_Count count, MPI_Datatype type) \
    { \
        return c->next->Irecv_enqueue##c_((void *)(uintptr_t)buf, (number)count, type, c->of.peer, c->of.tag, \
                                          c->of.comm, c->request); \
    } \
    int call_Recv_enqueue##c_(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, \
                              int tag, MPI_Comm comm, MPI_Status *status) \
    { \
        return enqueue(&(struct call){next, down_Recv##c_, {buf, count, datatype, source, tag, comm, false}, greatest, \
                                      NULL, status}); \
    } \
    int call_Irecv_enqueue##c_(const struct next *next, void *buf, number count, MPI_Datatype datatype, int source, \
                               int tag, MPI_Comm comm, MPI_Request *request) \
    { \
        return enqueue(&(struct call){next, down_Irecv##c_, {buf, count, datatype, source, tag, comm, false}, \
                                      greatest, request, NULL}); \
    }

SENDS(, int, INT_MAX)
RECEIVES(, int, INT_MAX)
#ifdef HAVE_Send_enqueue_c
SENDS(_c, MPI_Count, INT64_MAX)
RECEIVES(_c, MPI_Count, INT64_MAX)
#endif

/* Ends messages (NULL: not stridec's) whose ends the MPI has enqueued. Where it has refused, they are kept on. */
static int end_all(int n, struct enqueued *const e[], int rc)
{
    bool failed = false;
    for (int i = 0; i < n; i++)
        if (e[i] && rc != MPI_SUCCESS) enqueued_keep_on(e[i]);
        else if (e[i]) failed |= enqueued_end(e[i]) != 0;
    return failed ? raise_error(MPI_COMM_WORLD, MPI_ERR_OTHER, "unpacking on the GPU failed") : rc;
}

int call_Wait_enqueue(const struct next *next, MPI_Request *request, MPI_Status *status)
{
    struct enqueued *e = request ? enqueued_take(*request) : NULL;
    int rc = next->Wait_enqueue(request, status);
    return end_all(1, &e, rc);
}

int call_Waitall_enqueue(const struct next *next, int count, MPI_Request array_of_requests[],
                         MPI_Status *array_of_statuses)
{
    int n = count > 0 && array_of_requests ? count : 0;
    struct enqueued **e = calloc((size_t)n + 1, sizeof(*e));
    if (!e) return raise_error(MPI_COMM_WORLD, MPI_ERR_NO_MEM, "out of memory");
    for (int i = 0; i < n; i++) e[i] = enqueued_take(array_of_requests[i]);
    int rc = next->Waitall_enqueue(count, array_of_requests, array_of_statuses);
    rc = end_all(n, e, rc);
    free(e);
    return rc;
}
#endif
