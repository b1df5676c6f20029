/* activity.c: see activity.h. */
#include "activity.h"
#include "spinlock.h"

_Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
atomic_uchar interpose_active;
atomic_bool interpose_recording, interpose_naming;
atomic_int request_records, request_dormant, request_light, request_freed;
atomic_int window_operations, window_owned;
_Atomic int64_t rts_least_now = INT64_MAX, rts_check_least = INT64_MAX;
atomic_int probed_count;
atomic_bool receive_gate_needed;

void rts_arm(int64_t least)
{
    atomic_store(&rts_least_now, least);
    atomic_store(&receive_gate_needed, rts_armed() && spinlock_needed);
    atomic_store(&rts_check_least, probed_any() || receive_gate_on() ? 0 : least);
}
