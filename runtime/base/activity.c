/* activity.c: see activity.h. */
#include "activity.h"
#include "spinlock.h"

_Thread_local int interpose_depth __attribute__((tls_model("initial-exec")));
atomic_bool interpose_active;
atomic_int request_records, request_dormant, request_watches, request_orphans;
atomic_int window_operations;
_Atomic int64_t descriptors_least = INT64_MAX, descriptors_look = INT64_MAX;
atomic_int descriptors_aside;
atomic_bool gate_needed;

void descriptors_arm(int64_t least)
{
    atomic_store(&descriptors_least, least);
    atomic_store(&gate_needed, descriptors_armed() && latch_calls);
    atomic_store(&descriptors_look, aside_any() || gate_on() ? 0 : least);
}
