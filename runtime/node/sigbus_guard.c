/* sigbus_guard.c: see sigbus_guard.h. */
#include "sigbus_guard.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static struct sigaction before;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Mappings of files. The handler may walk the list at any time, so entries are reused but never freed. */
struct mapped {
    _Atomic uintptr_t memory;   /* 0: free entry */
    size_t bytes;
    atomic_bool *lost;
    struct mapped *next;
};
static struct mapped *_Atomic first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Replaces the mapping around an address past a file's end by zeros. Returns false if there is none. */
static bool replace(uintptr_t address)
{
    struct mapped *m = atomic_load(&first);
    uintptr_t memory = 0;
    for (; m; m = m->next)
        if ((memory = atomic_load(&m->memory)) && address - memory < m->bytes) break;
    if (!m) return false;
    const int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    int error = errno;
    atomic_store(m->lost, true);   /* before another thread can read zeros */
    void *zeros = mmap((void *)memory, m->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    errno = error;
    return zeros != MAP_FAILED;
}

static void caught(int signal, siginfo_t *info, void *context)
{
    if (info->si_code > 0 && replace((uintptr_t)info->si_addr)) return;
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        sigaction(signal, &before, NULL);   /* the instruction faults again */
        if (info->si_code <= 0) raise(signal);
    }
}

static void install(void)
{
    struct sigaction own = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGBUS, &own, &before);
}

/* Returns an entry for a mapping; NULL without memory. Caller holds `lock`. */
static struct mapped *free_entry(void)
{
    struct mapped *m = atomic_load(&first);
    while (m && atomic_load(&m->memory)) m = m->next;
    if (m || !(m = calloc(1, sizeof *m))) return m;
    m->next = atomic_load(&first);
    atomic_store(&first, m);
    return m;
}

void *sigbus_guard_map(int fd, size_t bytes, int protection, off_t at, atomic_bool *lost)
{
    pthread_once(&once, install);
    pthread_mutex_lock(&lock);
    struct mapped *m = free_entry();
    void *memory = m ? mmap(NULL, bytes, protection, MAP_SHARED, fd, at) : MAP_FAILED;
    if (memory != MAP_FAILED) {
        m->bytes = bytes, m->lost = lost;
        atomic_store(&m->memory, (uintptr_t)memory);
    }
    pthread_mutex_unlock(&lock);
    return memory == MAP_FAILED ? NULL : memory;
}

void sigbus_guard_unmap(void *memory)
{
    if (!memory) return;
    pthread_mutex_lock(&lock);
    struct mapped *m = atomic_load(&first);
    while (atomic_load(&m->memory) != (uintptr_t)memory) m = m->next;
    atomic_store(&m->memory, 0);
    munmap(memory, m->bytes);
    pthread_mutex_unlock(&lock);
}
