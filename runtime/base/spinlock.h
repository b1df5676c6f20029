/* spinlock.h: a lock for a few instructions, which no call of the system or of another library is among, but where a
 * table grows: one exchange takes it, a store gives it back. (A message meets some twenty of these, which as mutexes
 * were a tenth of what the processor does for it.) What may take long is locked by a mutex. */
#ifndef STRIDEC_LATCH_H
#define STRIDEC_LATCH_H
#include "backoff.h"
#include <stdatomic.h>
#include <stdbool.h>

struct spinlock {
    atomic_bool closed;   /* begins zeroed */
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

/* True once threads may be in the MPI's calls at the same time (MPI_THREAD_MULTIPLE). Until then what only those
 * calls touch needs no lock: twenty of the 35 atomic operations of a message. record_begin sets it before there can
 * be such threads. */
#pragma GCC visibility push(hidden)   /* read without a look into the linker's table */
extern bool spinlock_calls;
#pragma GCC visibility pop

/* Locks data that only the MPI's calls touch. */
static inline void spinlock_enter(struct spinlock *l)
{
    if (spinlock_calls) spinlock_lock(l);
}

static inline void spinlock_leave(struct spinlock *l)
{
    if (spinlock_calls) spinlock_unlock(l);
}

/* Adds to a count that only these calls change, and others may read. */
static inline void spinlock_count(atomic_int *n, int more)
{
    if (spinlock_calls) atomic_fetch_add_explicit(n, more, memory_order_release);
    else atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more, memory_order_release);
}

#endif
