/* world_rank.c: ranks of communicators in MPI_COMM_WORLD, found once a communicator and kept as an attribute of it. */
#include "world_rank.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static int world_rank_key = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The last communicator that a thread has asked for, so that the MPI is not asked for each message; forgotten when
 * any of them goes, since another may get its handle. */
static atomic_ulong gone;
static _Thread_local struct {
    unsigned long gone;
    MPI_Comm comm;
    const struct team *team;   /* NULL: none */
} met;

static int forget_team(MPI_Comm comm, int key, void *team, void *extra)
{
    (void)comm, (void)key, (void)extra;
    atomic_fetch_add_explicit(&gone, 1, memory_order_release);
    free(team);
    return MPI_SUCCESS;
}

int world_rank_start(void)
{
    if (world_rank_key != MPI_KEYVAL_INVALID) return 0;
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_team, &world_rank_key, NULL) == MPI_SUCCESS ? 0 : -1;
}

void world_rank_finish(void)
{
    atomic_fetch_add_explicit(&gone, 1, memory_order_release);
    if (world_rank_key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&world_rank_key);
}

/* The ranks of a communicator in MPI_COMM_WORLD. */
struct team {
    int size;
    int world[];
};

static struct team *world_rank_make(MPI_Comm comm)
{
    MPI_Group group, world;
    int size, inter = 1;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &size);
    if (inter) size = 0;
    struct team *t = malloc(sizeof *t + (size_t)size * sizeof *t->world);
    int *ranks = malloc((size_t)(size ? size : 1) * sizeof *ranks);
    if (t && ranks) {
        t->size = size;
        for (int i = 0; i < size; i++) ranks[i] = i;
        PMPI_Comm_group(comm, &group), PMPI_Comm_group(MPI_COMM_WORLD, &world);
        if (size) PMPI_Group_translate_ranks(group, size, ranks, world, t->world);
        PMPI_Group_free(&group), PMPI_Group_free(&world);
    }
    free(ranks);
    if (t && ranks && PMPI_Comm_set_attr(comm, world_rank_key, t) == MPI_SUCCESS) return t;
    free(t);
    return NULL;
}

static struct team *world_rank_get(MPI_Comm comm)
{
    struct team *t = NULL;
    int found = 0;
    return PMPI_Comm_get_attr(comm, world_rank_key, &t, &found) == MPI_SUCCESS && found ? t : NULL;
}

/* Setting an attribute deletes the one that another thread has just set. */
static struct team *world_rank_attach(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    struct team *t = world_rank_get(comm);
    if (!t) t = world_rank_make(comm);
    pthread_mutex_unlock(&lock);
    return t;
}

/* NULL where there is none. */
static const struct team *world_rank_of(MPI_Comm comm)
{
    unsigned long now = atomic_load_explicit(&gone, memory_order_acquire);
    if (comm == MPI_COMM_NULL) return NULL;
    if (met.team && met.gone == now && met.comm == comm) return met.team;
    const struct team *t = world_rank_get(comm);
    if (!t) return world_rank_attach(comm);
    met.gone = now, met.comm = comm, met.team = t;
    return t;
}

/* One rank, where there is no memory for all: ranks that told differently would wait for each other. */
static int translate(MPI_Comm comm, int rank)
{
    MPI_Group group, world;
    int inter = 1, size = 0, found = MPI_UNDEFINED;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &size);
    if (inter || rank >= size) return -1;
    PMPI_Comm_group(comm, &group), PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, 1, &rank, world, &found);
    PMPI_Group_free(&group), PMPI_Group_free(&world);
    return found == MPI_UNDEFINED ? -1 : found;
}

int world_rank(MPI_Comm comm, int rank)
{
    if (comm == MPI_COMM_WORLD) return rank;
    if (comm == MPI_COMM_NULL || rank < 0) return -1;
    const struct team *t = world_rank_of(comm);
    if (!t) return translate(comm, rank);
    return rank < t->size && t->world[rank] != MPI_UNDEFINED ? t->world[rank] : -1;
}
