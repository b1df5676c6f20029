/* args_keep.c: arguments that outlive their call, until a request completes. */
#include "args_internal.h"
#include "base/activity.h"
#include "base/reserve.h"
#include "protocol/rndv_recv.h"
#include "request/request_ops.h"
#include <stdlib.h>

static atomic_int reads_pending;   /* reads from windows by requests, data not in place */

bool args_reading(void)
{
    return atomic_load(&reads_pending) != 0;
}

/* Clears the output flags, but keeps what is passed: the MPI may read it until the request completes. */
void args_read_done(void *set)
{
    struct args_set *o = set;
    if (!o->read.number) return;
    o->read.number = 0;
    for (int i = 0; i < o->n; i++) o->of[i].flags &= ~ARG_OUT;
    atomic_fetch_sub(&reads_pending, 1), atomic_fetch_sub_explicit(&window_operations, 1, memory_order_release);
}

/* Returns true if the operation completed at once: its handle may be shared, and a record can't tell requests apart. */
static bool complete(const struct args_set *o, MPI_Request request)
{
    int flag = 0;
    bool may = o->later || o->read.number;
    return may && PMPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag;
}

/* Unpacks at once. What was passed stays until the application completes the request: MPICH then reads the lists of
 * types again. */
static int unpack_now(struct args_set *o)
{
    struct batch b = {0};
    int failed = args_unpack(o, &b, INT64_MAX);
    if (batch_wait(&b)) failed = -1;
    for (int i = 0; i < o->n; i++) o->of[i].flags &= ~ARG_OUT;
    return failed ? args_raise(o, MPI_ERR_OTHER, "unpacking on the GPU failed") : MPI_SUCCESS;
}

/* Returns a copy for a record, which frees it by args_ops. */
static struct args_set *save(const struct args_set *o)
{
    struct args_set *copy = reserve_get(sizeof *copy);
    *copy = *o;
    return copy;
}

/* Moves the arguments into a record, or frees them if the call failed. */
static int keep(struct args_set *o, int rc, MPI_Request *request, bool persistent)
{
    if (rc == MPI_SUCCESS && o->read.number) atomic_fetch_add(&reads_pending, 1);
    if (rc == MPI_SUCCESS && !persistent && complete(o, *request)) rc = unpack_now(o);
    if (rc == MPI_SUCCESS) record_add_of(*request, &args_ops, save(o), o->comm, persistent);
    else args_free(o);
    return rc;
}

int args_keep(struct args_set *o, int rc, MPI_Request *request)
{
    return keep(o, rc, request, false);
}

int args_persist(struct args_set *o, int rc, MPI_Request *request)
{
    return keep(o, rc, request, true);
}

int args_persist_recv(const struct args_set *o, int rc, const MPI_Request *request)
{
    bool may = rc == MPI_SUCCESS && !reserve_low() && rts_armed() && o->source != MPI_PROC_NULL &&
               rndv_recv_from(o->comm, o->source);
    if (may) record_add_dormant(*request, &args_ops, save(o), o->comm);
    return rc;
}
