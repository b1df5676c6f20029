/* interpose.h: decides whether stridec serves an MPI call.
 * stubs.lua writes stubs for MPI_X and PMPI_X of each function in calls.lua. A stub asks interpose_enter. If that
 * returns false, the stub calls the same function of the next library. Otherwise it runs call_X with a table of next
 * functions. MPI_X leads to the next MPI_X, and PMPI_X to the next PMPI_X. */
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

/* Returns true if the MPI or stridec made the call, which then passes to the MPI (caller.c). Returns false for the
 * program: in its callbacks (error handlers, attributes, generalized requests), or after a longjmp or an exception.
 * Asked only if interpose_depth is not 0. */
bool caller_is_mpi(const void *caller);
/* Returns true, and begins the call, if stridec, which is active, serves a call of this condition. */
static inline __attribute__((always_inline)) bool interpose_due(enum when when)
{
    if (when == WHEN_PENDING && !interpose_pending()) return false;
    if (when == WHEN_START && !interpose_pending() && !receive_gate_on()) return false;
    if (when == WHEN_KEPT && !interpose_has_requests()) return false;
    if (when == WHEN_WINDOW && !atomic_load_explicit(&window_operations, memory_order_acquire)) return false;
    if (when == WHEN_DEVICE && !driver_get()) return false;
    if (when == WHEN_RECEIVE && !rts_armed() && !driver_get()) return false;
    interpose_depth++;
    return true;
}
/* How a call goes on: to the MPI, as one that stridec serves, or as one that is also observed (observed.h). */
enum entry { ENTRY_PASS, ENTRY_SERVE, ENTRY_OBSERVE };
/* Returns how a call goes on while interpose_active is not INTERPOSE_ON. */
enum entry observed_enter(enum when when);
/* Decides how a call goes on. Works only in a stub that the program called or another stub jumped to. */
static inline __attribute__((always_inline)) enum entry interpose_enter(enum when when)
{
    if (when == WHEN_DEVICE && driver_absent()) return ENTRY_PASS;
    if (interpose_depth && caller_is_mpi(__builtin_return_address(0))) return ENTRY_PASS;
    bool on = when == WHEN_ALWAYS || atomic_load_explicit(&interpose_active, memory_order_acquire) == INTERPOSE_ON;
    if (!on) return observed_enter(when);
    return interpose_due(when) ? ENTRY_SERVE : ENTRY_PASS;
}
static inline void interpose_leave(void)
{
    interpose_depth--;
}
/* Polls at the end of a call that stridec serves, and returns the call's result. */
static inline int poll_end(int rc)
{
    record_poll();
    return rc;
}
static inline void interpose_poll(void)
{
    if (!atomic_load_explicit(&request_freed, memory_order_acquire) || interpose_depth) return;
    if (!atomic_load_explicit(&interpose_active, memory_order_acquire) || !interpose_pending()) return;
    interpose_depth++;
    record_poll();
    interpose_leave();
}

#endif
