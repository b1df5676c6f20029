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

/* The blocking calls of one kind and size, or the calls for persistent requests. */
struct calls {
    unsigned number;      /* of calls so far */
    bool on;              /* they go zero-copy */
    bool used;            /* one since the last vote was quicker so (gains) */
    unsigned resume;      /* on, but the ones before this number are the MPI's (exchange_went) */
};

/* Sets of nonblocking calls, by kind and size. */
#define LATER_WORDS ((EXCHANGE_KINDS * CLASSES + 63) / 64)
struct later {
    uint64_t called[LATER_WORDS], used[LATER_WORDS];   /* since the last vote; used: one was quicker so */
    uint64_t unready[LATER_WORDS];                     /* but one would not be (exchange_ready) */
};

/* A rank's vote; OR makes the result of them. */
struct ballot {
    struct later later;
    uint64_t flags;
};
enum { QUICKER = 1, FULL = 2 };   /* the call that votes is quicker so; the rank has no room for one more graph */

/* A communicator. Never freed: another thread's look-up may read it. */
struct exchange {
    _Atomic(MPI_Comm) comm;
    bool ready;           /* all ranks have returned from MPI_Init: now all find the same */
    bool asked, possible; /* possible: all ranks are on this node and run stridec */
    int ranks;
    bool failed;          /* its graph can't be made */
    struct neighbor_topology *edges;   /* NULL: not made yet */
    struct calls calls[EXCHANGE_NONBLOCKING][EXCHANGE_KINDS][CLASSES];   /* by enum exchange_form */
    struct later later;
    uint64_t later_on[LATER_WORDS];   /* nonblocking calls that go zero-copy */
    unsigned barriers;    /* so far */
    /* The call under way. */
    enum exchange_form form;
    enum exchange_kind kind;
    struct calls *call;   /* NULL if it is nonblocking */
    int bit;              /* in the sets of nonblocking calls */
    bool unready;         /* an earlier nonblocking call like it was, since the last vote */
    bool due, votes;      /* due: exchange_take is to be called for it */
    struct calls *again;  /* the next call, if it is of these, was counted and has failed before it began */
    struct exchange *next;
};
_Static_assert(sizeof(struct exchange) <= RESERVE_MOST, "reserve_get has no such memory");

_Thread_local bool exchange_counted;
static atomic_long exchanges;
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
    memset(&x->later, 0, sizeof x->later), memset(x->later_on, 0, sizeof x->later_on);
    x->edges = NULL, x->failed = x->due = false, x->again = NULL, x->barriers = 0;
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

static bool has_bit(const uint64_t set[], int bit)
{
    return set[bit / 64] >> bit % 64 & 1;
}

static void set_bit(uint64_t set[], int bit)
{
    set[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* A nonblocking call may not wait, so it never votes. */
bool exchange_due(enum exchange_kind kind, enum exchange_form form, MPI_Comm comm, int64_t bytes)
{
    struct exchange *x = state_of(comm);
    int class = class_of(bytes);
    if (!x) return false;
    x->kind = kind, x->form = form, x->bit = kind * CLASSES + class;
    exchange_counted = true;
    if (form == EXCHANGE_NONBLOCKING) {
        set_bit(x->later.called, x->bit);
        x->unready = has_bit(x->later.unready, x->bit);
        if (kind == EXCHANGE_ALLREDUCE) set_bit(x->later.unready, x->bit);   /* until exchange_ready */
        x->call = NULL, x->votes = false, x->due = has_bit(x->later_on, x->bit);
        return x->due;
    }
    struct calls *again = x->again;
    x->call = &x->calls[form][kind][class], x->again = NULL;
    x->votes = x->call != again && (votes(++x->call->number) || form == EXCHANGE_PERSISTENT);   /* again: has voted */
    x->due = x->votes || (x->call->on && x->call->number >= x->call->resume);
    return x->due;
}

/* Returns true if calls with arguments of this way are quicker zero-copy. Device memory that a CUDA-aware
 * MPI takes: two H200s, Open MPI 4.1 with CUDA, 1 KiB to 4 MiB: all kinds, blocking, 9 to 26 us, by the MPI 10 to 36.
 * Among more ranks the MPI's Bcast may go by a tree, where here all read the root's memory. Reductions of 4 MiB: 50 to
 * 58 us, by the MPI 6,600 to 10,400, which adds on the host. */
static bool gains(const struct exchange *x, enum arg_way way)
{
    bool bcast = x->kind == EXCHANGE_BCAST, passes = x->form == EXCHANGE_BLOCKING && (!bcast || x->ranks <= 2);
    return way == WAY_BOUNCE || (way == WAY_PASS && passes);
}

/* Switches the nonblocking calls: of those made since the last vote the ones go zero-copy that were
 * quicker so on one rank, and unready on none. Returns true if any does. */
static bool switch_later(struct exchange *x, const struct later *all)
{
    bool any = false;
    for (int i = 0; i < LATER_WORDS; i++) {
        x->later_on[i] = (x->later_on[i] & ~all->called[i]) | (all->used[i] & ~all->unready[i]);
        any |= x->later_on[i] != 0;
    }
    memset(&x->later, 0, sizeof x->later);
    return any;
}

/* All ranks vote alike, and make the graph alike. *quicker: by this rank; then, whether the call goes zero-copy.
 * Returns the MPI's code. */
static int vote(struct exchange *x, MPI_Comm comm, bool *quicker)
{
    struct ballot mine = {.later = x->later, .flags = *quicker ? QUICKER : 0}, all = {.flags = 0};
    if (neighbor_topology_full()) mine.flags |= FULL;
    int rc = neighbor_topology_agree(&mine, &all, sizeof mine / sizeof(uint64_t), MPI_UINT64_T, MPI_BOR, comm);
    bool heard = rc == MPI_SUCCESS, any = heard && switch_later(x, &all.later), call = heard && all.flags & QUICKER;
    if ((any || call) && !(all.flags & FULL) && !x->edges && !x->failed) {
        x->failed = !(x->edges = neighbor_topology_complete(comm));
    }
    if (!heard || !x->edges) memset(x->later_on, 0, sizeof x->later_on);
    *quicker = call && x->edges;
    return rc;
}

static void vote_on_call(struct exchange *x, const struct args_set *o)
{
    bool quicker = x->call->used || gains(x, args_way(o));
    x->call->used = false;
    vote(x, o->comm, &quicker);
    x->call->on = quicker;
}

int exchange_barrier(MPI_Comm comm, bool is_mpis, int (*barrier)(MPI_Comm comm))
{
    if (is_mpis) return barrier(comm);
    struct exchange *x = exchange_possible(comm) ? state_of(comm) : NULL;
    bool quicker = false;
    if (x && votes(++x->barriers)) {
        interpose_depth++;
        int rc = vote(x, comm, &quicker);
        interpose_depth--;
        return rc;
    }
    int rc = barrier(comm);
    x = rc == MPI_SUCCESS && comm == MPI_COMM_WORLD ? state_of(comm) : NULL;
    if (x) x->ready = true;
    return rc;
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

/* Returns the communicator's state if the call goes zero-copy, else NULL. */
static struct exchange *agreed(const struct args_set *o)
{
    struct exchange *x = exchange_counted && o->comm != MPI_COMM_NULL ? state_of(o->comm) : NULL;
    if (!x) return NULL;
    if (!x->call && !has_bit(x->later.used, x->bit) && gains(x, args_way(o))) set_bit(x->later.used, x->bit);
    if (!x->due) return NULL;
    x->due = false;
    if (x->votes) vote_on_call(x, o);
    exchange_counted = true;   /* the vote's own calls clear it */
    return x->edges && (!x->call || x->call->on) ? x : NULL;
}

struct neighbor_topology *exchange_agreed(const struct args_set *o)
{
    struct exchange *x = agreed(o);
    return x ? x->edges : NULL;
}

bool exchange_take(struct args_set *o)
{
    struct exchange *x = agreed(o);
    if (!x) return false;
    struct args_set by_edges = *o;
    by_edges.edges = x->edges;
    enum exchange_kind kind = x->kind;
    bool gathers = kind == EXCHANGE_ALLGATHER || kind == EXCHANGE_ALLGATHERV;
    if (kind >= EXCHANGE_BCAST ? !take_rooted(&by_edges, kind) : !take_all(&by_edges, gathers)) return false;
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

static int run_blocking(struct exchange *x, struct args_set *o)
{
    int rc = neighbor_blocking_run(o);
    if (!x->call->used) x->call->used = any_gains(x, &o->edges->out) || any_gains(x, &o->edges->in);
    return rc;
}

int exchange_run(struct args_set *o, MPI_Request *request)
{
    struct exchange *x = state_of(o->comm);
    int rc = !request ? run_blocking(x, o) : neighbor_nonblocking_make(o, request, x->form == EXCHANGE_PERSISTENT);
    if (request && rc != MPI_SUCCESS) return exchange_unbegun(o->comm, rc);
    atomic_fetch_add_explicit(&exchanges, 1, memory_order_relaxed);
    return rc;
}

void exchange_ready(MPI_Comm comm)
{
    struct exchange *x = exchange_counted ? state_of(comm) : NULL;
    if (x && !x->call && !x->unready) x->later.unready[x->bit / 64] &= ~(UINT64_C(1) << x->bit % 64);
}

void exchange_went(const struct args_set *o, bool refused)
{
    struct exchange *x = state_of(o->comm);
    unsigned so_far = x->call->number, pause = so_far / 8 < VOTE_EACH ? so_far / 8 : VOTE_EACH - 1;
    if (refused) x->call->resume = so_far + 1 + pause;
    else atomic_fetch_add_explicit(&exchanges, 1, memory_order_relaxed);
    if (!x->call->used) x->call->used = gains(x, args_way(o));
}

int exchange_unbegun(MPI_Comm comm, int rc)
{
    struct exchange *x = exchange_counted ? state_of(comm) : NULL;
    if (x && x->call) x->again = x->call;
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
