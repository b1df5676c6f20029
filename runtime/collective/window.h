/* window.h: windows of stridec's own: over device memory, among the ranks of a node, by kernels.
 *
 * MPI_Win_create is collective, so the ranks vote: a window is stridec's own if every rank is on this node, runs
 * stridec, and exposes device memory that the others can open, or nothing. The MPI then keeps a window of the same
 * ranks for its handle, error handler and attributes, and nothing else. Data move by kernels of the origin. Epochs are
 * stridec's, in memory that the ranks share (window_epoch.c): an MPI may open and close its own later than it says, and
 * many need the target's help. So no rank waits for a target that computes.
 *
 * Any thread may call these functions. Those that synchronise may block. */
#ifndef STRIDEC_WINDOW_H
#define STRIDEC_WINDOW_H
#include "args.h"
#include "base/activity.h"

struct window;

/* ---- making and freeing ---- */

struct window_ask {
    MPI_Comm comm;
    void *base;
    MPI_Aint size, unit;
    bool refused;   /* the MPI can't access the memory: its own window has none */
};
/* Returns true if all ranks of comm may vote, as far as this one knows before the MPI has made the window. */
bool window_possible(MPI_Comm comm);
enum window_owner { WINDOW_MPI, WINDOW_OWN, WINDOW_NOBODY, WINDOW_REFUSED_HERE };
/* Decides alike on all ranks whose a window is that they have just made. WINDOW_NOBODY: no rank can use it, as the MPI
 * can't access some of its memory. WINDOW_REFUSED_HERE: there was no vote, and it can't access this rank's. */
enum window_owner window_decide(const struct window_ask *a, MPI_Win win);
/* Returns the own window with this handle; NULL if it is the MPI's. */
struct window *window_of(MPI_Win win);
/* Completes all operations on all ranks, and frees the window but for the MPI's handle. Collective. Returns
 * MPI_SUCCESS, or an error that has been raised. */
int window_free(struct window *w);
/* Corrects the value of an attribute, for the MPI's window may have no memory. */
void window_attribute(struct window *w, int keyval, void *value);

/* ---- synchronising: return MPI_SUCCESS, or an error that has been raised on the window ---- */

int window_fence(struct window *w, int assert);
int window_post(struct window *w, MPI_Group group);
int window_start(struct window *w, MPI_Group group);
int window_complete(struct window *w);
int window_wait(struct window *w);
int window_test(struct window *w, int *flag);
int window_lock(struct window *w, int type, int rank, int assert);
int window_lock_all(struct window *w, int assert);
int window_unlock(struct window *w, int rank);
int window_unlock_all(struct window *w);
int window_flush(struct window *w, int rank);
int window_flush_all(struct window *w);
int window_sync(struct window *w);

/* ---- operations ---- */

enum window_call {
    WINDOW_PUT,
    WINDOW_GET,
    WINDOW_ACCUMULATE,
    WINDOW_GET_ACCUMULATE,   /* MPI_Fetch_and_op too */
    WINDOW_COMPARE_AND_SWAP
};
struct window_op {
    enum window_call call;
    MPI_Win win;
    int target;
    MPI_Aint disp;
    MPI_Count count;
    MPI_Datatype type;
    MPI_Op op;               /* of accumulates */
    MPI_Request *request;    /* NULL: none */
};
/* Does the operation if the window is stridec's own, and sets *rc. o: the arguments at the origin, as the call has
 * them. Returns false for the MPI's windows. */
bool window_take(const struct window_op *op, const struct args_set *o, int *rc);

#endif
