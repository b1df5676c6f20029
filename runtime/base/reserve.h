/* reserve.h: memory for records without which a call that has begun can't end: where malloc has none, of a reserve
 * of fixed size. Thread safe. */
#ifndef STRIDEC_RESERVE_H
#define STRIDEC_RESERVE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns at least `bytes` (RESERVE_MOST at most), zeroed, of malloc or of the reserve. Where the reserve is used up
 * too, says so and ends the process: calls that look at reserve_low first do not come to that. */
#define RESERVE_MOST 8192
void *reserve_get(size_t bytes);
/* Returns the reserve's alone; NULL where it is used up, or has no blocks of that size. */
void *reserve_take(size_t bytes);
/* Gives either back; NULL is allowed. */
void reserve_put(void *p);
/* Returns true if the memory is the reserve's: it is not to be kept. */
bool reserve_owns(const void *p);

/* Returns true if no call may begin that needs a record later: it returns MPI_ERR_NO_MEM. */
#pragma GCC visibility push(hidden)
extern atomic_int reserve_taken;
#pragma GCC visibility pop
#define RESERVE_BLOCKS 128
static inline bool reserve_low(void)
{
    return atomic_load_explicit(&reserve_taken, memory_order_relaxed) > RESERVE_BLOCKS / 2;
}

#endif
