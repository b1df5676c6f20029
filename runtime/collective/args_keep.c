/* args_keep.c: arguments that outlive their call, until a request completes. */
#include "args_internal.h"
#include "base/activity.h"
#include "base/backoff.h"
#include "base/reserve.h"
#include "protocol/rndv_recv.h"
#include "request/request_ops.h"
#include <pthread.h>
#include <stdlib.h>

#define READS_AT_ONCE 64

/* ---- reads from windows by requests, whose data are not in place ---- */

/* A synchronisation of the window may complete one while a thread waits for its request among others: either unpacks
 * it, and the other one waits for that. */
static struct args_set *reads;   /* that are in records */
static atomic_int reads_pending;
static pthread_mutex_t reads_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local char self;   /* its address is the thread's */

bool args_reading(void)
{
    return atomic_load(&reads_pending) != 0;
}

static bool completed_by(const struct args_set *o, const struct rma_op *last)
{
    return o->read.win == last->win && rma_is_covered(&o->read, last);
}

static void reads_add(struct args_set *o)
{
    pthread_mutex_lock(&reads_lock);
    o->next_read = reads;
    reads = o;
    pthread_mutex_unlock(&reads_lock);
}

bool args_read_begin(struct args_set *o)
{
    if (!o->reads) return true;
    pthread_mutex_lock(&reads_lock);
    bool first = !o->reader;
    if (first) o->reader = &self;
    pthread_mutex_unlock(&reads_lock);
    return first;
}

/* Keeps what is passed: the MPI may read it until the request completes. Nobody unpacks it again (args_read_begin).
 * Caller holds reads_lock. */
static void read_done(struct args_set *o)
{
    struct args_set **at = &reads;
    while (*at && *at != o) at = &(*at)->next_read;
    if (*at) *at = o->next_read;
    o->read.number = 0;
    atomic_fetch_sub(&reads_pending, 1), atomic_fetch_sub_explicit(&window_operations, 1, memory_order_release);
}

void args_read_done(void *set)
{
    struct args_set *o = set;
    if (!args_reading()) return;
    pthread_mutex_lock(&reads_lock);
    if (o->read.number) read_done(o);
    pthread_mutex_unlock(&reads_lock);
}

/* Unpacks what nobody has begun to. The lock is held until it is in place, so that no request of it ends before. */
static int reads_unpack(const struct rma_op *last)
{
    struct batch b = {0};
    struct args_set *mine[READS_AT_ONCE];
    int n = 0, failed = 0;
    pthread_mutex_lock(&reads_lock);
    for (struct args_set *o = reads; o && n < READS_AT_ONCE; o = o->next_read) {
        if (o->reader || !completed_by(o, last)) continue;
        o->reader = &self;
        failed |= args_unpack_all(o, &b);
        mine[n++] = o;
    }
    failed |= batch_wait(&b);
    for (int i = 0; i < n; i++) read_done(mine[i]);
    pthread_mutex_unlock(&reads_lock);
    return failed ? -1 : n;
}

/* Returns true if other threads unpack some. A read that nobody has begun to unpack is one whose starting call has not
 * returned. What this thread unpacks, its error handler may have called from. */
static bool reads_begun(const struct rma_op *last)
{
    bool any = false;
    pthread_mutex_lock(&reads_lock);
    for (const struct args_set *o = reads; o && !any; o = o->next_read)
        any = completed_by(o, last) && o->reader && o->reader != &self;
    pthread_mutex_unlock(&reads_lock);
    return any;
}

int args_reads_finish(const struct rma_op *last)
{
    int n;
    while ((n = reads_unpack(last)) == READS_AT_ONCE) continue;
    for (unsigned spins = 1; n >= 0 && reads_begun(last); spins++) backoff(spins);
    return n < 0 ? -1 : 0;
}

/* ---- arguments of requests ---- */

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
    int failed = args_unpack_all(o, &b);
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
    if (rc != MPI_SUCCESS) return args_free(o), rc;
    struct args_set *kept = save(o);
    if (kept->read.number) reads_add(kept);
    record_add_of(*request, &args_ops, kept, o->comm, persistent);
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
               (probed_any() || rndv_recv_from(o->comm, o->source));   /* the queue may hold any rank's message */
    if (may) record_add_dormant(*request, &args_ops, save(o), o->comm);
    return rc;
}
