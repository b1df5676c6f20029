/* block.h: runs the threads of one block and lets them meet. prelude.hpp has the kernels' side of it. */
#ifndef SIM_BLOCK_H
#define SIM_BLOCK_H
#include <stddef.h>

/* What a kernel's entry point gets, beside its launch: prelude.hpp declares the same. */
struct block_calls {
    /* Runs one block. threads(launch) runs all threads of the block that have not begun, one after another. It is
     * called again, on another stack, where one of them waits. */
    void (*run)(void (*threads)(void *), void *launch);
    /* A thread (its number in the block) waits: with mask 0 for the whole block, else for the threads of its warp
     * that mask names. `line` tells one barrier from another. */
    void (*meet)(unsigned thread, unsigned mask, int line);
};
extern const struct block_calls block_calls;

/* The shared memory of the kernels that run next: garbage when a block starts, as on hardware. */
void block_shared(void *memory, size_t bytes);

#endif
