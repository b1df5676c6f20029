/* rma.c: one-sided communication: what a window's operations have carried stays until the synchronisation that
 * completes them at the origin. */
#include "args.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "next.h"
#include "request/request_ops.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

/* The operands of one operation. */
struct held {
    struct args_set *operands;
    struct read_from of;
    struct held *next;
};

struct window {
    MPI_Win win;
    struct held *held;
    UT_hash_handle hh;
};

static atomic_ulong begun;        /* operations, ever */
static struct window *windows;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t finishing = PTHREAD_MUTEX_INITIALIZER;

static struct window *window_of(MPI_Win win)
{
    struct window *w = NULL;
    HASH_FIND(hh, windows, &win, sizeof win, w);
    if (w) return w;
    w = reserve_get(sizeof *w);
    w->win = win;
    HASH_ADD(hh, windows, win, sizeof w->win, w);
    return w;
}

static void hold(struct held *h)
{
    pthread_mutex_lock(&lock);
    struct window *w = window_of(h->of.win);
    h->next = w->held;
    w->held = h;
    pthread_mutex_unlock(&lock);
}

#define EVERY INT_MIN   /* instead of a rank, which MPI_PROC_NULL is too */

static bool among(const struct read_from *of, const struct read_from *last)
{
    return of->number <= last->number && (last->target == EVERY || of->target == last->target);
}

/* Out of the table: what goes to a rank. */
static struct held *take(const struct read_from *last)
{
    struct held *taken = NULL, *h;
    struct window *w = NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, windows, &last->win, sizeof last->win, w);
    for (struct held **at = w ? &w->held : NULL; at && (h = *at);) {
        if (!among(&h->of, last)) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = taken;
        taken = h;
    }
    if (w && !w->held) {
        HASH_DEL(windows, w);
        reserve_put(w);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static struct read_from operation(MPI_Win win, int target)
{
    atomic_fetch_add_explicit(&window_operations, 1, memory_order_release);
    return (struct read_from){win, target, atomic_fetch_add(&begun, 1) + 1};
}

/* More than there is room for, and what can't be told, is the MPI's to refuse. */
void args_bring(struct args_set *o, MPI_Count count, MPI_Datatype type)
{
    MPI_Count size;
    o->bounded = count >= 0 && type != MPI_DATATYPE_NULL && PMPI_Type_size_x(type, &size) == MPI_SUCCESS && size >= 0
                 && !__builtin_mul_overflow((int64_t)count, (int64_t)size, &o->brings);
}

int args_keep_window(struct args_set *o, int rc, MPI_Win win, int target)
{
    if (rc != MPI_SUCCESS) {
        args_free(o);
        return rc;
    }
    struct held *h = reserve_get(sizeof *h);
    h->operands = args_move(o);
    h->of = operation(win, target);
    hold(h);
    return rc;
}

/* MPICH 4.0.2's MPI_Rget gives a request that is complete before the data of a derived type is there, which a flush
 * brings. 5.0.2 waits for it. */
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
#define COMPLETES_EARLY 1
#else
#define COMPLETES_EARLY 0
#endif

int args_keep_read(struct args_set *o, int rc, MPI_Request *request, MPI_Win win, int target)
{
    if (COMPLETES_EARLY && rc == MPI_SUCCESS) PMPI_Win_flush_local(target, win);
    if (rc == MPI_SUCCESS) o->read = operation(win, target);
    return args_keep(o, rc, request);
}

/* Of an operation up to the last, from a target or all, whose data a synchronisation brought. */
static bool was_read(const void *of, const void *last)
{
    const struct args_set *o = of;
    const struct read_from *l = last;
    return o->read.number && o->read.win == l->win && among(&o->read, l);
}

static void have_read(void *of)
{
    args_have_read(of);
}

/* Unpacks what the operations read, all together, and gives their buffers back. */
static int finish(struct held *list)
{
    struct batch b = {0};
    int failed = 0;
    for (struct held *h = list; h; h = h->next) failed |= args_unpack(h->operands, &b, INT64_MAX);
    failed |= batch_wait(&b);
    for (struct held *h = list, *next; h; h = next) {
        next = h->next;
        args_free(h->operands);
        reserve_put(h->operands), reserve_put(h);
        atomic_fetch_sub_explicit(&window_operations, 1, memory_order_release);
    }
    return failed;
}

static int unpacking_failed(MPI_Win win)
{
    const char *what = "unpacking on the GPU failed";
    if (win == MPI_WIN_NULL) return raise_error(MPI_COMM_SELF, MPI_ERR_OTHER, what);
    log_write(LOG_ERROR, "%s", what);
    PMPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/* Before a synchronisation: what it completes. Another thread's operation, begun meanwhile, it need not have
 * completed. */
static struct read_from all_of(MPI_Win win, int target)
{
    return (struct read_from){win, target, atomic_load(&begun)};
}

/* The end of one that returned rc. Another thread's may be unpacking what this one has completed too. `win`: of a
 * window that is gone, MPI_WIN_NULL. */
static int synchronised(const struct read_from *last, MPI_Win win, int rc)
{
    int failed = 0;
    if (rc != MPI_SUCCESS) return rc;
    pthread_mutex_lock(&finishing);
    struct held *list = take(last);
    if (list) failed = finish(list);
    if (args_reading()) failed |= records_walk(&(struct records_walk){&args_ops, was_read, have_read}, last);
    pthread_mutex_unlock(&finishing);
    return failed ? unpacking_failed(win) : rc;
}

#define SYNCHRONISE(name, target, parameters, ...) \
    int call_##name parameters \
    { \
        const struct read_from last = all_of(win, target); \
        return synchronised(&last, win, next->name(__VA_ARGS__)); \
    }
SYNCHRONISE(Win_fence, EVERY, (const struct next *next, int assert, MPI_Win win), assert, win)
SYNCHRONISE(Win_complete, EVERY, (const struct next *next, MPI_Win win), win)
SYNCHRONISE(Win_unlock, rank, (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE(Win_unlock_all, EVERY, (const struct next *next, MPI_Win win), win)
SYNCHRONISE(Win_flush, rank, (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE(Win_flush_all, EVERY, (const struct next *next, MPI_Win win), win)
SYNCHRONISE(Win_flush_local, rank, (const struct next *next, int rank, MPI_Win win), rank, win)
SYNCHRONISE(Win_flush_local_all, EVERY, (const struct next *next, MPI_Win win), win)

int call_Win_free(const struct next *next, MPI_Win *win)
{
    const struct read_from last = all_of(win ? *win : MPI_WIN_NULL, EVERY);
    int rc = next->Win_free(win);
    return synchronised(&last, MPI_WIN_NULL, rc);
}
