/* spinlock.h: a lock for a few instructions, without calls of the system or of libraries unless a table grows. Longer
 * sections use a mutex. A message takes about twenty locks; as mutexes they took a tenth of its processor time. */
#ifndef STRIDEC_SPINLOCK_H
#define STRIDEC_SPINLOCK_H
#include "backoff.h"
#include <stdatomic.h>
#include <stdbool.h>

struct spinlock {
    atomic_bool closed;   /* initially zero */
};

static inline void spinlock_lock(struct spinlock *l)
{
    for (unsigned spins = 0; atomic_exchange_explicit(&l->closed, true, memory_order_acquire);)
        while (atomic_load_explicit(&l->closed, memory_order_relaxed)) backoff(spins++);
}

static inline void spinlock_unlock(struct spinlock *l)
{
    atomic_store_explicit(&l->closed, false, memory_order_release);
}

/* Set once threads may be in MPI calls at the same time (MPI_THREAD_MULTIPLE). Until then data that only MPI calls
 * touch needs no lock: most of the atomic operations of a message. Each waits for all earlier stores. record_begin sets
 * it in MPI_Init_thread and MPI_Session_init. What the progress thread and the compile worker touch always needs the
 * lock: slots on their way out, and all below kernel_move, which packs for receivers that refused. */
#pragma GCC visibility push(hidden)   /* read without the linker's table */
extern bool spinlock_needed;
#pragma GCC visibility pop

/* Locks data that only MPI calls touch. */
static inline void spinlock_enter(struct spinlock *l)
{
    if (spinlock_needed) spinlock_lock(l);
}

static inline void spinlock_leave(struct spinlock *l)
{
    if (spinlock_needed) spinlock_unlock(l);
}

/* Adds to a counter that only MPI calls change and others may read. */
static inline void spinlock_count(atomic_int *n, int more)
{
    if (spinlock_needed) atomic_fetch_add_explicit(n, more, memory_order_release);
    else atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more, memory_order_release);
}

#endif
