/* exchange_reduce.c: see exchange_reduce.h. */
#include "exchange_reduce.h"
#include "args_internal.h"
#include "base/error.h"
#include "neighbor_topology.h"
#include "reduce_call.h"
#include "reduce_later.h"
#include <stdlib.h>

#define ROWS_BYTES ((int64_t)32 << 20)   /* of the buffer, if the ranks are not thousands */

struct exchange_reduce {
    struct reduce_call call;
    struct neighbor_topology *e;
    struct layout *layout;
    int64_t step;                /* elements of a piece in a round: rows lie so far apart */
    MPI_Count *length;           /* by rank: its piece of all elements */
    MPI_Aint *first;
    MPI_Count *out, *in;         /* by rank: elements that a step sends there, or gets from there; and where they lie */
    MPI_Aint *out_at, *in_at;
    struct device *device;       /* NULL: this rank's buffers and rows lie in host memory */
    struct pool_buffer *buffer;
    char *rows;
    bool able;
    int rc;
    const char *what;
};

/* ---- the size of a call ---- */

int64_t exchange_reduce_bytes(int64_t count, MPI_Datatype type, MPI_Op op)
{
    struct reduction r;
    int64_t bytes = exchange_bytes(count, type);
    bool some = bytes >= EXCHANGE_REDUCE_LEAST && bytes < INT64_MAX - 1;
    return some && reduction_of(op, type, &r) ? bytes : 0;
}

static int ranks_of(MPI_Comm comm)
{
    int ranks = 0;
    PMPI_Comm_size(comm, &ranks);
    return ranks;
}

int64_t exchange_reduce_block_bytes(MPI_Comm comm, int64_t count, MPI_Datatype type, MPI_Op op)
{
    int64_t all;
    return __builtin_mul_overflow(count, ranks_of(comm), &all) ? 0 : exchange_reduce_bytes(all, type, op);
}

int64_t exchange_reduce_list_bytes(MPI_Comm comm, const void *counts, size_t each, MPI_Datatype type, MPI_Op op)
{
    const struct arg list = {.counts = counts, .counts_wide = each > sizeof(int)};
    int64_t most;
    return counts ? exchange_reduce_bytes(reduce_call_sum(&list, ranks_of(comm), &most), type, op) : 0;
}

/* ---- the call's pieces ---- */

/* Sets each rank's piece. */
static void divide(struct exchange_reduce *r)
{
    const struct arg *p = &r->call.o->of[1];
    int64_t at = 0;
    for (int i = 0; i < r->call.ranks; i++) {
        int64_t left = r->call.total - at, length = p->counts ? args_count(p, i) : r->call.most;
        r->first[i] = (MPI_Aint)at, r->length[i] = length < left ? length : left;
        at += r->length[i];
    }
}

/* Gets memory for lists and rows. Returns false without, or if the kernel is not ready. */
static bool acquire(struct exchange_reduce *r)
{
    size_t n = (size_t)r->call.ranks, bytes = n * (size_t)(r->step * r->call.bytes);
    r->layout = layout_of(r->call.type);
    r->length = calloc(n, 3 * sizeof *r->length + 3 * sizeof *r->first);
    if (!r->layout || !r->length) return false;
    r->out = r->length + n, r->in = r->out + n;
    r->first = (MPI_Aint *)(r->in + n), r->out_at = r->first + n, r->in_at = r->out_at + n;
    divide(r);
    if (driver_get()) {
        r->device = locate(r->layout, r->call.from, r->call.total).device;
        if (!r->device && r->call.to && r->call.own) r->device = locate(r->layout, r->call.to, r->call.own).device;
    }
    if (!r->device) return (r->rows = malloc(bytes)) != NULL;
    if (!reduce_ready(r->call.reduction.type, r->device)) return false;
    r->buffer = mempool_get(r->device, BUFFER_DEVICE, bytes);
    r->rows = r->buffer ? (char *)(uintptr_t)r->buffer->address : NULL;
    return r->rows != NULL;
}

static void release(struct exchange_reduce *r)
{
    if (r->buffer) mempool_put(r->buffer);
    else free(r->rows);
    free(r->length);
}

/* ---- a round ---- */

static void note(struct exchange_reduce *r, int rc, const char *what)
{
    if (rc != MPI_SUCCESS && r->rc == MPI_SUCCESS) r->rc = rc, r->what = what;
    if (rc != MPI_SUCCESS) r->able = false;
}

/* Returns the elements of a rank's piece from `at` on in a round. */
static int64_t part(const struct exchange_reduce *r, int rank, int64_t at)
{
    int64_t left = r->length[rank] - at;
    return left < 0 ? 0 : left < r->step ? left : r->step;
}

/* Exchanges what the lists say. Returns true if this rank or another one was not able. */
static bool exchange(struct exchange_reduce *r, const char *from, char *to)
{
    bool refused;
    const char *what = NULL;
    struct args_set o = *r->call.o;
    o.edges = r->e, o.n = 2;
    o.of[0] = (struct arg){.flags = ARG_IN | ARG_NEIGHBORS, .buf = (void *)(uintptr_t)from, .counts = r->out,
                           .counts_wide = true, .displs = r->out_at, .displs_wide = true, .type = r->call.type};
    o.of[1] = (struct arg){.flags = ARG_OUT | ARG_NEIGHBORS, .buf = to, .counts = r->in, .counts_wide = true,
                           .displs = r->in_at, .displs_wide = true, .type = r->call.type};
    int rc = neighbor_blocking_step(&o, r->able, &refused, &what);
    note(r, rc, what);
    return refused;
}

/* Brings the pieces of the own share into the rows. */
static bool collect(struct exchange_reduce *r, int64_t at)
{
    exchange_choose(&r->e->out, EXCHANGE_ALL, r->call.rank, false);
    exchange_choose(&r->e->in, EXCHANGE_ALL, r->call.rank, false);
    for (int i = 0; r->able && i < r->call.ranks; i++) {
        r->out[i] = part(r, i, at), r->out_at[i] = r->first[i] + (MPI_Aint)at;
        r->in[i] = part(r, r->call.rank, at), r->in_at[i] = (MPI_Aint)(i * r->step);
    }
    return exchange(r, r->call.from, r->rows);
}

/* Reduces the rows to the last one; in scans each row becomes the result up to it. */
static int reduce(struct exchange_reduce *r, int64_t count)
{
    const struct reduce_call *c = &r->call;
    int64_t step = r->step * c->bytes, last = (c->ranks - 1) * step;
    if (!count) return 0;
    if (!r->device) return reduce_call_rows(c, r->rows, step, c->ranks, count);
    struct reduce_job job = {.type = c->reduction.type, .op = c->reduction.op, .from = r->buffer->address,
                             .to = r->buffer->address + (uint64_t)last, .step = step, .rows = c->ranks, .count = count,
                             .all = c->scans};
    return reduction_run(r->layout, r->device, r->rows, &job);
}

/* Chooses the edges that bring results. */
static void choose_returning(struct exchange_reduce *r)
{
    const struct reduce_call *c = &r->call;
    bool rooted = c->kind == EXCHANGE_REDUCE;
    int out = rooted ? c->o->root : c->scatters ? c->rank : EXCHANGE_ALL;
    int in = c->scatters ? c->rank : rooted && c->o->root != c->rank ? EXCHANGE_NONE : EXCHANGE_ALL;
    exchange_choose(&r->e->out, out, c->rank, false);
    exchange_choose(&r->e->in, in, c->rank, false);
}

/* Sends the results to the ranks that get them. */
static void give_back(struct exchange_reduce *r, int64_t at)
{
    const struct reduce_call *c = &r->call;
    choose_returning(r);
    for (int i = 0; r->able && i < c->ranks; i++) {
        int row = c->kind == EXCHANGE_SCAN ? i : c->kind == EXCHANGE_EXSCAN ? i - 1 : c->ranks - 1;
        r->out[i] = row < 0 ? 0 : part(r, c->rank, at);
        r->out_at[i] = row < 0 ? 0 : (MPI_Aint)(row * r->step);
        r->in[i] = c->kind == EXCHANGE_EXSCAN && c->rank == 0 ? 0 : part(r, i, at);
        r->in_at[i] = (c->scatters ? 0 : r->first[i]) + (MPI_Aint)at;
    }
    exchange(r, r->rows, c->to);
}

/* Returns false if a rank was not able: nothing has been written, and all ranks know it. A rank that fails later goes
 * on without data, so that no other one waits. */
static bool run(struct exchange_reduce *r)
{
    for (int64_t at = 0; at < r->call.most; at += r->step) {
        bool refused = collect(r, at);
        if (at == 0 && refused) return false;
        int rc = r->able ? reduce(r, part(r, r->call.rank, at)) : 0;
        if (rc) note(r, r->device ? MPI_ERR_OTHER : rc, "a reduction of a share failed");
        give_back(r, at);
    }
    return true;
}

/* Sets how many elements of each piece go in a round. */
static int64_t step_of(const struct reduce_call *c)
{
    const int64_t together = REDUCE_CALL_TOGETHER, most = reduce_call_rounded(c->most);
    int64_t step = ROWS_BYTES / (c->bytes * c->ranks) / together * together;
    return step < together ? together : step < most ? step : most;
}

static bool blocking(const struct reduce_call *c, struct neighbor_topology *e, int *rc)
{
    struct exchange_reduce r = {.call = *c, .e = e, .step = step_of(c)};
    r.able = reduce_call_right(c) && acquire(&r);   /* else all ranks leave the call to the MPI, which tells this one */
    bool done = run(&r);
    release(&r);
    exchange_went(c->o, !done);
    if (done) *rc = r.what ? raise_error(c->o->comm, r.rc, r.what) : r.rc;
    return done;
}

/* Returns true if a kernel could write the call's result, or read its elements if only some ranks get one. Requests
 * the kernel at the first sight of the type, short or long: it is compiled when long vectors come. */
static bool ready(const struct args_set *o, enum exchange_kind kind, MPI_Op op)
{
    const struct arg *in = &o->of[0], *out = &o->of[1];
    struct reduction r;
    if (!driver_get() || !reduction_of(op, out->type, &r)) return false;
    struct layout *l = layout_of(out->type);
    bool result = kind == EXCHANGE_ALLREDUCE || in->buf == MPI_IN_PLACE;
    struct device *d = l ? reduction_device(l, result ? out->buf : in->buf, 1, r.type) : NULL;
    return d && reduce_ready(r.type, d);
}

bool exchange_reduce(const struct args_set *o, enum exchange_kind kind, MPI_Op op, MPI_Request *request, int *rc)
{
    struct reduce_call c;
    if (!exchange_possible(o->comm)) return false;
    if (ready(o, kind, op) && request) exchange_ready(o->comm);
    struct neighbor_topology *e = exchange_agreed(o);
    if (!e || !reduce_call_open(&c, o, kind, op, e)) return false;
    return request ? reduce_later(&c, e, request, rc) : blocking(&c, e, rc);
}
