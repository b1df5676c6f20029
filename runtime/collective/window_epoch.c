/* window_epoch.c: epochs of stridec's own windows, in memory that the ranks share.
 *
 *   lock        a word of each rank: readers, or a writer. A writer that waits keeps new readers out.
 *   post, start posted[waits][does] counts how often a rank has posted to another. A start waits for one more.
 *   complete    so does completed[waits][does], for which MPI_Win_wait waits.
 *   fence       a barrier, whatever the asserts say: `arrived` counts all ranks.
 *
 * Whoever ends an epoch has waited for its own kernels before it tells the others. Operations on a rank are allowed
 * after a fence without MPI_MODE_NOSUCCEED, and in epochs of the other kinds. */
#include "base/backoff.h"
#include "base/self_comm.h"
#include "node/ipc_export.h"
#include "protocol/rndv_send.h"
#include "window_internal.h"
#include <stdlib.h>

#define SPINS_A_TURN 256
#define LOST "the shared memory of a window's ranks was cut"
#define WRONG(w, what) window_raise(w, MPI_ERR_RMA_SYNC, what)

typedef bool condition(struct window *w, uint64_t arg);

void window_progress(void)
{
    rndv_send_serve();
    comm_progress(MPI_COMM_WORLD);
}

/* Waits until `is`, and lets messages progress, for which the other ranks may wait first. Returns an MPI code. */
static int await(struct window *w, condition *is, uint64_t arg)
{
    for (unsigned spins = 1; !is(w, arg); spins++) {
        if (atomic_load_explicit(&w->lost, memory_order_relaxed)) return window_raise(w, MPI_ERR_OTHER, LOST);
        if (spins % SPINS_A_TURN == 0) window_progress();
        backoff(spins);
    }
    return MPI_SUCCESS;
}

/* Completes the own operations, and lets messages progress. */
static int complete_own(struct window *w)
{
    pthread_mutex_lock(&w->lock);
    int failed = window_settle(w);
    pthread_mutex_unlock(&w->lock);
    window_progress();
    return failed ? window_raise(w, MPI_ERR_OTHER, "operations on a window failed on the GPU") : MPI_SUCCESS;
}

/* Lets peers see copies that the program has made into its memory. */
static int show_own(struct window *w)
{
    int failed = w->drains ? ipc_export_drain(w->device) : 0;
    return failed ? window_raise(w, MPI_ERR_OTHER, "a window's memory can't be waited for") : MPI_SUCCESS;
}

static int complete_and_show(struct window *w)
{
    int rc = complete_own(w);
    return rc == MPI_SUCCESS ? show_own(w) : rc;
}

/* ---- all ranks ---- */

static bool have_arrived(struct window *w, uint64_t all)
{
    return atomic_load_explicit(&w->shared->arrived, memory_order_acquire) >= all;
}

int window_barrier(struct window *w)
{
    uint64_t n = (uint64_t)w->ranks, mine = atomic_fetch_add(&w->shared->arrived, 1);
    return await(w, have_arrived, (mine / n + 1) * n);
}

/* A rank whose kernels failed still takes part: the others wait for it. */
int window_fence(struct window *w, int assert)
{
    int rc = complete_and_show(w), waited = window_barrier(w);
    w->fenced = !(assert & MPI_MODE_NOSUCCEED);
    return rc != MPI_SUCCESS ? rc : waited;
}

int window_sync(struct window *w)
{
    int rc = show_own(w);
    window_progress();
    atomic_thread_fence(memory_order_seq_cst);
    return rc;
}

/* ---- groups ---- */

/* Sets *ranks (malloc'd) to a group's ranks in the window. Returns their number; -1 if it is wrong. */
static int ranks_of(struct window *w, MPI_Group group, int **ranks)
{
    int n = 0;
    *ranks = NULL;
    if (group == MPI_GROUP_NULL || PMPI_Group_size(group, &n) != MPI_SUCCESS) return -1;
    int *own = malloc(((size_t)n + 1) * sizeof *own);
    *ranks = malloc(((size_t)n + 1) * sizeof **ranks);
    for (int i = 0; own && i < n; i++) own[i] = i;
    bool ok = own && *ranks && PMPI_Group_translate_ranks(group, n, own, w->group, *ranks) == MPI_SUCCESS;
    for (int i = 0; ok && i < n; i++) ok = (*ranks)[i] != MPI_UNDEFINED;
    free(own);
    if (ok) return n;
    free(*ranks), *ranks = NULL;
    return -1;
}

static _Atomic uint32_t *counter(struct window *w, _Atomic uint32_t *matrix, int waits, int does)
{
    return &matrix[(size_t)waits * (size_t)w->ranks + (size_t)does];
}

static void tell(struct window *w, _Atomic uint32_t *matrix, int rank)
{
    atomic_fetch_add_explicit(counter(w, matrix, rank, w->rank), 1, memory_order_release);
}

static bool has_posted(struct window *w, uint64_t rank)
{
    return atomic_load_explicit(counter(w, w->posted, w->rank, (int)rank), memory_order_acquire)
           != w->target[rank].posts;
}

static bool has_completed(struct window *w, uint64_t rank)
{
    return atomic_load_explicit(counter(w, w->completed, w->rank, (int)rank), memory_order_acquire)
           != w->target[rank].completes;
}

int window_post(struct window *w, MPI_Group group)
{
    int *ranks, n;
    if (w->posts) return WRONG(w, "MPI_Win_post before the last epoch of its kind has ended");
    int rc = show_own(w);
    if (rc != MPI_SUCCESS) return rc;
    if ((n = ranks_of(w, group, &ranks)) < 0) return window_raise(w, MPI_ERR_GROUP, "MPI_Win_post: a wrong group");
    for (int i = 0; i < n; i++) w->target[ranks[i]].exposed = true, tell(w, w->posted, ranks[i]);
    free(ranks);
    w->posts = true, w->fenced = false;
    return MPI_SUCCESS;
}

int window_start(struct window *w, MPI_Group group)
{
    int *ranks, n, rc = MPI_SUCCESS;
    if (w->starts) return WRONG(w, "MPI_Win_start before the last epoch of its kind has ended");
    if ((n = ranks_of(w, group, &ranks)) < 0) return window_raise(w, MPI_ERR_GROUP, "MPI_Win_start: a wrong group");
    for (int i = 0; i < n && rc == MPI_SUCCESS; i++) {
        struct window_target *t = &w->target[ranks[i]];
        rc = await(w, has_posted, (uint64_t)ranks[i]);
        if (rc == MPI_SUCCESS) t->posts++, t->started = true;
    }
    free(ranks);
    w->starts = true, w->fenced = false;
    return rc;
}

int window_complete(struct window *w)
{
    if (!w->starts) return WRONG(w, "MPI_Win_complete without MPI_Win_start");
    int rc = complete_own(w);
    for (int i = 0; i < w->ranks; i++) {
        if (!w->target[i].started) continue;
        w->target[i].started = false;
        tell(w, w->completed, i);
    }
    w->starts = false;
    return rc;
}

static void end_exposure(struct window *w)
{
    for (int i = 0; i < w->ranks; i++) {
        struct window_target *t = &w->target[i];
        t->completes += t->exposed;
        t->exposed = false;
    }
    w->posts = false;
}

int window_wait(struct window *w)
{
    int rc = MPI_SUCCESS;
    if (!w->posts) return WRONG(w, "MPI_Win_wait without MPI_Win_post");
    for (int i = 0; i < w->ranks && rc == MPI_SUCCESS; i++)
        if (w->target[i].exposed) rc = await(w, has_completed, (uint64_t)i);
    if (rc == MPI_SUCCESS) end_exposure(w);
    return rc;
}

int window_test(struct window *w, int *flag)
{
    if (!w->posts) return WRONG(w, "MPI_Win_test without MPI_Win_post");
    *flag = 1;
    for (int i = 0; i < w->ranks && *flag; i++) *flag = !w->target[i].exposed || has_completed(w, (uint64_t)i);
    if (*flag) end_exposure(w);
    else window_progress();
    return MPI_SUCCESS;
}

/* ---- locks ---- */

static bool try_shared(struct window *w, uint64_t rank)
{
    _Atomic uint32_t *lock = &w->shared->rank[rank].lock;
    uint32_t is = atomic_load_explicit(lock, memory_order_relaxed);
    return !(is & (WINDOW_WRITER | WINDOW_WANTED))
           && atomic_compare_exchange_strong_explicit(lock, &is, is + 1, memory_order_acquire, memory_order_relaxed);
}

static bool try_exclusive(struct window *w, uint64_t rank)
{
    _Atomic uint32_t *lock = &w->shared->rank[rank].lock;
    uint32_t is = atomic_load_explicit(lock, memory_order_relaxed);
    if (is & ~WINDOW_WANTED) {
        if (!(is & WINDOW_WANTED)) atomic_fetch_or_explicit(lock, WINDOW_WANTED, memory_order_relaxed);
        return false;
    }
    return atomic_compare_exchange_strong_explicit(lock, &is, WINDOW_WRITER, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void release(struct window *w, int rank, enum window_hold hold)
{
    _Atomic uint32_t *lock = &w->shared->rank[rank].lock;
    if (hold == HOLD_SHARED) atomic_fetch_sub_explicit(lock, 1, memory_order_release);
    if (hold == HOLD_EXCLUSIVE) atomic_fetch_and_explicit(lock, ~WINDOW_WRITER, memory_order_release);
}

/* Takes all or none: a rank that waited with some would keep others from exclusive locks of them. */
static bool try_all_shared(struct window *w, uint64_t arg)
{
    int taken = 0;
    (void)arg;
    while (taken < w->ranks && try_shared(w, (uint64_t)taken)) taken++;
    if (taken == w->ranks) return true;
    while (taken--) release(w, taken, HOLD_SHARED);
    return false;
}

static bool is_rank(const struct window *w, int rank)
{
    return rank >= 0 && rank < w->ranks;
}

static int take_lock(struct window *w, int type, int rank, int assert)
{
    bool checks = !(assert & MPI_MODE_NOCHECK);
    int rc = rank == w->rank ? show_own(w) : MPI_SUCCESS;
    if (checks && rc == MPI_SUCCESS)
        rc = await(w, type == MPI_LOCK_SHARED ? try_shared : try_exclusive, (uint64_t)rank);
    if (rc == MPI_SUCCESS)
        w->target[rank].hold = !checks ? HOLD_UNCHECKED : type == MPI_LOCK_SHARED ? HOLD_SHARED : HOLD_EXCLUSIVE;
    return rc;
}

int window_lock(struct window *w, int type, int rank, int assert)
{
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    if (!is_rank(w, rank)) return window_raise(w, MPI_ERR_RANK, "MPI_Win_lock: no such rank");
    if (type != MPI_LOCK_SHARED && type != MPI_LOCK_EXCLUSIVE)
        return window_raise(w, MPI_ERR_LOCKTYPE, "MPI_Win_lock: no such type of lock");
    if (w->target[rank].hold || w->all_locked) return WRONG(w, "MPI_Win_lock of a rank that is locked");
    w->fenced = false;
    return take_lock(w, type, rank, assert);
}

int window_lock_all(struct window *w, int assert)
{
    bool checks = !(assert & MPI_MODE_NOCHECK), held = false;
    for (int i = 0; i < w->ranks; i++) held |= w->target[i].hold != HOLD_NONE;
    if (held) return WRONG(w, "MPI_Win_lock_all while a rank is locked");
    int rc = show_own(w);
    if (rc == MPI_SUCCESS && checks) rc = await(w, try_all_shared, 0);
    if (rc != MPI_SUCCESS) return rc;
    for (int i = 0; i < w->ranks; i++) w->target[i].hold = checks ? HOLD_SHARED : HOLD_UNCHECKED;
    w->all_locked = true, w->fenced = false;
    return MPI_SUCCESS;
}

int window_unlock(struct window *w, int rank)
{
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    if (!is_rank(w, rank)) return window_raise(w, MPI_ERR_RANK, "MPI_Win_unlock: no such rank");
    enum window_hold hold = w->target[rank].hold;
    if (!hold || w->all_locked) return WRONG(w, "MPI_Win_unlock of a rank that is not locked");
    int rc = rank == w->rank ? complete_and_show(w) : complete_own(w);
    w->target[rank].hold = HOLD_NONE;
    release(w, rank, hold);
    return rc;
}

int window_unlock_all(struct window *w)
{
    if (!w->all_locked) return WRONG(w, "MPI_Win_unlock_all without MPI_Win_lock_all");
    int rc = complete_and_show(w);
    w->all_locked = false;
    for (int i = 0; i < w->ranks; i++) {
        release(w, i, w->target[i].hold);
        w->target[i].hold = HOLD_NONE;
    }
    return rc;
}

int window_flush(struct window *w, int rank)
{
    if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
    if (!is_rank(w, rank)) return window_raise(w, MPI_ERR_RANK, "MPI_Win_flush: no such rank");
    if (!w->target[rank].hold) return WRONG(w, "MPI_Win_flush of a rank that is not locked");
    return complete_own(w);
}

int window_flush_all(struct window *w)
{
    bool held = false;
    for (int i = 0; i < w->ranks; i++) held |= w->target[i].hold != HOLD_NONE;
    return held ? complete_own(w) : WRONG(w, "MPI_Win_flush_all without a lock");
}
