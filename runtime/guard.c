/* guard.c: see guard.h. */
#include "guard.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

struct guard {
    sigjmp_buf out;
    uintptr_t memory;
    size_t bytes;
};

static _Thread_local struct guard *volatile guarded;
static struct sigaction before;

static void caught(int signal, siginfo_t *info, void *context)
{
    struct guard *g = guarded;
    if (g && info->si_code > 0 && (uintptr_t)info->si_addr - g->memory < g->bytes) siglongjmp(g->out, 1);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        sigaction(signal, &before, NULL);   /* what faults does so again */
        if (info->si_code <= 0) raise(signal);
    }
}

/* After the jump the signal is as before it: it was not blocked. */
static void install(void)
{
    struct sigaction own = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigaction(SIGBUS, &own, &before);
}

bool guard_run(void (*read)(void *), void *arg, const void *memory, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct guard g = {.memory = (uintptr_t)memory, .bytes = bytes};
    pthread_once(&once, install);
    if (sigsetjmp(g.out, 0)) return guarded = NULL, false;
    guarded = &g;
    read(arg);
    guarded = NULL;
    return true;
}
