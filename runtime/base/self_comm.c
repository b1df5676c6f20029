/* self_comm.c: MPI_COMM_SELF, and its substitute in a program with sessions only. */
#include "self_comm.h"
#include "backoff.h"
#include <stdatomic.h>

bool world_exists(void)
{
    int initialized = 0, finalized = 0;
    PMPI_Initialized(&initialized);
    PMPI_Finalized(&finalized);
    return initialized && !finalized;
}

#define SPINS_PER_PROGRESS 256
#define TAG_UB_MIN 32767   /* every MPI has tags up to this */

void comm_progress(MPI_Comm comm)
{
    if (comm == MPI_COMM_WORLD && !world_exists()) return;
    static atomic_uint used;   /* messages found with such a tag; the next lower tag is used then */
    int tag = TAG_UB_MIN - (int)(atomic_load(&used) % (TAG_UB_MIN + 1)), found = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &found, MPI_STATUS_IGNORE);
    if (found) atomic_fetch_add(&used, 1);
}

void comm_backoff(MPI_Comm comm, unsigned spins)
{
    if (spins % SPINS_PER_PROGRESS == 0) comm_progress(comm);
    backoff(spins);
}

#ifdef HAVE_Session_init
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Session own_session = MPI_SESSION_NULL;
static MPI_Comm session_self = MPI_COMM_NULL;
static MPI_Errhandler session_handler = MPI_ERRHANDLER_NULL;

void self_comm_set_session(MPI_Session session)
{
    pthread_mutex_lock(&lock);
    if (session_handler == MPI_ERRHANDLER_NULL && PMPI_Session_get_errhandler(session, &session_handler) != MPI_SUCCESS)
        session_handler = MPI_ERRHANDLER_NULL;
    pthread_mutex_unlock(&lock);
}

static void make_session_self(void)
{
    MPI_Group group;
    MPI_Errhandler raises = session_handler == MPI_ERRHANDLER_NULL ? MPI_ERRORS_ARE_FATAL : session_handler;
    if (own_session == MPI_SESSION_NULL &&
        PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own_session) != MPI_SUCCESS)
        return;
    if (PMPI_Group_from_session_pset(own_session, "mpi://SELF", &group) != MPI_SUCCESS) return;
    if (PMPI_Comm_create_from_group(group, "stridec", MPI_INFO_NULL, raises, &session_self) != MPI_SUCCESS)
        session_self = MPI_COMM_NULL;
    PMPI_Group_free(&group);
}

MPI_Comm self_comm_get(void)
{
    if (world_exists()) return MPI_COMM_SELF;
    pthread_mutex_lock(&lock);
    if (session_self == MPI_COMM_NULL) make_session_self();
    MPI_Comm self = session_self;
    pthread_mutex_unlock(&lock);
    return self;
}

void self_comm_finish(void)
{
    if (session_self != MPI_COMM_NULL) PMPI_Comm_free(&session_self);
    if (own_session != MPI_SESSION_NULL) PMPI_Session_finalize(&own_session);
    if (session_handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&session_handler);
}
#else
MPI_Comm self_comm_get(void)
{
    return MPI_COMM_SELF;
}

void self_comm_finish(void)
{
}
#endif
