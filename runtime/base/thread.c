/* thread.c: starts threads. */
#include "thread.h"
#include <signal.h>

/* A thread that blocks these ends the process at its first fault, and no handler is asked (sigbus_guard.h). */
static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP};

int thread_start(pthread_t *to, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_attr_init(&attributes);
    if (stack_bytes) pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(to, &attributes, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}
