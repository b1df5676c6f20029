/* exchange.c: see exchange.h. */
#include "exchange.h"
#include "args_internal.h"
#include "base/activity.h"
#include "base/log.h"
#include "base/reserve.h"
#include "datatype/layout.h"
#include "neighbor_exchange.h"
#include "node/segment.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES 16        /* of sizes: powers of four */
#define VOTE_EACH 64      /* calls between two votes, at most */
#define KNOWN_BITS 6
#define GRAPHS_MOST 256   /* MPICH 4.0 has some 2,000 communicators in all */

/* The calls of one kind and size. */
struct calls {
    unsigned number;      /* of calls so far */
    bool on;              /* they go from memory to memory */
    bool used;            /* one since the last vote was quicker so (gains) */
};

/* A communicator. Never freed: another thread's look-up may read it. */
struct exchange {
    _Atomic(MPI_Comm) comm;
    bool ready;           /* all ranks have returned from MPI_Init: now all find the same */
    bool asked, possible; /* possible: all ranks are on this node and run stridec */
    int ranks;
    bool failed;          /* its graph can't be made */
    struct neighbor_topology *edges;   /* NULL: not made yet */
    struct calls calls[EXCHANGE_KINDS][CLASSES];
    struct calls *call;   /* the one under way, and whether exchange_take is to be called for it */
    bool due, votes;
    struct calls *again;  /* the next call, if it is of these, was counted and has failed before it began */
    struct exchange *next;
};

_Thread_local bool exchange_counted;
static atomic_long exchanges;
static atomic_int graphs;   /* complete graphs alive; each has a communicator of its own */
static int key = MPI_KEYVAL_INVALID;
static _Atomic(struct exchange *) known[1 << KNOWN_BITS];   /* by handle */
static struct exchange *used, *unused;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic(struct exchange *) *place_of(MPI_Comm comm)
{
    return &known[(uint64_t)(uintptr_t)comm * UINT64_C(0x9e3779b97f4a7c15) >> (64 - KNOWN_BITS)];
}

/* Called when the communicator is freed. */
static int forget(MPI_Comm comm, int which, void *state, void *extra)
{
    struct exchange *x = state, **at = &used;
    (void)comm, (void)which, (void)extra;
    atomic_store(&x->comm, MPI_COMM_NULL);
    if (x->edges) atomic_fetch_sub(&graphs, 1);
    neighbor_topology_put(x->edges);
    x->edges = NULL;
    pthread_mutex_lock(&lock);
    while (*at != x) at = &(*at)->next;
    *at = x->next;
    x->next = unused, unused = x;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static bool all_in_node(MPI_Comm comm, int *ranks)
{
    *ranks = 0;
    PMPI_Comm_size(comm, ranks);
    return *ranks > 1 && node_all_armed(comm);
}

/* Returns a new state; ends the process without memory, as other ranks are about to count the call. */
static struct exchange *state_new(MPI_Comm comm)
{
    pthread_mutex_lock(&lock);
    if (key == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, NULL);
    struct exchange *x = unused;
    if (x) unused = x->next;
    else x = reserve_get(sizeof *x);
    x->next = used, used = x;
    pthread_mutex_unlock(&lock);
    memset(x->calls, 0, sizeof x->calls);
    x->edges = NULL, x->failed = x->due = false, x->again = NULL;
    int inter = 1;
    PMPI_Comm_test_inter(comm, &inter);
    x->ready = comm != MPI_COMM_WORLD, x->asked = inter, x->possible = false;
    if (PMPI_Comm_set_attr(comm, key, x) != MPI_SUCCESS)
        log_fatal("MPI_Comm_set_attr failed on a communicator whose ranks count their calls");
    return x;
}

static struct exchange *state_of(MPI_Comm comm)
{
    _Atomic(struct exchange *) *place = place_of(comm);
    struct exchange *x = atomic_load_explicit(place, memory_order_acquire);
    int found = 0;
    if (x && atomic_load_explicit(&x->comm, memory_order_acquire) == comm) return x;
    if (key != MPI_KEYVAL_INVALID && PMPI_Comm_get_attr(comm, key, &x, &found) != MPI_SUCCESS) return NULL;
    if (!found) x = state_new(comm);
    atomic_store_explicit(&x->comm, comm, memory_order_release);
    atomic_store_explicit(place, x, memory_order_release);
    return x;
}

int64_t exchange_bytes(MPI_Count count, MPI_Datatype type)
{
    int size = 0;
    int64_t bytes;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS) return 0;
    if (size < 0) size = INT_MAX;   /* MPI_UNDEFINED: more */
    return __builtin_mul_overflow((int64_t)count, size, &bytes) ? INT64_MAX - 1 : bytes;
}

int64_t exchange_bytes_at(int root, MPI_Comm comm, MPI_Count count, MPI_Datatype type, MPI_Count leaf_count,
                          MPI_Datatype leaf_type)
{
    int rank = -1;
    if (comm == MPI_COMM_NULL || PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS) return 0;
    return rank == root ? exchange_bytes(count, type) : exchange_bytes(leaf_count, leaf_type);
}

static int class_of(int64_t bytes)
{
    if (bytes == EXCHANGE_LISTS) return 0;
    int class = (63 - __builtin_clzll((uint64_t)bytes)) / 2;
    return class < CLASSES ? class : CLASSES - 1;
}

static bool votes(unsigned number)
{
    return number % VOTE_EACH == 0 || (number < VOTE_EACH && !(number & (number - 1)));
}

/* A rank that has not returned from MPI_Init has no file yet. So MPI_COMM_WORLD waits for a call that ends only when
 * all ranks have begun it; all ranks that make another communicator have returned. */
bool exchange_possible(MPI_Comm comm)
{
    struct exchange *x = comm == MPI_COMM_NULL ? NULL : state_of(comm);
    if (!x || x->asked || !x->ready) return x && x->possible;
    x->asked = true, x->possible = all_in_node(comm, &x->ranks);
    return x->possible;
}

void exchange_synchronized(MPI_Comm comm)
{
    struct exchange *x = comm == MPI_COMM_WORLD ? state_of(comm) : NULL;
    if (x) x->ready = true;
}

bool exchange_due(enum exchange_kind kind, MPI_Comm comm, int64_t bytes)
{
    struct exchange *x = state_of(comm);
    struct calls *again = x ? x->again : NULL;
    if (!x) return false;
    x->call = &x->calls[kind][class_of(bytes)], x->again = NULL;
    x->votes = x->call != again && votes(++x->call->number);   /* one that is made again has voted */
    exchange_counted = true;
    x->due = x->votes || x->call->on;
    return x->due;
}

static bool is_kind(const struct exchange *x, enum exchange_kind first, enum exchange_kind last)
{
    return x->call >= x->calls[first] && x->call < x->calls[last + 1];
}

/* Returns true if calls with arguments of this way are quicker from memory to memory. Device memory that a CUDA-aware
 * MPI takes: two H200s, Open MPI 4.1 with CUDA, 1 KiB to 4 MiB: all kinds, 9 to 26 us, by the MPI 10 to 36. Among more
 * ranks the MPI's Bcast may go by a tree, where here all read the root's memory. Reductions that such an MPI takes were
 * not measured. */
static bool gains(const struct exchange *x, enum arg_way way)
{
    if (is_kind(x, EXCHANGE_REDUCE, EXCHANGE_EXSCAN)) return way == WAY_BOUNCE;
    return way == WAY_BOUNCE || (way == WAY_PASS && (!is_kind(x, EXCHANGE_BCAST, EXCHANGE_BCAST) || x->ranks <= 2));
}

/* All ranks vote alike, and make the graph alike. */
static void vote(struct exchange *x, const struct args_set *o)
{
    struct calls *c = x->call;
    int mine[2] = {c->used || gains(x, args_way(o)), atomic_load(&graphs) >= GRAPHS_MOST}, any[2] = {0};
    c->used = false;
    c->on = PMPI_Allreduce(mine, any, 2, MPI_INT, MPI_MAX, o->comm) == MPI_SUCCESS && any[0];
    if (c->on && !any[1] && !x->edges && !x->failed) {
        x->failed = !(x->edges = neighbor_topology_complete(o->comm));
        if (x->edges) atomic_fetch_add(&graphs, 1);
    }
    c->on &= x->edges != NULL;
}

/* ---- what the graph's edges carry ---- */

void exchange_choose(struct edge_side *s, int which, int rank, bool apart)
{
    for (int i = 0; i < s->n; i++) {
        int number = s->edge[i].number;
        s->edge[i].off = (which != EXCHANGE_ALL && which != number) || (apart && number == rank);
    }
}

/* Sets *own to the rank's own part of an argument in place. Returns false if its address overflows. */
static bool own_part(struct arg *own, const struct arg *all, int rank)
{
    struct layout *l = all->type == MPI_DATATYPE_NULL ? NULL : layout_of(all->type);
    int64_t offset;
    *own = *all;
    own->flags &= ~ARG_NEIGHBORS;
    own->count = all->counts ? args_count(all, rank) : all->count;
    own->counts = own->displs = NULL;
    if (!l || own->count < 0) return false;
    int64_t place = all->displs ? args_displ(all, rank) : rank * own->count;
    if (__builtin_mul_overflow(place, l->extent, &offset)) return false;
    own->buf = (char *)all->buf + offset;
    return true;
}

static bool take_all(struct args_set *o, bool gathers)
{
    struct neighbor_topology *e = o->edges;
    bool in_place = o->of[0].buf == MPI_IN_PLACE;
    o->of[1].flags |= ARG_NEIGHBORS;
    if (!gathers) o->of[0].flags |= ARG_NEIGHBORS;
    if (in_place && !(gathers && own_part(&o->of[0], &o->of[1], e->rank))) return false;
    exchange_choose(&e->out, EXCHANGE_ALL, e->rank, in_place), exchange_choose(&e->in, EXCHANGE_ALL, e->rank, in_place);
    return true;
}

static bool take_rooted(struct args_set *o, enum exchange_kind kind)
{
    static const struct arg nothing = {.type = MPI_BYTE};
    struct neighbor_topology *e = o->edges;
    bool root = o->root == e->rank, bcast = kind == EXCHANGE_BCAST,
         gathers = kind == EXCHANGE_GATHER || kind == EXCHANGE_GATHERV, apart = bcast;
    if (o->root < 0 || o->root >= e->out.n) return false;
    if (bcast) o->of[1] = o->of[0], o->n = 2;
    struct arg *many = &o->of[gathers], *one = &o->of[!gathers];
    if (!bcast) many->flags |= ARG_NEIGHBORS;
    if (root && !bcast && one->buf == MPI_IN_PLACE) apart = true, *one = nothing;
    if (root && bcast) *one = nothing;
    if (!root) *many = nothing;
    int at_many = root ? EXCHANGE_ALL : EXCHANGE_NONE, at_one = root && bcast ? EXCHANGE_NONE : o->root;
    exchange_choose(&e->out, gathers ? at_one : at_many, e->rank, apart);
    exchange_choose(&e->in, gathers ? at_many : at_one, e->rank, apart);
    return true;
}

struct neighbor_topology *exchange_agreed(const struct args_set *o)
{
    struct exchange *x = o->comm == MPI_COMM_NULL ? NULL : state_of(o->comm);
    if (!x || !x->due) return NULL;
    x->due = false;
    if (x->votes) vote(x, o);
    exchange_counted = true;   /* the vote's own calls clear it */
    return x->call->on ? x->edges : NULL;
}

bool exchange_take(struct args_set *o, enum exchange_kind kind)
{
    struct args_set by_edges = *o;
    by_edges.edges = exchange_agreed(o);
    if (!by_edges.edges) return false;
    if (kind >= EXCHANGE_BCAST ? !take_rooted(&by_edges, kind)
                               : !take_all(&by_edges, kind == EXCHANGE_ALLGATHER || kind == EXCHANGE_ALLGATHERV))
        return false;
    if (!neighbor_exchange_valid(&by_edges)) return false;
    *o = by_edges;
    return true;
}

static bool any_gains(const struct exchange *x, const struct edge_side *s)
{
    for (int i = 0; i < s->n; i++) {
        const struct edge *e = &s->edge[i];
        bool device = e->bytes && e->where.device;
        if (gains(x, !device ? WAY_HOST : edge_mpi_takes(e) ? WAY_PASS : WAY_BOUNCE)) return true;
    }
    return false;
}

int exchange_run(struct args_set *o)
{
    struct exchange *x = state_of(o->comm);
    int rc = neighbor_blocking_run(o);
    atomic_fetch_add_explicit(&exchanges, 1, memory_order_relaxed);
    if (!x->call->used) x->call->used = any_gains(x, &o->edges->out) || any_gains(x, &o->edges->in);
    return rc;
}

void exchange_went(const struct args_set *o, bool refused)
{
    struct exchange *x = state_of(o->comm);
    if (refused) x->call->on = false;
    else atomic_fetch_add_explicit(&exchanges, 1, memory_order_relaxed);
    if (!x->call->used) x->call->used = gains(x, args_way(o));
}

int exchange_unbegun(MPI_Comm comm, int rc)
{
    struct exchange *x = exchange_counted ? state_of(comm) : NULL;
    if (x) x->again = x->call;
    return rc;
}

/* The MPI refuses such arguments before it communicates. */
int exchange_ended(MPI_Comm comm, int rc)
{
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS && exchange_counted) PMPI_Error_class(rc, &class);
    bool refused = class == MPI_ERR_ROOT || class == MPI_ERR_COUNT || class == MPI_ERR_TYPE ||
                   class == MPI_ERR_BUFFER || class == MPI_ERR_ARG;
    return refused ? exchange_unbegun(comm, rc) : rc;
}

EXPORT long stridec_exchanges(void)
{
    return atomic_load(&exchanges);
}

void exchange_finish(void)
{
    while (used && PMPI_Comm_delete_attr(atomic_load(&used->comm), key) == MPI_SUCCESS) continue;
    for (int i = 0; i < 1 << KNOWN_BITS; i++) atomic_store(&known[i], NULL);
    for (struct exchange *x; (x = unused);) unused = x->next, reserve_put(x);
    if (key != MPI_KEYVAL_INVALID) PMPI_Comm_free_keyval(&key);
}
