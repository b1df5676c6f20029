/* calls_window.c: one-sided communication: what a window's operations have carried stays until the synchronisation that
 * completes them at the origin. */
#include "interpose.h"
#include "log.h"
#include "next.h"
#include "operand.h"
#include <pthread.h>
#include <stdlib.h>
#include <uthash.h>

/* The operands of one operation. */
struct held {
    struct operands *operands;
    int target;
    struct held *next;
};

struct window {
    MPI_Win win;
    struct held *held;
    UT_hash_handle hh;
};

atomic_int window_operations;
static struct window *windows;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct window *window_of(MPI_Win win)
{
    struct window *w = NULL;
    HASH_FIND(hh, windows, &win, sizeof win, w);
    if (w) return w;
    w = calloc(1, sizeof *w);
    if (!w) abort();   /* the MPI is at work on the buffers: there is no way back */
    w->win = win;
    HASH_ADD(hh, windows, win, sizeof w->win, w);
    return w;
}

/* All of the list go with the window. */
static void hold(MPI_Win win, struct held *list)
{
    struct held *last = list;
    if (!list) return;
    while (last->next) last = last->next;
    pthread_mutex_lock(&lock);
    struct window *w = window_of(win);
    last->next = w->held;
    w->held = list;
    pthread_mutex_unlock(&lock);
}

#define EVERY (-1)   /* instead of a rank, which is never negative here: what goes to MPI_PROC_NULL is not carried */

/* Out of the table: what goes to a rank. */
static struct held *take(MPI_Win win, int target)
{
    struct held *taken = NULL, *h;
    struct window *w = NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, windows, &win, sizeof win, w);
    for (struct held **at = w ? &w->held : NULL; at && (h = *at);) {
        if (target != EVERY && h->target != target) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        h->next = taken;
        taken = h;
    }
    if (w && !w->held) {
        HASH_DEL(windows, w);
        free(w);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

int operands_keep_window(struct operands *o, int rc, MPI_Win win, int target)
{
    struct held *h = rc == MPI_SUCCESS ? malloc(sizeof *h) : NULL;
    if (rc != MPI_SUCCESS) {
        operands_free(o);
        return rc;
    }
    if (!h || !(h->operands = operands_move(o))) abort();
    h->target = target, h->next = NULL;
    atomic_fetch_add_explicit(&window_operations, 1, memory_order_release);
    hold(win, h);
    return rc;
}

/* MPICH 4.0.2's MPI_Rget gives a request that is complete before the data of a derived type is there, which a flush
 * brings. 5.0.2 waits for it. */
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 50000000
#define COMPLETES_EARLY 1
#else
#define COMPLETES_EARLY 0
#endif

int operands_keep_read(struct operands *o, int rc, MPI_Request *request, MPI_Win win, int target)
{
    if (COMPLETES_EARLY && rc == MPI_SUCCESS) PMPI_Win_flush_local(target, win);
    return operands_keep(o, rc, request);
}

/* Unpacks what the operations read, all together, and gives their buffers back. */
static int finish(struct held *list)
{
    struct batch b = {0};
    int failed = 0;
    for (struct held *h = list; h; h = h->next) failed |= operands_unpack(h->operands, &b, INT64_MAX);
    failed |= batch_wait(&b);
    for (struct held *h = list, *next; h; h = next) {
        next = h->next;
        operands_free(h->operands);
        free(h->operands), free(h);
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

/* The end of a synchronisation that returned rc. The operations were taken before it: another thread's, begun
 * meanwhile, it need not have completed. `win` after it: of a window that is gone, MPI_WIN_NULL. */
static int synchronised(struct held *list, MPI_Win was, MPI_Win win, int rc)
{
    if (rc != MPI_SUCCESS) hold(was, list);
    else if (list && finish(list)) rc = unpacking_failed(win);
    return rc;
}

#define SYNCHRONISE(name, target, parameters, ...) \
    int call_##name parameters \
    { \
        struct held *list = take(win, target); \
        return synchronised(list, win, win, next->name(__VA_ARGS__)); \
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
    MPI_Win was = win ? *win : MPI_WIN_NULL;
    struct held *list = take(was, EVERY);
    int rc;
    CALLING_BACK(rc, next->Win_free(win));
    return synchronised(list, was, MPI_WIN_NULL, rc);
}
