/* backoff.h: waits for others by spinning. Yields sometimes, since with few cores the other may need this core. */
#ifndef STRIDEC_BACKOFF_H
#define STRIDEC_BACKOFF_H
#include <sched.h>

#define SPINS_PER_YIELD 512

static inline void cpu_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");   /* `yield` does nothing on most ARM cores */
#endif
}

/* Waits for turn number `spins`: about 40 ns, and one system call every SPINS_PER_YIELD turns. */
static inline void backoff(unsigned spins)
{
    if (spins % SPINS_PER_YIELD == SPINS_PER_YIELD - 1) sched_yield();
    cpu_pause();
}

#endif
