/* jobs.c: buffers and arguments of the tests of collectives. */
#include "jobs.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

const char *const form_name[FORMS] = {"blocking", "nonblocking", "persistent", "large", "nonblocking, large",
                                      "persistent, large"};
const char *const shape_name[SHAPES] = {"contiguous", "vector", "indexed", "before its origin", "columns", "struct",
                                        "resized"};

bool form_persists(enum form form)
{
    return form == PERSISTENT || form == PERSISTENT_LARGE;
}

bool form_exists(enum form form)
{
#if !HAVE_PERSISTENT
    if (form_persists(form)) return false;
#endif
#ifndef HAVE_LARGE
    if (form >= LARGE) return false;
#endif
    return form < FORMS;
}

bool two_groups(MPI_Comm *inter)
{
    MPI_Comm half;
    bool first = my_rank < (num_ranks + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, first, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first ? (num_ranks + 1) / 2 : 0, 0, inter);
    MPI_Comm_free(&half);
    return first;
}

/* ---- layouts ---- */

#define APART 64   /* columns that interleave: more than the elements of a buffer */

static MPI_Datatype resized(MPI_Datatype t, MPI_Aint low, MPI_Aint extent)
{
    MPI_Datatype out;
    MPI_Type_create_resized(t, low, extent, &out);
    MPI_Type_free(&t);
    return out;
}

static MPI_Datatype repeated(MPI_Datatype t, int n)
{
    MPI_Datatype out;
    MPI_Type_contiguous(n, t, &out);
    MPI_Type_free(&t);
    return out;
}

static MPI_Datatype mixed(void)
{
    MPI_Datatype part, t;
    MPI_Type_vector(3, 2, 3, MPI_INT, &part);
    MPI_Datatype types[2] = {MPI_INT, part};
    int lengths[2] = {6, 1};
    MPI_Aint at[2] = {8, 40};
    MPI_Type_create_struct(2, lengths, at, types, &t);
    MPI_Type_free(&part);
    return t;
}

MPI_Datatype shape_make(int shape, int scale)
{
    MPI_Datatype t;
    switch (shape) {
    case 0:
        MPI_Type_contiguous(SHAPE_INTS * scale, MPI_INT, &t);
        break;
    case 1:
        MPI_Type_vector(4 * scale, 3, 5, MPI_INT, &t);
        break;
    case 2:
        MPI_Type_indexed(4, (int[]){5, 0, 4, 3}, (int[]){0, 3, 9, 20}, MPI_INT, &t);
        t = repeated(t, scale);
        break;
    case 3:
        MPI_Type_create_hindexed(3, (int[]){5, 4, 3}, (MPI_Aint[]){-40, 0, 32}, MPI_INT, &t);
        t = repeated(resized(t, -48, 120), scale);
        break;
    case 4:
        MPI_Type_vector(SHAPE_INTS * scale, 1, APART, MPI_INT, &t);
        t = resized(t, 0, sizeof(int));
        break;
    case 5:
        t = repeated(mixed(), scale);
        break;
    default:
        MPI_Type_vector(2, 6, 8, MPI_INT, &t);
        t = repeated(resized(t, 0, 100), scale);
        break;
    }
    type_commit(&t);
    return t;
}

/* ---- buffers ---- */

#define LEAD 4096                       /* for what lies before the origin */
#define MOST_BYTES (32 * 120 + SHAPE_INTS * APART * 4)   /* of all elements of an end, times the scale */

void *pair_origin(const struct buf *b, int scale)
{
    return (char *)b->origin + LEAD * (scale > 1 ? 2 : 1);
}

void pair_make(struct pair *p, enum mem_kind kind, int scale)
{
    size_t bytes = LEAD * 4 + (size_t)scale * MOST_BYTES;
    buf_bytes(&p->host, MEM_HOST, bytes, 0, 0);
    buf_bytes(&p->tested, kind, bytes, 0, 0);
}

void pair_fill(struct pair *p, uint64_t salt)
{
    buf_fill(&p->host, salt);
    buf_fill(&p->tested, salt);
}

void pair_check_but(struct pair *p, int scale, size_t from, size_t to, const char *what)
{
    size_t at = (size_t)((char *)pair_origin(&p->tested, scale) - (char *)p->tested.origin);
    memcpy(p->tested.shadow, p->host.base, p->host.bytes);
    buf_check_but(&p->tested, at + from, at + to, what);
}

void pair_check(struct pair *p, const char *what)
{
    pair_check_but(p, 1, 0, 0, what);
}

void pair_free(struct pair *p)
{
    buf_free(&p->host);
    buf_free(&p->tested);
}

/* ---- rounds ---- */

void round_all(struct round *r, MPI_Comm comm)
{
    int inter, n;
    *r = (struct round){.comm = comm, .scale = 1};
    MPI_Comm_test_inter(comm, &inter);
    MPI_Comm_rank(comm, &r->rank);
    if (inter) MPI_Comm_remote_size(comm, &n);
    else MPI_Comm_size(comm, &n);
    r->inter = inter;
    r->n_sources = r->n_targets = n;
    for (int i = 0; i < n; i++) r->sources[i] = r->targets[i] = i;
}

enum mem_kind round_memory(const struct round *r, bool receives)
{
    switch (r->number % 4) {
    case 1:
        return (r->rank + receives) % 2 ? MEM_DEVICE : MEM_HOST;
    case 2:
        return receives ? MEM_DEVICE : MEM_HOST;
    default:
        return MEM_DEVICE;
    }
}

/* Of a message; in place it is the same in both directions. */
static int count_between(const struct round *r, int flags, int source, int target)
{
    if (source == MPI_PROC_NULL || target == MPI_PROC_NULL) return 2;
    if (!(flags & (BY_SENDER | BY_RECEIVER))) return r->number % 5 == 4 ? 0 : 1 + r->number % 2;
    int a = flags & BY_SENDER ? source : 0, b = flags & BY_RECEIVER ? target : 0;
    return (r->in_place ? a * b + a + b + r->number : 3 * a + 2 * b + r->number) % 4;
}

static MPI_Datatype shapes[SHAPES][2];   /* of scale 1, and of another */

static MPI_Datatype shape_of(const struct round *r, int which)
{
    if (r->named) return MPI_INT;
    MPI_Datatype *t = &shapes[(unsigned)which % SHAPES][r->scale > 1];
    if (*t == (MPI_Datatype)0) *t = shape_make((unsigned)which % SHAPES, r->scale);
    return *t;
}

/* Blocks lie in another order than the peers' ranks, with gaps. */
static void lay_end(struct end *e, const struct round *r, int flags, bool receives, int shape)
{
    const int *peers = receives ? r->sources : r->targets;
    int n = receives ? r->n_sources : r->n_targets;
    e->type = shape_of(r, shape);
    e->count = count_between(r, flags & (receives ? ~BY_SENDER : ~BY_RECEIVER), receives ? 0 : r->rank,
                             receives ? r->rank : 0);
    for (int i = 0; i < n; i++) {
        int at = 4 * (n - 1 - i);
        int count = receives ? count_between(r, flags, peers[i], r->rank) : count_between(r, flags, r->rank, peers[i]);
        e->types[i] = shape == 4 ? e->type : shape_of(r, (shape + i) % 3);
        e->wide_counts[i] = e->counts[i] = count;
        e->wide_displs[i] = e->displs[i] = at;
        e->wide_bytes[i] = e->bytes[i] = shape == 4 ? at * 4 : at * 120 * r->scale;
    }
}

static int root_of(const struct round *r)
{
    int n;
    MPI_Comm_size(r->comm, &n);
    if (!r->inter) return r->number % n;
    bool roots = r->number % 2 ? r->first : !r->first;
    int other = roots ? n : r->n_targets, root = r->number / 2 % other;
    return !roots ? root : r->rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

int job_run(const struct call *c, struct job *j, bool first, bool last)
{
    int rc = MPI_SUCCESS;
    bool persists = form_persists(j->form);
    if (first || !persists) rc = c->call(j);
    if (rc == MPI_SUCCESS && persists) rc = MPI_Start(&j->request);
    if (rc == MPI_SUCCESS && j->form != BLOCKING && j->form != LARGE) rc = MPI_Wait(&j->request, MPI_STATUS_IGNORE);
    if (persists && last) MPI_Request_free(&j->request);
    return rc;
}

static void put_in_place(const struct call *c, const struct round *r, struct job *j)
{
    bool root = j->root == r->rank && !r->inter;
    if (!r->in_place) return;
    if (c->flags & IN_PLACE_ALL || (c->flags & IN_PLACE_ROOT && root)) j->s.buf = MPI_IN_PLACE;
    if (c->flags & IN_PLACE_OUT && root) j->r.buf = MPI_IN_PLACE;
}

/* The form that the MPI does right: MPICH 4.0 mixes up the counts of the small forms of MPI_Neighbor_alltoallw on a
 * distributed graph (pmodels/mpich#6233). */
static enum form mpi_form(const struct round *r, enum form form)
{
    int topology = MPI_UNDEFINED;
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100300
    MPI_Topo_test(r->comm, &topology);
#else
    (void)r;
#endif
    return topology == MPI_DIST_GRAPH ? LARGE : form;
}

#ifdef MPICH_VERSION
/* Several edges between two ranks meet in their order, and in a grid as the directions do (MPI-4.1 section 8.6). MPICH 4.0's
 * MPI_Neighbor_alltoall takes them all the other way round (pmodels/mpich#7945), which is right in a grid where one
 * dimension alone has them; its others take them in order everywhere. */
static bool mpi_matches(const struct call *c, const struct round *r)
{
    int topology = MPI_UNDEFINED, twice = 0, across = 0;
    bool grid, backwards = !strcmp(c->name, "MPI_Neighbor_alltoall");
    if (strncmp(c->name, "MPI_Neighbor_alltoall", 21)) return true;
    MPI_Topo_test(r->comm, &topology);
    grid = topology == MPI_CART;
    for (int i = 0; i < r->n_sources; i++) {
        for (int k = 0; k < i; k++) {
            bool same = r->sources[i] == r->sources[k] && r->sources[i] != MPI_PROC_NULL;
            twice += same, across += same && i / 2 != k / 2;
        }
    }
    return !twice || (grid && backwards && !across) || (!grid && !backwards);
}
#endif

/* MPICH 4.0's persistent MPI_Gather and MPI_Allgather copy the own block once, when the request is made, its MPI_Scatter ends in
 * an error, and MPI_Ibcast between two groups brings something else than MPI_Bcast. Open MPI 4.1's
 * MPI_Ialltoallv and MPI_Ialltoallw in place, and 5.0's persistent ones, don't end on four ranks some of whose blocks are empty. */
bool mpi_can(const struct call *c, const struct round *r, enum form form)
{
    bool later = form != BLOCKING && form != LARGE;
#ifdef MPICH_VERSION
    if (host_mode && form != mpi_form(r, form)) return false;
    if (!mpi_matches(c, r)) return false;
    return !(form_persists(form) && c->flags & MPICH_CANT_PERSIST)
           && !(later && c->flags == ROOTED && r->inter);
#else
    return !(later && r->in_place && c->flags & IN_PLACE_ALL && c->flags & BY_RECEIVER);
#endif
}

long hosted_operands(void)
{
    static long (*operands)(void);
    if (!operands) *(void **)&operands = dlsym(RTLD_DEFAULT, "stridec_host_packed");
    return operands ? operands() : 0;
}

void run_data(const struct call *c, const struct round *of, enum form form)
{
    static uint64_t salt = 1;
    struct pair s, t;
    struct round kinds = *of, *r = &kinds;
    struct job host = {.form = form, .comm = r->comm, .root = root_of(r)}, tested;
    char what[100];
    int key = r->rank + (r->first ? 3 : 0);
    snprintf(what, sizeof what, "%s, round %d", c->name, r->number);
    pair_make(&s, round_memory(r, false), r->scale);
    pair_make(&t, round_memory(r, true), r->scale);
    lay_end(&host.s, r, c->flags, false, r->number + key);
    lay_end(&host.r, r, c->flags, true, r->number + 2 * key + 1);
    tested = host;
    host.form = mpi_form(r, form), host.alone = true;
    host.s.buf = pair_origin(&s.host, r->scale), host.r.buf = pair_origin(&t.host, r->scale);
    tested.s.buf = pair_origin(&s.tested, r->scale), tested.r.buf = pair_origin(&t.tested, r->scale);
    put_in_place(c, r, &host), put_in_place(c, r, &tested);
    int starts = form_persists(form) ? STARTS : 1;
    for (int k = 0; k < starts; k++, salt++) {
        pair_fill(&s, salt * 32 + (uint64_t)key);
        pair_fill(&t, salt * 32 + 16 + (uint64_t)key);
        int rc = job_run(c, &host, k == 0, k == starts - 1);
        expect_equal(rc, MPI_SUCCESS, "on host memory, the return code");
        rc = job_run(c, &tested, k == 0, k == starts - 1);
        expect_equal(rc, MPI_SUCCESS, what);
        pair_check(&s, what);
        pair_check(&t, what);
    }
    pair_free(&s), pair_free(&t);
}
