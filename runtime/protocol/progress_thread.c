/* progress_thread.c: a thread that looks after refused sends: it sleeps on a word of the own file. */
#include "progress_thread.h"
#include "base/thread.h"
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool running;
static atomic_uint ended;     /* so many threads were told to end: each knows how many before it */
static pthread_t thread;
static void (*answer)(void);

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
    syscall(SYS_futex, word, op, value, NULL, NULL, 0);   /* woken for nothing, it looks again */
}

static void *run(void *arg)
{
    _Atomic uint32_t *word = &node_own()->refusals;
    for (;;) {
        uint32_t seen = atomic_load(word);   /* before `ended`: progress_thread_finish raises `ended` first */
        if (atomic_load(&ended) != (unsigned)(uintptr_t)arg) return NULL;
        answer();
        futex(word, FUTEX_WAIT, seen);
    }
}

bool progress_thread_start(void (*serve)(void))
{
    if (atomic_load_explicit(&running, memory_order_acquire)) return true;
    pthread_mutex_lock(&lock);
    if (!atomic_load(&running)) {
        answer = serve;   /* the same at each start */
        bool begun = !thread_start(&thread, 0, run, (void *)(uintptr_t)atomic_load(&ended));
        atomic_store_explicit(&running, begun, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    return atomic_load(&running);
}

void progress_thread_call(const struct peer *p)
{
    atomic_fetch_add(&p->file->refusals, 1);
    futex(&p->file->refusals, FUTEX_WAKE, INT_MAX);
}

void progress_thread_finish(void)
{
    if (!atomic_load(&running)) return;
    atomic_fetch_add(&ended, 1);
    atomic_fetch_add(&node_own()->refusals, 1);
    futex(&node_own()->refusals, FUTEX_WAKE, INT_MAX);
    /* A file that was cut holds another word now: the thread sleeps for ever. */
    if (node_lost()) pthread_detach(thread);
    else pthread_join(thread, NULL);
    atomic_store(&running, false);
}
