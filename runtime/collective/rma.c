/* rma.c: one-sided communication. Bounced arguments stay until a synchronisation completes their operation. */
#include "args.h"
#include "window.h"
#include "base/mpi_workarounds.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "next.h"
#include "request/request_ops.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

struct pending {
    struct args_set args;
    struct rma_op of;
    struct pending *next;
};

struct unfinished {
    MPI_Win win;
    struct pending *pending;
    UT_hash_handle hh;
};

static atomic_ulong ops_begun;        /* operations so far */
static struct unfinished *windows;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t finish_lock = PTHREAD_MUTEX_INITIALIZER;

static struct unfinished *unfinished_of(MPI_Win win)
{
    struct unfinished *w = NULL;
    HASH_FIND(hh, windows, &win, sizeof win, w);
    if (w) return w;
    w = reserve_get(sizeof *w);
    w->win = win;
    HASH_ADD(hh, windows, win, sizeof w->win, w);
    return w;
}

static void pending_add(struct pending *h)
{
    pthread_mutex_lock(&lock);
    struct unfinished *w = unfinished_of(h->of.win);
    h->next = w->pending;
    w->pending = h;
    pthread_mutex_unlock(&lock);
}

/* Removes the operations that `last` covers from the table and returns them as a list. */
static struct pending *pending_take(const struct rma_op *last)
{
    struct pending *taken = NULL, *h;
    struct unfinished *w = NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, windows, &last->win, sizeof last->win, w);
    for (struct pending **at = w ? &w->pending : NULL; at && (h = *at);) {
        if (!rma_is_covered(&h->of, last)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = taken;
        taken = h;
    }
    if (w && !w->pending) {
        HASH_DEL(windows, w);
        reserve_put(w);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static struct rma_op op_begin(MPI_Win win, int target)
{
    atomic_fetch_add_explicit(&window_operations, 1, memory_order_release);
    return (struct rma_op){win, target, atomic_fetch_add(&ops_begun, 1) + 1};
}

/* Wrong arguments, and more data than the buffer holds, are left for the MPI to refuse. */
void args_bound_read(struct args_set *o, MPI_Count count, MPI_Datatype type)
{
    MPI_Count size;
    o->bounded = count >= 0 && type != MPI_DATATYPE_NULL && PMPI_Type_size_x(type, &size) == MPI_SUCCESS && size >= 0
                 && !__builtin_mul_overflow((int64_t)count, (int64_t)size, &o->bound_bytes);
}

int args_keep_window(struct args_set *o, int rc, MPI_Win win, int target)
{
    if (rc != MPI_SUCCESS) {
        args_free(o);
        return rc;
    }
    struct pending *h = reserve_get(sizeof *h);
    h->args = *o;
    h->of = op_begin(win, target);
    pending_add(h);
    return rc;
}

/* Workaround (MPICH before 5.0): the request of MPI_Rget completes before the data of a derived type are in place
 * (4.0.2; 5.0.2 waits). A flush brings them. */
int args_keep_read(struct args_set *o, int rc, MPI_Request *request, MPI_Win win, int target)
{
    if (RGET_ENDS_EARLY && rc == MPI_SUCCESS) PMPI_Win_flush(target, win);
    if (rc == MPI_SUCCESS) o->read = op_begin(win, target), o->reads = true;
    return args_keep(o, rc, request);
}

/* Unpacks what the operations read, in one batch, and frees them. Returns nonzero if that failed. */
static int finish(struct pending *list)
{
    struct batch b = {0};
    int failed = 0;
    for (struct pending *h = list; h; h = h->next) failed |= args_unpack(&h->args, &b, INT64_MAX);
    failed |= batch_wait(&b);
    for (struct pending *h = list, *next; h; h = next) {
        next = h->next;
        args_free(&h->args);
        reserve_put(h);
        atomic_fetch_sub_explicit(&window_operations, 1, memory_order_release);
    }
    return failed;
}

static int unpacking_failed(MPI_Win win)
{
    const char *what = "unpacking on the GPU failed";
    return win == MPI_WIN_NULL ? raise_error(MPI_COMM_SELF, MPI_ERR_OTHER, what)
                               : raise_window_error(win, MPI_ERR_OTHER, what);
}

/* Call it before a synchronisation: operations that other threads begin later need not be complete after it. */
static struct rma_op sync_begin(MPI_Win win, int target)
{
    return (struct rma_op){win, target, atomic_load(&ops_begun)};
}

/* Ends a synchronisation that returned rc. Waits for other threads, which may be unpacking what this one completed
 * too. win: MPI_WIN_NULL if the window is freed. Returns rc, or an error of unpacking. */
static int sync_end(const struct rma_op *last, MPI_Win win, int rc)
{
    int failed = 0;
    if (rc != MPI_SUCCESS) return rc;
    pthread_mutex_lock(&finish_lock);
    struct pending *list = pending_take(last);
    if (list) failed = finish(list);
    if (args_reading()) failed |= args_reads_finish(last);
    pthread_mutex_unlock(&finish_lock);
    return failed ? unpacking_failed(win) : rc;
}

/* A local flush unpacks what came, once: where the MPI's may miss some, it is a flush. */
#if GET_MISSES_LOCAL_FLUSH
#define FLUSH_LOCAL Win_flush
#define FLUSH_LOCAL_ALL Win_flush_all
#else
#define FLUSH_LOCAL Win_flush_local
#define FLUSH_LOCAL_ALL Win_flush_local_all
#endif

/* Defines a call that synchronises, through the MPI's call `by`; `own` does it on stridec's own window w. */
#define SYNCHRONISE(name, ...) SYNCHRONISE_BY(name, name, __VA_ARGS__)
#define SYNCHRONISE_BY(name, by, target, own, parameters, ...) \
    int call_##name parameters \
    { \
        struct window *w = window_of(win); \
        if (w) return own; \
        const struct rma_op last = sync_begin(win, target); \
        return sync_end(&last, win, next->by(__VA_ARGS__)); \
    }
SYNCHRONISE(Win_fence, ALL_TARGETS, window_fence(w, assert), (const struct next *next, int assert, MPI_Win win),
            assert, win)
SYNCHRONISE(Win_complete, ALL_TARGETS, window_complete(w), (const struct next *next, MPI_Win win), win)
SYNCHRONISE(Win_unlock, rank, window_unlock(w, rank), (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE(Win_unlock_all, ALL_TARGETS, window_unlock_all(w), (const struct next *next, MPI_Win win), win)
SYNCHRONISE(Win_flush, rank, window_flush(w, rank), (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE(Win_flush_all, ALL_TARGETS, window_flush_all(w), (const struct next *next, MPI_Win win), win)
SYNCHRONISE_BY(Win_flush_local, FLUSH_LOCAL, rank, window_flush(w, rank),
               (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE_BY(Win_flush_local_all, FLUSH_LOCAL_ALL, ALL_TARGETS, window_flush_all(w),
               (const struct next *next, MPI_Win win), win)

int call_Win_free(const struct next *next, MPI_Win *win)
{
    struct window *w = win ? window_of(*win) : NULL;
    if (w) {
        int failed = window_free(w), rc = next->Win_free(win);
        return failed ? failed : rc;
    }
    const struct rma_op last = sync_begin(win ? *win : MPI_WIN_NULL, ALL_TARGETS);
    int rc = next->Win_free(win);
    return sync_end(&last, MPI_WIN_NULL, rc);
}

/* ---- calls that matter to stridec's own windows alone ---- */

/* Defines a call that passes to the MPI for its own windows. */
#define PASS(name, own, parameters, ...) \
    int call_##name parameters \
    { \
        struct window *w = window_of(win); \
        return w ? own : next->name(__VA_ARGS__); \
    }
PASS(Win_post, window_post(w, group), (const struct next *next, MPI_Group group, int assert, MPI_Win win),
     group, assert, win)
PASS(Win_start, window_start(w, group), (const struct next *next, MPI_Group group, int assert, MPI_Win win),
     group, assert, win)
PASS(Win_wait, window_wait(w), (const struct next *next, MPI_Win win), win)
PASS(Win_test, window_test(w, flag), (const struct next *next, MPI_Win win, int *flag), win, flag)
PASS(Win_lock, window_lock(w, lock_type, rank, assert),
     (const struct next *next, int lock_type, int rank, int assert, MPI_Win win), lock_type, rank, assert, win)
PASS(Win_lock_all, window_lock_all(w, assert), (const struct next *next, int assert, MPI_Win win), assert, win)
PASS(Win_sync, window_sync(w), (const struct next *next, MPI_Win win), win)

int call_Win_get_attr(const struct next *next, MPI_Win win, int win_keyval, void *attribute_val, int *flag)
{
    struct window *w = window_of(win);
    int rc = next->Win_get_attr(win, win_keyval, attribute_val, flag);
    if (w && rc == MPI_SUCCESS && *flag) window_attribute(w, win_keyval, attribute_val);
    return rc;
}
