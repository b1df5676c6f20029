/* interpose.h: who may act on an MPI call, and the way down.
 *
 * Stubs (made by stubs.lua) stand for MPI_X and PMPI_X of each function in calls.lua. A stub asks
 * interpose_enter; where that says no, it is a straight call to the next library's function of the same name.
 * Otherwise it runs call_X with the table of next functions, so that a call that came in by MPI_X goes on to
 * the next MPI_X and one by PMPI_X to the next PMPI_X. */
#ifndef STRIDEC_INTERPOSE_H
#define STRIDEC_INTERPOSE_H
#include "base/activity.h"
#include "device/driver.h"
#include "node/segment.h"
#include "request/record.h"
#include <stdatomic.h>
#include <stdbool.h>

enum when {
    WHEN_ALWAYS,
    WHEN_DEVICE,
    WHEN_HOST,
    WHEN_RECEIVE,
    WHEN_NODE,
    WHEN_PENDING,
    WHEN_START,
    WHEN_KEPT,
    WHEN_WINDOW
};

/* Calls made by the MPI or by stridec itself while a call is being served go straight down. Those that the program
 * makes then are served like all others: in what the MPI calls back (error handlers, attributes, generalized
 * requests), or after that has left the call by longjmp or an exception. */
/* Where the depth is not 0: false if this place in the code is the program's (caller.c). */
bool interpose_below(const void *caller);
/* In a stub, which was jumped to, or called by the program. */
static inline __attribute__((always_inline)) bool interpose_enter(enum when when)
{
    if (when == WHEN_DEVICE && driver_absent()) return false;
    if (interpose_depth && interpose_below(__builtin_return_address(0))) return false;
    if (when != WHEN_ALWAYS && !atomic_load_explicit(&interpose_active, memory_order_acquire)) return false;
    if (when == WHEN_PENDING && !interpose_pending()) return false;
    if (when == WHEN_START && !interpose_pending() && !receive_gate_on()) return false;
    if (when == WHEN_KEPT && !interpose_kept()) return false;
    if (when == WHEN_WINDOW && !atomic_load_explicit(&window_operations, memory_order_acquire)) return false;
    if (when == WHEN_DEVICE && !driver_get()) return false;
    if (when == WHEN_RECEIVE && !rts_armed() && !driver_get()) return false;
    interpose_depth++;
    return true;
}
static inline void interpose_leave(void)
{
    interpose_depth--;
}
static inline void interpose_poll(void)
{
    if (!atomic_load_explicit(&request_orphans, memory_order_acquire) || interpose_depth) return;
    if (!atomic_load_explicit(&interpose_active, memory_order_acquire) || !interpose_pending()) return;
    interpose_depth++;
    record_poll();
    interpose_leave();
}

#endif
