/* world_rank.c: a communicator's ranks in MPI_COMM_WORLD, translated once and kept as its attribute. */
#include "world_rank.h"
#include "self_comm.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static int world_rank_key = MPI_KEYVAL_INVALID;
static int denied_key = MPI_KEYVAL_INVALID;   /* an attribute without a value (world_rank_deny) */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The last communicator of this thread, to ask the MPI less often. Invalid after any deletion, since a new
 * communicator may get the old handle. */
static atomic_ulong deletions;
static _Thread_local struct {
    unsigned long deletions;
    MPI_Comm comm;
    const struct world_ranks *world_ranks;
} recent;

static MPI_Group world = MPI_GROUP_NULL;   /* of MPI_COMM_WORLD, which sessions may outlive; guarded by `lock` */

/* Returns true if MPI_COMM_WORLD's group is known. Caller holds `lock`. */
static bool world_known(void)
{
    if (world == MPI_GROUP_NULL && world_exists() && PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        world = MPI_GROUP_NULL;
    return world != MPI_GROUP_NULL;
}

static int delete_world_ranks(MPI_Comm comm, int key, void *world_ranks, void *extra)
{
    (void)comm, (void)key, (void)extra;
    atomic_fetch_add_explicit(&deletions, 1, memory_order_release);
    free(world_ranks);
    return MPI_SUCCESS;
}

/* Learns the group on every rank, since all must find the same later. */
int world_rank_start(void)
{
    pthread_mutex_lock(&lock);
    world_known();
    pthread_mutex_unlock(&lock);
    if (world_rank_key != MPI_KEYVAL_INVALID) return 0;
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_world_ranks, &world_rank_key, NULL) == MPI_SUCCESS
               ? 0
               : -1;
}

void world_rank_finish(void)
{
    atomic_fetch_add_explicit(&deletions, 1, memory_order_release);
    if (world_rank_key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&world_rank_key);
    if (denied_key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&denied_key);
    if (world != MPI_GROUP_NULL) PMPI_Group_free(&world);
}

/* Caller holds `lock`. */
static bool is_denied(MPI_Comm comm)
{
    void *value;
    int found = 0;
    return denied_key != MPI_KEYVAL_INVALID && PMPI_Comm_get_attr(comm, denied_key, &value, &found) == MPI_SUCCESS &&
           found;
}

struct world_ranks {
    int size;
    int world[];
};

static struct world_ranks *world_rank_make(MPI_Comm comm)
{
    MPI_Group group;
    int size, inter = 1;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &size);
    if (inter || is_denied(comm) || !world_known()) size = 0;
    struct world_ranks *t = malloc(sizeof *t + (size_t)size * sizeof *t->world);
    int *ranks = malloc((size_t)(size ? size : 1) * sizeof *ranks);
    if (t && ranks) {
        t->size = size;
        for (int i = 0; i < size; i++) ranks[i] = i;
        PMPI_Comm_group(comm, &group);
        if (size) PMPI_Group_translate_ranks(group, size, ranks, world, t->world);
        PMPI_Group_free(&group);
    }
    free(ranks);
    if (t && ranks && PMPI_Comm_set_attr(comm, world_rank_key, t) == MPI_SUCCESS) return t;
    free(t);
    return NULL;
}

static struct world_ranks *world_rank_get(MPI_Comm comm)
{
    struct world_ranks *t = NULL;
    int found = 0;
    return PMPI_Comm_get_attr(comm, world_rank_key, &t, &found) == MPI_SUCCESS && found ? t : NULL;
}

/* Returns the attribute, made if missing. Locked: else a thread could delete the attribute that another just set. */
static struct world_ranks *world_rank_find(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    struct world_ranks *t = world_rank_get(comm);
    if (!t) t = world_rank_make(comm);
    pthread_mutex_unlock(&lock);
    return t;
}

/* Returns NULL if there is none. */
static const struct world_ranks *world_rank_of(MPI_Comm comm)
{
    unsigned long now = atomic_load_explicit(&deletions, memory_order_acquire);
    if (comm == MPI_COMM_NULL) return NULL;
    if (recent.world_ranks && recent.deletions == now && recent.comm == comm) return recent.world_ranks;
    const struct world_ranks *t = world_rank_get(comm);
    if (!t) return world_rank_find(comm);
    recent.deletions = now, recent.comm = comm, recent.world_ranks = t;
    return t;
}

/* Translates one rank, if there is no memory for all: ranks that disagreed would wait for each other. */
static int translate(MPI_Comm comm, int rank)
{
    MPI_Group group;
    int inter = 1, size = 0, found = MPI_UNDEFINED;
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &size);
    pthread_mutex_lock(&lock);
    bool denied = is_denied(comm) || !world_known();
    pthread_mutex_unlock(&lock);
    if (inter || denied || rank >= size) return -1;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, 1, &rank, world, &found);
    PMPI_Group_free(&group);
    return found == MPI_UNDEFINED ? -1 : found;
}

bool world_rank_deny(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    if (denied_key == MPI_KEYVAL_INVALID)
        PMPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &denied_key, NULL);
    bool done = denied_key != MPI_KEYVAL_INVALID && PMPI_Comm_set_attr(comm, denied_key, NULL) == MPI_SUCCESS;
    if (done && world_rank_key != MPI_KEYVAL_INVALID && world_rank_get(comm))
        PMPI_Comm_delete_attr(comm, world_rank_key);
    pthread_mutex_unlock(&lock);
    return done;
}

int world_rank(MPI_Comm comm, int rank)
{
    if (comm == MPI_COMM_WORLD) return rank;
    if (comm == MPI_COMM_NULL || rank < 0) return -1;
    const struct world_ranks *t = world_rank_of(comm);
    if (!t) return translate(comm, rank);
    return rank < t->size && t->world[rank] != MPI_UNDEFINED ? t->world[rank] : -1;
}
