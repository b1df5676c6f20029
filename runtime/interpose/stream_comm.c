/* stream_comm.c: communicators with GPU streams (MPICH's MPIX_Stream_comm_create).
 *
 * On these MPIX_Recv_enqueue and its kin receive within the MPI: they would take a descriptor (protocol/rts.h) for the
 * payload. So no descriptor takes a message's place on a communicator of which some rank has such a stream, nor on its
 * duplicates: messages are packed bytes there. */
#include "base/log.h"
#include "base/world_rank.h"
#include "collective/neighbor_topology.h"
#include "interpose.h"
#include "next.h"
#include "protocol/pipeline.h"
#include <pthread.h>
#include <stdlib.h>

#ifdef HAVE_Stream_comm_create

/* The handles of GPU streams. */
struct known {
    MPIX_Stream stream;
    struct known *next;
};
static struct known *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(MPIX_Stream stream)
{
    pthread_mutex_lock(&lock);
    for (struct known **at = &list, *k; (k = *at);)
        if (k->stream == stream) *at = k->next, free(k);
        else at = &k->next;
    pthread_mutex_unlock(&lock);
}

static void note(MPIX_Stream stream)
{
    struct known *k = malloc(sizeof *k);
    if (!k) log_fatal("out of memory for a GPU stream of the MPI's");
    k->stream = stream;
    pthread_mutex_lock(&lock);
    k->next = list, list = k;
    pthread_mutex_unlock(&lock);
}

static bool is_known(MPIX_Stream stream)
{
    const struct known *k;
    pthread_mutex_lock(&lock);
    for (k = list; k && k->stream != stream; k = k->next) continue;
    pthread_mutex_unlock(&lock);
    return k != NULL;
}

/* Returns true if an info for MPIX_Stream_create names a GPU's stream: others have no type. */
static bool names_gpu(MPI_Info info)
{
    int length, found = 0;
    return info != MPI_INFO_NULL && PMPI_Info_get_valuelen(info, "type", &length, &found) == MPI_SUCCESS && found;
}

int call_Stream_create(const struct next *next, MPI_Info info, MPIX_Stream *stream)
{
    bool gpu = names_gpu(info);
    int rc = next->Stream_create(info, stream);
    if (rc != MPI_SUCCESS) return rc;
    forget(*stream);   /* a handle that is used again */
    if (gpu) note(*stream);
    return rc;
}

int call_Stream_free(const struct next *next, MPIX_Stream *stream)
{
    MPIX_Stream was = stream ? *stream : MPIX_STREAM_NULL;
    int rc = next->Stream_free(stream);
    if (rc == MPI_SUCCESS) forget(was);
    return rc;
}

/* Ranks that run stridec agree whether one has a GPU's stream. Where others may have one, too, nobody asks. */
static bool may_have_gpu(MPI_Comm comm, bool mine)
{
    int gpu = mine, any = 1;
    if (!node_all_armed(comm) && !pipeline_all(comm)) return true;   /* some may not run stridec */
    return neighbor_topology_agree(&gpu, &any, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS || any;
}

static void deny(MPI_Comm comm)
{
    if (!world_rank_deny(comm)) log_fatal("the MPI refuses an attribute of a communicator with a stream");
}

int call_Stream_comm_create(const struct next *next, MPI_Comm comm, MPIX_Stream stream, MPI_Comm *newcomm)
{
    int rc = next->Stream_comm_create(comm, stream, newcomm);
    if (rc == MPI_SUCCESS && may_have_gpu(*newcomm, is_known(stream))) deny(*newcomm);
    return rc;
}

#ifdef HAVE_Stream_comm_create_multiplex
/* MPIX_Stream_recv receives within the MPI on these, whatever the streams are. */
int call_Stream_comm_create_multiplex(const struct next *next, MPI_Comm comm, int count, MPIX_Stream array_of_streams[],
                                      MPI_Comm *newcomm)
{
    int rc = next->Stream_comm_create_multiplex(comm, count, array_of_streams, newcomm);
    if (rc == MPI_SUCCESS) deny(*newcomm);
    return rc;
}
#endif
#endif
