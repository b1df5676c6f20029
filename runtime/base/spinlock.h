/* spinlock.h: a lock for a few instructions, which no call of the system or of another library is among, but where a
 * table grows: one exchange takes it, a store gives it back. (A message meets some twenty of these, which as mutexes
 * were a tenth of what the processor does for it.) What may take long is locked by a mutex. */
#ifndef STRIDEC_LATCH_H
#define STRIDEC_LATCH_H
#include "backoff.h"
#include <stdatomic.h>
#include <stdbool.h>

struct latch {
    atomic_bool closed;   /* begins zeroed */
};

static inline void latch_close(struct latch *l)
{
    for (unsigned spins = 0; atomic_exchange_explicit(&l->closed, true, memory_order_acquire);)
        while (atomic_load_explicit(&l->closed, memory_order_relaxed)) spin(spins++);
}

static inline void latch_open(struct latch *l)
{
    atomic_store_explicit(&l->closed, false, memory_order_release);
}

/* True once threads may be in the MPI's calls at the same time (MPI_THREAD_MULTIPLE). Until then what only those
 * calls touch needs no lock: twenty of the 35 atomic operations of a message. record_begin sets it before there can
 * be such threads. */
#pragma GCC visibility push(hidden)   /* read without a look into the linker's table */
extern bool latch_calls;
#pragma GCC visibility pop

/* Locks data that only the MPI's calls touch. */
static inline void latch_enter(struct latch *l)
{
    if (latch_calls) latch_close(l);
}

static inline void latch_leave(struct latch *l)
{
    if (latch_calls) latch_open(l);
}

/* Adds to a count that only these calls change, and others may read. */
static inline void latch_count(atomic_int *n, int more)
{
    if (latch_calls) atomic_fetch_add_explicit(n, more, memory_order_release);
    else atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more, memory_order_release);
}

#endif
