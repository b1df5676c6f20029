/* neighbor_topology.c: the edges of communicators, and the vote on their use. */
#include "neighbor_spread.h"
#include "base/self_comm.h"
#include "base/log.h"
#include "base/mpi_workarounds.h"
#include "base/reserve.h"
#include "device/driver.h"
#include "node/segment.h"
#include "protocol/pipeline.h"
#include <pthread.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int key = MPI_KEYVAL_INVALID, spread_key = MPI_KEYVAL_INVALID;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define COMMS_MOST 256   /* MPICH 4.0 has some 2,000 communicators in all */
static atomic_int comms;   /* made here */

bool neighbor_topology_full(void)
{
    return atomic_load(&comms) >= COMMS_MOST;
}

/* The edges, in the order of the call's arguments. In a grid, data sent down a dimension arrive from above: where
 * one rank is on both sides, edges match by these directions (MPI-4.1 section 8.6). Elsewhere edges between two
 * ranks match in order. */

static void add_edge(struct edge_side *s, int number, int rank, int meets)
{
    if (rank != MPI_PROC_NULL) s->edge[s->n++] = (struct edge){.rank = rank, .key = meets, .number = number};
}

static bool side_alloc(struct edge_side *s, int n)
{
    size_t room = (size_t)(n ? n : 1);
    s->edge = calloc(room, sizeof *s->edge);
    s->header = calloc(room, sizeof *s->header);
    s->bundle = calloc(room, sizeof *s->bundle);
    return s->edge && s->header && s->bundle;
}

static void cart_edges(struct neighbor_topology *e, MPI_Comm comm, int n)
{
    int beside[2];
    for (int i = 0; i < n; i++) {
        if (i % 2 == 0) PMPI_Cart_shift(comm, i / 2, 1, &beside[0], &beside[1]);
        add_edge(&e->in, i, beside[i % 2], i ^ 1);
        add_edge(&e->out, i, beside[i % 2], i);
    }
}

static bool graph_edges(struct neighbor_topology *e, MPI_Comm comm, bool distributed, int in, int out)
{
    int *rank = calloc(2 * (size_t)(in + out + 1), sizeof *rank), *weight = rank + in + out + 1;
    int *to = distributed ? rank + in : rank;
    if (rank && distributed) PMPI_Dist_graph_neighbors(comm, in, rank, weight, out, to, weight + in);
    else if (rank) PMPI_Graph_neighbors(comm, e->rank, in, rank);
    for (int i = 0; rank && i < in; i++) add_edge(&e->in, i, rank[i], i);
    for (int i = 0; rank && i < out; i++) add_edge(&e->out, i, to[i], i);
    free(rank);
    return rank != NULL;
}

static int by_rank(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank) : (x->key > y->key) - (x->key < y->key);
}

/* Bundles the edges by rank. Returns false if a peer's file can't be opened; `spread`: nobody needs them. */
static bool make_bundles(struct edge_side *s, MPI_Comm comm, bool spread)
{
    bool all = true;
    qsort(s->edge, (size_t)s->n, sizeof *s->edge, by_rank);
    for (int i = 0; i < s->n; i++) {
        struct edge *e = &s->edge[i];
        bool first = i == 0 || e->rank != e[-1].rank;
        if (first) s->bundle[s->bundles++] = (struct edge_bundle){e, &s->header[i], 0};
        e->peer = spread ? NULL : first ? node_peer_now(comm, e->rank) : e[-1].peer;
        e->place = s->bundle[s->bundles - 1].n++;
        all &= spread || e->peer;
    }
    return all;
}

static bool requests_alloc(struct neighbor_topology *e)
{
    size_t requests = (size_t)(e->in.n + e->in.bundles + e->out.n + e->out.bundles + 1);
    e->request = malloc(requests * sizeof *e->request);
    e->status = malloc(requests * sizeof *e->status);
    return e->request && e->status;
}

static void complete_edges(struct neighbor_topology *e, int n)
{
    for (int i = 0; i < n; i++) add_edge(&e->in, i, i, i), add_edge(&e->out, i, i, i);
}

/* MPI_UNDEFINED: the complete graph. */
static bool find_edges(struct neighbor_topology *e, MPI_Comm comm, int topology)
{
    int in, out;
    PMPI_Comm_rank(comm, &e->rank);
    if (topology == MPI_UNDEFINED) PMPI_Comm_size(comm, &in), out = in;
    else args_degrees(comm, &in, &out);
    if (!side_alloc(&e->in, in) || !side_alloc(&e->out, out)) return false;
    if (topology == MPI_UNDEFINED) complete_edges(e, in);
    else if (topology == MPI_CART) cart_edges(e, comm, in);
    else if (!graph_edges(e, comm, topology == MPI_DIST_GRAPH, in, out)) return false;
    return make_bundles(&e->in, comm, e->spread) && make_bundles(&e->out, comm, e->spread) && requests_alloc(e);
}

static void side_free(struct edge_side *s)
{
    free(s->edge), free(s->header), free(s->bundle);
}

void neighbor_topology_put(struct neighbor_topology *e)
{
    if (!e || atomic_fetch_sub(&e->holders, 1) > 1) return;
    if (!e->of && e->comm != MPI_COMM_NULL) PMPI_Comm_free(&e->comm), atomic_fetch_sub(&comms, 1);
    neighbor_topology_put(e->of);
    side_free(&e->in), side_free(&e->out);
    free(e->request), free(e->status);
    reserve_put(e);
}

static int forget(MPI_Comm comm, int which, void *edges, void *extra)
{
    (void)comm, (void)which, (void)extra;
    neighbor_topology_put(edges);
    return MPI_SUCCESS;
}

static bool side_copy(struct edge_side *to, const struct edge_side *from)
{
    if (!side_alloc(to, from->n)) return false;
    to->n = from->n, to->bundles = from->bundles;
    if (from->n) memcpy(to->edge, from->edge, (size_t)from->n * sizeof *to->edge);
    for (int i = 0; i < from->bundles; i++) {
        to->bundle[i] = from->bundle[i];
        to->bundle[i].edge = to->edge + (from->bundle[i].edge - from->edge);
        to->bundle[i].header = to->header + (from->bundle[i].header - from->header);
    }
    return true;
}

struct neighbor_topology *neighbor_topology_copy(struct neighbor_topology *e)
{
    struct neighbor_topology *copy = calloc(1, sizeof *copy);
    if (!copy) return NULL;
    copy->of = e, copy->comm = e->comm, copy->rank = e->rank, copy->tags = e->tags, copy->drivers = e->drivers;
    copy->spread = e->spread;
    atomic_init(&copy->holders, 1);
    atomic_fetch_add(&e->holders, 1);
    if (side_copy(&copy->in, &e->in) && side_copy(&copy->out, &e->out) && requests_alloc(copy)) return copy;
    neighbor_topology_put(copy);
    return NULL;
}

/* Makes a communicator of the same ranks; collective. MPI_Comm_dup would call the application's attribute callbacks. */
static MPI_Comm own_comm(MPI_Comm comm)
{
    MPI_Comm own = MPI_COMM_NULL;
    MPI_Group group;
    PMPI_Comm_group(comm, &group);
    if (PMPI_Comm_create(comm, group, &own) != MPI_SUCCESS) own = MPI_COMM_NULL;
    PMPI_Group_free(&group);
    if (own != MPI_COMM_NULL) PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    return own;
}

/* Open MPI tells of tags on MPI_COMM_WORLD and its copies alone. */
static int tag_count(MPI_Comm comm)
{
    int *most = NULL, found = 0;
    PMPI_Comm_get_attr(world_exists() ? MPI_COMM_WORLD : comm, MPI_TAG_UB, &most, &found);
    return !found ? 32768 : *most < INT_MAX ? *most + 1 : INT_MAX;
}

int neighbor_topology_agree(const void *mine, void *all, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int class = MPI_SUCCESS, length, rc = PMPI_Allreduce(mine, all, n, type, op, comm);
    if (rc == MPI_SUCCESS) return rc;
    PMPI_Error_class(rc, &class);
    PMPI_Error_string(rc, text, &length);
    if (!COMM_IS_BROKEN(class)) log_fatal("a vote of the ranks failed on this one: %s", text);
    return rc;
}

/* Makes the communicator of the edges, which all ranks agreed to make; on all of them or on none. */
static void make_comm(struct neighbor_topology *e, MPI_Comm comm)
{
    MPI_Comm own = own_comm(comm);
    int made = own != MPI_COMM_NULL, all = 0;
    bool told = neighbor_topology_agree(&made, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS;
    if (told && all) e->comm = own, e->tags = tag_count(own), atomic_fetch_add(&comms, 1);
    else if (made) PMPI_Comm_free(&own);
}

/* Votes: if one rank lacks something, no rank uses the edges. If no rank has loaded a driver, the MPI is as fast;
 * then *driver is false. */
static void decide(struct neighbor_topology *e, MPI_Comm comm, int topology, bool *driver)
{
    *driver = true;
    if (!(e->spread ? pipeline_all(comm) : node_all_armed(comm))) return;
    bool able = !neighbor_topology_full() && find_edges(e, comm, topology) && neighbor_nonblocking_ready();
    int vote[3] = {able, !driver_get(), driver_get() != NULL}, least[3] = {0, 1, 0};
    bool told = neighbor_topology_agree(vote, least, 3, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS;
    e->drivers = told && least[2];
    *driver = !told || !least[1];
    if (told && least[0] && !least[1]) make_comm(e, comm);
}

static bool ensure_keys(void)
{
    int *const keys[] = {&key, &spread_key};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++)
        if (*keys[i] == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, keys[i], NULL);
    pthread_mutex_unlock(&lock);
    return key != MPI_KEYVAL_INVALID && spread_key != MPI_KEYVAL_INVALID;
}

static bool find_attr(MPI_Comm comm, bool spread, struct neighbor_topology **e)
{
    int found = 0;
    *e = NULL;
    if (comm == MPI_COMM_NULL || !ensure_keys()) return false;
    return PMPI_Comm_get_attr(comm, spread ? spread_key : key, e, &found) == MPI_SUCCESS && found;
}

/* Returns the edges with the ranks' decision on them (decide). The other ranks wait for this one. */
static struct neighbor_topology *decided(MPI_Comm comm, int topology, bool spread, bool *driver)
{
    struct neighbor_topology *e = reserve_get(sizeof *e);
    e->comm = MPI_COMM_NULL, e->spread = spread;
    atomic_init(&e->holders, 1);
    decide(e, comm, topology, driver);
    return e;
}

/* Holds the vote and keeps the result as an attribute. Keeps nothing if no rank has a driver, unless this is the
 * `last` vote. */
static struct neighbor_topology *hold_vote(MPI_Comm comm, bool spread, bool last)
{
    int topology = MPI_UNDEFINED;
    bool driver;
    if (comm == MPI_COMM_NULL || !ensure_keys()) return NULL;
    if (PMPI_Topo_test(comm, &topology) != MPI_SUCCESS || topology == MPI_UNDEFINED) return NULL;
    struct neighbor_topology *e = decided(comm, topology, spread, &driver);
    if (!last && !driver) return neighbor_topology_put(e), NULL;
    if (PMPI_Comm_set_attr(comm, spread ? spread_key : key, e) != MPI_SUCCESS)
        log_fatal("MPI_Comm_set_attr failed on a communicator whose ranks have agreed");
    return e;
}

static struct neighbor_topology *usable(struct neighbor_topology *e)
{
    return e && e->comm != MPI_COMM_NULL ? e : NULL;
}

struct neighbor_topology *neighbor_topology_known(MPI_Comm comm)
{
    struct neighbor_topology *e;
    return find_attr(comm, false, &e) ? usable(e) : NULL;
}

struct neighbor_topology *neighbor_topology_of(MPI_Comm comm)
{
    struct neighbor_topology *e;
    return usable(find_attr(comm, false, &e) ? e : hold_vote(comm, false, true));
}

/* Holds no vote if all ranks are on this node: neighbor_topology_of has decided then. All ranks find the same. */
struct neighbor_topology *neighbor_topology_spread(MPI_Comm comm)
{
    struct neighbor_topology *e;
    if (find_attr(comm, true, &e)) return usable(e);
    bool may = comm != MPI_COMM_NULL && pipeline_get() && !node_all_armed(comm);
    return may ? usable(hold_vote(comm, true, true)) : NULL;
}

bool neighbor_may_vote(void)
{
    return node_armed() || pipeline_get();
}

struct neighbor_topology *neighbor_topology_complete(MPI_Comm comm)
{
    bool driver;
    struct neighbor_topology *e = decided(comm, MPI_UNDEFINED, false, &driver);
    if (usable(e)) return e;
    neighbor_topology_put(e);
    return NULL;
}

void neighbor_topology_vote(MPI_Comm comm)
{
    hold_vote(comm, false, false);
}

void neighbor_topology_finish(void)
{
    neighbor_spread_finish();
    if (key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&key);
    if (spread_key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&spread_key);
    neighbor_nonblocking_finish();
}
