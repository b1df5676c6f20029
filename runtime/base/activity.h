/* activity.h: the counters that stubs read before a call: does stridec serve calls now, and what is pending? */
#ifndef STRIDEC_ACTIVITY_H
#define STRIDEC_ACTIVITY_H
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Exports a function to programs, benchmarks and tests. */
#define EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)   /* read without the linker's table */
/* Depth of MPI calls of this thread, raised by stubs and around calls that must pass; 0 in the program's own code. */
extern _Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
/* Not INTERPOSE_OFF between MPI_Init and MPI_Finalize, unless stridec is disabled. INTERPOSE_OBSERVED: calls that are
 * served are recorded, shown to a profiler or counted (interpose/observed.h). */
enum { INTERPOSE_OFF, INTERPOSE_ON, INTERPOSE_OBSERVED };
extern atomic_uchar interpose_active;
extern atomic_bool interpose_recording;   /* STRIDEC_RECORD: every committed type is read */
extern atomic_bool interpose_naming;      /* STRIDEC_STATS: names of types are shown */
/* Above 0 calls that start, complete or free requests come to stridec: requests with a record, probed messages in the
 * queue, and messages in stream order that are bound (protocol/channel.c, collective/neighbor_spread.c). */
extern atomic_int request_records;
/* Above 0 MPI_Request_free does: persistent receives that the MPI serves itself, and persistent requests that may be
 * started in stream order. */
extern atomic_int request_dormant;
extern atomic_int request_light;     /* receives with a light request (light_request.c) */
extern atomic_int request_freed;     /* freed requests, and sends past their calls, whose buffers are still in use */
extern atomic_int window_operations;   /* one-sided operations not yet complete (rma.c), and windows of stridec's own */
extern atomic_int window_owned;        /* windows of stridec's own (collective/window.h) */
/* Bytes: shorter receives never get an RTS header. INT64_MAX: no receive does. */
extern _Atomic int64_t rts_least_now;
/* Bytes: stubs leave shorter receives to the MPI. rts_least_now, or 0 while probed messages or gates need a look. */
extern _Atomic int64_t rts_check_least;
extern atomic_int probed_count;   /* probed messages in the queue, or on their way into it (probed.c) */
extern atomic_bool receive_gate_needed;   /* RTS headers may come, and threads may call at once (receive_gate.h) */
#pragma GCC visibility pop

/* Returns true if types are read when they are committed, without a driver too. */
static inline bool interpose_records(void)
{
    return atomic_load_explicit(&interpose_recording, memory_order_relaxed);
}
/* Returns true if the names are kept that the program gives its types. */
static inline bool interpose_names(void)
{
    return atomic_load_explicit(&interpose_naming, memory_order_relaxed);
}
/* Returns true if a window may be stridec's own. */
static inline bool window_owned_any(void)
{
    return atomic_load_explicit(&window_owned, memory_order_acquire) != 0;
}
/* Returns true if a request may be stridec's. */
static inline bool interpose_pending(void)
{
    return (atomic_load_explicit(&request_records, memory_order_acquire)
            | atomic_load_explicit(&request_light, memory_order_acquire)) != 0;
}
/* Returns true if a request may be stridec's, or a persistent receive that the MPI serves. */
static inline bool interpose_has_requests(void)
{
    return interpose_pending() || atomic_load_explicit(&request_dormant, memory_order_acquire) != 0;
}
static inline __attribute__((always_inline)) int64_t rts_least(void)
{
    return atomic_load_explicit(&rts_least_now, memory_order_relaxed);
}
/* Returns true if messages may come as RTS headers. */
static inline bool rts_armed(void)
{
    return rts_least() != INT64_MAX;
}
/* Returns true while the queue of probed messages is in use. Call it after receive_gate_open. */
static inline bool probed_any(void)
{
    return atomic_load(&probed_count) != 0;
}
/* Returns true if a stub may leave a receive of `count` elements to the MPI. The type is plain, up to 32 bytes. */
static inline __attribute__((always_inline)) bool rts_ignore(MPI_Count count)
{
    return (int64_t)count < (int64_t)((uint64_t)atomic_load_explicit(&rts_check_least, memory_order_relaxed) / 32);
}
static inline __attribute__((always_inline)) bool receive_gate_on(void)
{
    return atomic_load_explicit(&receive_gate_needed, memory_order_relaxed);
}
/* Sets the least bytes of a message with an RTS header; INT64_MAX: none comes. Call it again when threads are new. */
void rts_arm(int64_t least);

#endif
