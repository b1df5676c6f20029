/* window.c: windows of stridec's own: the vote, opening the memory of all ranks, and freeing. See window.h. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/spinlock.h"
#include "node/ipc_export.h"
#include "node/sigbus_guard.h"
#include "window_internal.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- all of them ---- */

static struct window *windows;
static struct spinlock windows_lock;

struct window *window_of(MPI_Win win)
{
    if (!window_owned_any()) return NULL;
    spinlock_lock(&windows_lock);
    struct window *w = windows;
    while (w && w->win != win) w = w->next;
    spinlock_unlock(&windows_lock);
    return w;
}

static void add(struct window *w)
{
    spinlock_lock(&windows_lock);
    w->next = windows, windows = w;
    spinlock_unlock(&windows_lock);
    atomic_fetch_add_explicit(&window_operations, 1, memory_order_release);
    atomic_fetch_add_explicit(&window_owned, 1, memory_order_release);
}

static void take_out(struct window *w)
{
    spinlock_lock(&windows_lock);
    struct window **at = &windows;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    spinlock_unlock(&windows_lock);
    atomic_fetch_sub_explicit(&window_owned, 1, memory_order_release);
    atomic_fetch_sub_explicit(&window_operations, 1, memory_order_release);
}

int window_raise(struct window *w, int class, const char *what)
{
    log_write(LOG_ERROR, "%s", what);
    PMPI_Win_call_errhandler(w->win, class);
    return class;
}

void window_attribute(struct window *w, int keyval, void *value)
{
    if (keyval == MPI_WIN_BASE) *(void **)value = w->base;
    if (keyval == MPI_WIN_SIZE) *(MPI_Aint **)value = &w->size;
}

/* ---- the memory that the ranks share ---- */

/* A rank, as the others learn of it. */
struct told {
    struct ipc_export memory;   /* span 0: it exposes nothing */
    uint64_t base, gpu;
    int64_t size, unit;
    int64_t rank;               /* in MPI_COMM_WORLD */
    uint32_t number;            /* of the first rank's: of the file; 0: it could not be made */
};

static size_t shared_bytes(int ranks)
{
    size_t n = (size_t)ranks;
    return sizeof(struct window_shared) + n * sizeof(struct window_shared_rank) + 2 * n * n * sizeof(uint32_t);
}

/* Makes the file, filled with zeros, and returns its number; 0 without space. */
static uint32_t file_new(int ranks)
{
    static _Atomic uint32_t made;
    char name[128];
    const char *why;
    uint32_t number = atomic_fetch_add(&made, 1) + 1;
    off_t bytes = (off_t)shared_bytes(ranks);
    node_window_name(name, node_self()->rank, number);
    int fd = file_may_write(bytes) ? file_make(name, &why) : -1;
    bool ok = fd >= 0 && file_allocate(fd, 0, bytes);
    if (fd >= 0) close(fd);
    if (ok) return number;
    log_write(LOG_INFO, "no file for a window's ranks in shared memory");
    unlink(name);
    return 0;
}

static bool file_map(struct window *w, const struct told *first)
{
    char name[128];
    const char *why;
    if (!first->number) return false;
    node_window_name(name, (int)first->rank, first->number);
    int fd = file_open(name, O_RDWR, FILE_OWN, &why);
    if (fd < 0) return false;
    w->shared = sigbus_guard_map(fd, shared_bytes(w->ranks), PROT_READ | PROT_WRITE, 0, &w->lost);
    close(fd);
    if (!w->shared) return false;
    w->posted = (_Atomic uint32_t *)(void *)&w->shared->rank[w->ranks];
    w->completed = w->posted + (size_t)w->ranks * (size_t)w->ranks;
    return true;
}

/* ---- making ---- */

/* Opens the memory of a rank on the own device, which is entered. Returns false if the driver refuses. */
static bool open_target(struct window *w, MPI_Comm comm, int rank, const struct told *told)
{
    struct window_target *t = &w->target[rank];
    struct peer *p = node_peer_now(comm, rank);
    struct slot slot = {.user = told->base, .id = told->memory.id, .handle = told->memory.handle,
                        .start = told->memory.start, .span = told->memory.span, .gpu = told->gpu};
    t->size = told->size, t->unit = told->unit, t->address = told->base;
    if (!told->size || rank == w->rank) return p != NULL;
    t->import = p ? ipc_cache_open(p, &slot, w->device, &t->address) : NULL;
    t->across = t->import && ipc_cache_other_gpu(t->import);
    return t->import != NULL;
}

static bool open_targets(struct window *w, MPI_Comm comm, const struct told *told)
{
    bool all = !device_enter(w->device);
    if (!all) return false;
    for (int i = 0; i < w->ranks && all; i++) all = open_target(w, comm, i, &told[i]);
    if (all) typed_copy_prepare(w->device, NULL, 0);
    device_leave(w->device);
    return all;
}

static void end(struct window *w)
{
    /* Kernels that could not be waited for may still use the memory. */
    for (int i = 0; i < w->ranks && !w->n; i++) ipc_cache_put(w->target[i].import);
    sigbus_guard_unmap(w->shared);
    if (w->group != MPI_GROUP_NULL) PMPI_Group_free(&w->group);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Returns a window without memory of other ranks; NULL without memory, or without a device. *e: the own memory. */
static struct window *begin(const struct window_ask *a, MPI_Win win, struct ipc_export *e)
{
    int ranks = 0;
    if (!driver_get()) return NULL;
    PMPI_Comm_size(a->comm, &ranks);
    struct window *w = calloc(1, sizeof *w + (size_t)ranks * sizeof *w->target);
    if (!w) return NULL;
    *w = (struct window){.win = win, .group = MPI_GROUP_NULL, .ranks = ranks, .base = a->base,
                         .size = a->size};
    PMPI_Comm_rank(a->comm, &w->rank);
    pthread_mutex_init(&w->lock, NULL);
    w->device = a->size ? device_of(a->base) : device_default();
    uint64_t base = (uint64_t)(uintptr_t)a->base;
    bool shared = w->device && (!a->size || ipc_export_of(w->device, base, a->size, e));
    w->drains = a->size && !e->synchronous;
    if (shared && PMPI_Comm_group(a->comm, &w->group) == MPI_SUCCESS) return w;
    return end(w), NULL;
}

/* Opens all, together with the other ranks. Returns false, on all ranks, if one can't. */
static bool connect(struct window *w, const struct window_ask *a, const struct ipc_export *e, struct told *told)
{
    struct told mine = {.memory = *e, .base = (uint64_t)(uintptr_t)a->base, .gpu = device_gpu_id(w->device),
                        .size = a->size, .unit = a->unit, .rank = node_self()->rank};
    char name[128];
    if (w->rank == 0) mine.number = file_new(w->ranks);
    int rc = PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, told, sizeof mine, MPI_BYTE, a->comm), all = 0;
    int ok = rc == MPI_SUCCESS && file_map(w, &told[0]) && open_targets(w, a->comm, told);
    if (PMPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, a->comm) != MPI_SUCCESS) all = 0;
    node_window_name(name, node_self()->rank, mine.number);
    if (mine.number) unlink(name);
    return all;
}

/* ---- the vote ---- */

/* Bits of a vote. BARRED: the rank can't take part, or has memory that others can't open. */
enum { EXPOSES_DEVICE = 1, BARRED = 2, REFUSED = 4 };

bool window_possible(MPI_Comm comm)
{
    int inter = 1;
    if (!node_armed() || comm == MPI_COMM_NULL || PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return false;
    return !inter && (node_all_armed(comm) || node_starting());
}


/* All ranks have returned from MPI_Init, as they have made the MPI's window: so they find the same. */
enum window_owner window_decide(const struct window_ask *a, MPI_Win win)
{
    struct ipc_export e = {0};
    struct told *told = NULL;
    unsigned mine = a->refused ? REFUSED : 0, all = 0;
    if (!node_all_armed(a->comm)) return mine ? WINDOW_REFUSED_HERE : WINDOW_MPI;
    bool on_device = a->size > 0 && device_unmanaged(a->base);
    struct window *w = a->size > 0 && !on_device ? NULL : begin(a, win, &e);
    if (w) told = calloc((size_t)w->ranks, sizeof *told);
    mine |= (on_device ? EXPOSES_DEVICE : 0) | (told ? 0 : BARRED);
    bool heard = PMPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED, MPI_BOR, a->comm) == MPI_SUCCESS;
    bool own = heard && (all & (EXPOSES_DEVICE | BARRED)) == EXPOSES_DEVICE && connect(w, a, &e, told);
    free(told);
    if (own) add(w);
    else if (w) end(w);
    if (own) return WINDOW_OWN;
    if (!heard) return a->refused ? WINDOW_REFUSED_HERE : WINDOW_MPI;
    return all & REFUSED ? WINDOW_NOBODY : WINDOW_MPI;
}

int window_free(struct window *w)
{
    int rc = MPI_SUCCESS;
    pthread_mutex_lock(&w->lock);
    bool failed = window_settle(w);
    pthread_mutex_unlock(&w->lock);
    window_barrier(w);
    take_out(w);
    if (failed) rc = window_raise(w, MPI_ERR_OTHER, "operations on a window failed on the GPU");
    end(w);
    return rc;
}
