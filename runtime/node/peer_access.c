/* peer_access.c: what host memory of another process may be read. */
#include "peer_access.h"
#include "base/log.h"
#include "shm_pool.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>

_Atomic uint32_t peer_access_answered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

unsigned peer_access_known(const struct peer *p)
{
    unsigned reached = atomic_load_explicit(&node_access_found(p->file)[node_self()->rank], memory_order_acquire);
    return reached & ~atomic_load_explicit(&p->refused, memory_order_relaxed);
}

unsigned peer_access_reached(struct peer *p)
{
    int own = node_self()->rank;
    unsigned reached = peer_access_known(p);
    if (!reached && !atomic_exchange(&p->asked, true) && shm_pool_start()) {
        atomic_store(&node_access_asked(p->file)[own], 1);
        atomic_fetch_add(&p->file->asked, 1);
    }
    return reached;
}

void peer_access_refused(struct peer *p)
{
    if (!(atomic_fetch_or(&p->refused, REACH_MEMORY) & REACH_MEMORY))
        log_write(LOG_INFO, "rank %d can't read this process any more: messages to it are packed", p->rank);
}

static bool reads(const struct peer *p)
{
    unsigned char found[sizeof p->cookie];
    struct iovec to = {found, sizeof found}, from = {(void *)(uintptr_t)p->file->proof, sizeof found};
    ssize_t n = process_vm_readv(p->file->pid, &to, 1, &from, 1, 0);
    if (n == (ssize_t)sizeof found && !memcmp(found, &p->cookie, sizeof found)) return true;
    log_write(LOG_INFO, "host memory of rank %d is out of reach: %s", p->rank,
              n < 0 ? strerror(errno) : "another process");
    return false;
}

static void try(int rank)
{
    struct peer *p = node_peer_now(MPI_COMM_WORLD, rank);
    if (!p || p->self) return;
    unsigned reached = REACH_TRIED | (shm_pool_open(p) ? REACH_POOL : 0);
    if (reads(p)) reached |= REACH_MEMORY;
    atomic_store_explicit(&node_access_found(node_own())[rank], (uint8_t)reached, memory_order_release);
}

void peer_access_answer(void)
{
    struct node_file *f = node_own();
    pthread_mutex_lock(&lock);
    uint32_t asked = atomic_load(&f->asked);
    for (int i = 0; i < f->size && asked != atomic_load(&peer_access_answered); i++)
        if (atomic_load(&node_access_asked(f)[i]) && !atomic_load(&node_access_found(f)[i])) try(i);
    atomic_store(&peer_access_answered, asked);
    pthread_mutex_unlock(&lock);
}
