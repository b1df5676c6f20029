/* interpose.h: who may act on an MPI call, and the way down.
 *
 * Stubs (made by stubs.lua) stand for MPI_X and PMPI_X of each function in calls.lua. A stub asks
 * interpose_enter; where that says no, it is a straight call to the next library's function of the same name.
 * Otherwise it runs call_X with the table of next functions, so that a call that came in by MPI_X goes on to
 * the next MPI_X and one by PMPI_X to the next PMPI_X. */
#ifndef STRIDEC_INTERPOSE_H
#define STRIDEC_INTERPOSE_H
#include "driver.h"
#include <stdatomic.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum when { WHEN_ALWAYS, WHEN_DEVICE, WHEN_PENDING };

/* Calls made by the MPI or by stridec itself while a call is being served go straight down. */
extern _Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
/* Set between MPI_Init and MPI_Finalize, unless stridec is disabled. */
extern atomic_bool interpose_active;
/* Number of side records of requests (request.c). */
extern atomic_int request_records;

static inline bool interpose_enter(enum when when)
{
    if (interpose_depth) return false;
    if (when != WHEN_ALWAYS && !atomic_load_explicit(&interpose_active, memory_order_acquire)) return false;
    if (when == WHEN_PENDING && !atomic_load_explicit(&request_records, memory_order_acquire)) return false;
    if (when == WHEN_DEVICE && !driver_get()) return false;
    interpose_depth++;
    return true;
}
static inline void interpose_leave(void)
{
    interpose_depth--;
}

/* Number of freed requests that the MPI has not completed yet, and what looks after them (request.c). */
extern atomic_int request_orphans;
void record_poll(void);
static inline void interpose_poll(void)
{
    if (!atomic_load_explicit(&request_orphans, memory_order_acquire) || !interpose_enter(WHEN_PENDING)) return;
    record_poll();
    interpose_leave();
}

#endif
