/* activity.h: whether stridec serves calls now, and how much it has under way: the counters that stubs read before a
 * call. */
#ifndef STRIDEC_ACTIVITY_H
#define STRIDEC_ACTIVITY_H
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Marks a function that programs, benchmarks and tests call. */
#define EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)   /* read without a look into the linker's table */
/* Calls of the MPI that this thread is in, counted by stubs and by what must not be served: 0 in the program's own
 * code. */
extern _Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
/* Set between MPI_Init and MPI_Finalize, unless stridec is disabled. */
extern atomic_bool interpose_active;
extern atomic_int request_records;     /* requests with a record (record.c), and messages put aside (probed.c) */
extern atomic_int request_dormant;     /* persistent receives with a record that the MPI serves itself */
extern atomic_int request_watches;     /* receives that are only watched (light_request.c) */
extern atomic_int request_orphans;     /* freed requests, and sends past their calls, whose buffers are still in use */
extern atomic_int window_operations;   /* one-sided operations not yet complete (rma.c) */
/* Bytes: messages to shorter receives never come as descriptors; INT64_MAX: none does. */
extern _Atomic int64_t rts_least_now;
/* Bytes: stubs leave shorter receives to the MPI. It is rts_least_now, or 0 where any receive may have to be looked
 * at: a message lies aside, or receive_gate_needed. */
extern _Atomic int64_t rts_look;
extern atomic_int rts_aside;   /* messages put aside by probes, or being put aside (probed.c) */
extern atomic_bool receive_gate_needed;   /* descriptors may come, and threads may call at once (receive_gate.h) */
#pragma GCC visibility pop

/* Returns true if a request may be stridec's. */
static inline bool interpose_pending(void)
{
    return (atomic_load_explicit(&request_records, memory_order_acquire)
            | atomic_load_explicit(&request_watches, memory_order_acquire)) != 0;
}
/* Returns true if a request, or a persistent receive that the MPI serves, may be stridec's. */
static inline bool interpose_kept(void)
{
    return interpose_pending() || atomic_load_explicit(&request_dormant, memory_order_acquire) != 0;
}
static inline __attribute__((always_inline)) int64_t rts_least(void)
{
    return atomic_load_explicit(&rts_least_now, memory_order_relaxed);
}
/* Returns true if messages may come as descriptors. */
static inline bool rts_armed(void)
{
    return rts_least() != INT64_MAX;
}
/* Returns true while messages lie aside, or are being taken; asked after receive_gate_open. */
static inline bool probed_any(void)
{
    return atomic_load(&rts_aside) != 0;
}
/* Returns true if a receive of `count` elements of a plain type, 32 bytes or less each, is too short to be looked
 * at. For stubs. */
static inline __attribute__((always_inline)) bool rts_ignore(MPI_Count count)
{
    return (int64_t)count < (int64_t)((uint64_t)atomic_load_explicit(&rts_look, memory_order_relaxed) / 32);
}
static inline __attribute__((always_inline)) bool receive_gate_on(void)
{
    return atomic_load_explicit(&receive_gate_needed, memory_order_relaxed);
}
/* Sets what descriptors and gates need: `least` bytes, INT64_MAX: none comes. Call it again when threads are new. */
void rts_arm(int64_t least);

#endif
