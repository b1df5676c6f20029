/* latch.h: a lock for a few instructions, which no call of the system or of another library is among, but where a table grows:
 * one exchange takes it, a store gives it back. (A message meets some twenty of these, which as mutexes were a tenth of what
 * the processor does for it.) What may take long is locked by a mutex. */
#ifndef STRIDEC_LATCH_H
#define STRIDEC_LATCH_H
#include "spin.h"
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

#endif
