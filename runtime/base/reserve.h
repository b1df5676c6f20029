/* reserve.h: memory for records without which a started call can't end, if malloc has none. Thread safe. */
#ifndef STRIDEC_RESERVE_H
#define STRIDEC_RESERVE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns at least `bytes` (at most RESERVE_MOST), zeroed, from malloc or the reserve. Ends the process with a log
 * line if both are empty; calls that check reserve_low first never get there. */
#define RESERVE_MOST 8192
void *reserve_get(size_t bytes);
/* Returns memory from the reserve only; NULL if it is empty or its blocks are too small. */
void *reserve_take(size_t bytes);
/* Frees memory of both functions; NULL is allowed. */
void reserve_put(void *p);

/* Returns true if a call that will need a record must not start but return MPI_ERR_NO_MEM. */
#pragma GCC visibility push(hidden)
extern atomic_int reserve_taken;
#pragma GCC visibility pop
#define RESERVE_BLOCKS 128
static inline bool reserve_low(void)
{
    return atomic_load_explicit(&reserve_taken, memory_order_relaxed) > RESERVE_BLOCKS / 2;
}

#endif
