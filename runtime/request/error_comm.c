/* error_comm.c: communicators of requests, and the last ones freed. */
#include "error_comm.h"
#include "next.h"
#include "probed.h"
#include <pthread.h>

#define LAST 64

atomic_ulong error_comm_frees;
static _Atomic(MPI_Comm) freed[LAST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void error_comm_freed(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    unsigned long n = atomic_load(&error_comm_frees);
    atomic_store(&freed[n % LAST], comm);
    atomic_store(&error_comm_frees, n + 1);
    pthread_mutex_unlock(&lock);
}

MPI_Comm error_comm_comm(struct error_comm e)
{
    unsigned long now = atomic_load(&error_comm_frees);
    if (!e.comm || e.comm == MPI_COMM_NULL || now - e.frees >= LAST) return MPI_COMM_WORLD;
    for (unsigned long i = e.frees; i != now; i++)
        if (atomic_load(&freed[i % LAST]) == e.comm) return MPI_COMM_WORLD;
    return e.comm;
}

static void forget(const MPI_Comm *comm)
{
    if (comm) error_comm_freed(*comm), probed_forget(*comm);
}

int call_Comm_free(const struct next *next, MPI_Comm *comm)
{
    forget(comm);
    return next->Comm_free(comm);
}

int call_Comm_disconnect(const struct next *next, MPI_Comm *comm)
{
    forget(comm);
    return next->Comm_disconnect(comm);
}
