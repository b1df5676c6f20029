/* self_comm.c: MPI_COMM_SELF, and what stands for it in a program of sessions. */
#include "self_comm.h"
#include <stdatomic.h>

bool world_exists(void)
{
    int initialized = 0, finalized = 0;
    PMPI_Initialized(&initialized);
    PMPI_Finalized(&finalized);
    return initialized && !finalized;
}

#define TAG_UB_LEAST 32767   /* every MPI has tags up to this one */

void world_progress(MPI_Comm comm)
{
    if (comm == MPI_COMM_WORLD && !world_exists()) return;
    static atomic_uint used;   /* messages with such a tag were found, so the next lower one is taken */
    int tag = TAG_UB_LEAST - (int)(atomic_load(&used) % (TAG_UB_LEAST + 1)), found = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &found, MPI_STATUS_IGNORE);
    if (found) atomic_fetch_add(&used, 1);
}

#ifdef HAVE_Session_init
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Session own = MPI_SESSION_NULL;
static MPI_Comm own_self = MPI_COMM_NULL;
static MPI_Errhandler handler = MPI_ERRHANDLER_NULL;

void world_of_session(MPI_Session session)
{
    pthread_mutex_lock(&lock);
    if (handler == MPI_ERRHANDLER_NULL && PMPI_Session_get_errhandler(session, &handler) != MPI_SUCCESS)
        handler = MPI_ERRHANDLER_NULL;
    pthread_mutex_unlock(&lock);
}

static void make(void)
{
    MPI_Group group;
    MPI_Errhandler raises = handler == MPI_ERRHANDLER_NULL ? MPI_ERRORS_ARE_FATAL : handler;
    if (own == MPI_SESSION_NULL && PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own) != MPI_SUCCESS) return;
    if (PMPI_Group_from_session_pset(own, "mpi://SELF", &group) != MPI_SUCCESS) return;
    if (PMPI_Comm_create_from_group(group, "stridec", MPI_INFO_NULL, raises, &own_self) != MPI_SUCCESS)
        own_self = MPI_COMM_NULL;
    PMPI_Group_free(&group);
}

MPI_Comm world_self(void)
{
    if (world_exists()) return MPI_COMM_SELF;
    pthread_mutex_lock(&lock);
    if (own_self == MPI_COMM_NULL) make();
    MPI_Comm self = own_self;
    pthread_mutex_unlock(&lock);
    return self;
}

void world_finish(void)
{
    if (own_self != MPI_COMM_NULL) PMPI_Comm_free(&own_self);
    if (own != MPI_SESSION_NULL) PMPI_Session_finalize(&own);
    if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
}
#else
MPI_Comm world_self(void)
{
    return MPI_COMM_SELF;
}

void world_finish(void)
{
}
#endif
