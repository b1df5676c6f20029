/* thread.h: threads of stridec's own. */
#ifndef STRIDEC_THREAD_H
#define STRIDEC_THREAD_H
#include <pthread.h>
#include <stddef.h>

/* Starts a thread that takes no signals: those are for the application's threads. stack_bytes: 0 for the usual size.
 * Returns 0, or an error number. */
int thread_start(pthread_t *to, size_t stack_bytes, void *(*run)(void *arg), void *arg);

#endif
