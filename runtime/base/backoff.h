/* backoff.h: waiting for other processes of this node, and for other threads: on the spot, but where there are fewer
 * cores the one that is waited for may need this very core. */
#ifndef STRIDEC_SPIN_H
#define STRIDEC_SPIN_H
#include <sched.h>

#define SPINS_A_YIELD 512

/* The core is doing nothing but wait. */
static inline void cpu_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");   /* `yield` does nothing on most */
#endif
}

/* One turn, the number of which is `spins`: some 40 ns, and once in 512 turns a call of the system. */
static inline void backoff(unsigned spins)
{
    if (spins % SPINS_A_YIELD == SPINS_A_YIELD - 1) sched_yield();
    cpu_pause();
}

#endif
