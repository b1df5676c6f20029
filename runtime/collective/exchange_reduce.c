/* exchange_reduce.c: see exchange_reduce.h. */
#include "exchange_reduce.h"
#include "args_internal.h"
#include "base/error.h"
#include "neighbor_topology.h"
#include "reduction.h"
#include <stdlib.h>

#define ROWS_BYTES ((int64_t)32 << 20)   /* of the buffer, if the ranks are not thousands */
#define TOGETHER 64                      /* elements; shares are multiples of them, so that rows are aligned */

struct exchange_reduce {
    const struct args_set *o;
    enum exchange_kind kind;
    MPI_Op op;
    struct reduction reduction;
    struct neighbor_topology *e;
    MPI_Datatype type;
    struct layout *layout;
    int ranks, rank;
    const char *from;
    bool gets;                   /* this rank gets a result, */
    char *to;                    /* here; else NULL */
    int64_t total, most;         /* elements of all pieces, and of the longest one */
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

static int64_t bytes_of(MPI_Comm comm, int64_t elements, MPI_Datatype type, MPI_Op op)
{
    struct reduction r;
    int64_t bytes = exchange_bytes(elements, type);
    if (bytes < EXCHANGE_REDUCE_LEAST || bytes == INT64_MAX - 1) return 0;
    return reduction_of(op, type, &r) && exchange_possible(comm) ? bytes : 0;
}

static int ranks_of(MPI_Comm comm)
{
    int ranks = 0;
    return comm != MPI_COMM_NULL && PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS ? ranks : 0;
}

int64_t exchange_reduce_bytes(MPI_Comm comm, int64_t count, MPI_Datatype type, MPI_Op op)
{
    return bytes_of(comm, count, type, op);
}

int64_t exchange_reduce_block_bytes(MPI_Comm comm, int64_t count, MPI_Datatype type, MPI_Op op)
{
    int64_t all;
    return __builtin_mul_overflow(count, ranks_of(comm), &all) ? 0 : bytes_of(comm, all, type, op);
}

/* Returns the sum of the counts, and sets *most to the largest; 0 if one is negative or the sum overflows. */
static int64_t sum_of(const struct arg *p, int ranks, int64_t *most)
{
    int64_t all = 0;
    *most = 0;
    for (int i = 0; i < ranks; i++) {
        int64_t count = args_count(p, i);
        if (count < 0 || __builtin_add_overflow(all, count, &all)) return 0;
        *most = count > *most ? count : *most;
    }
    return all;
}

int64_t exchange_reduce_list_bytes(MPI_Comm comm, const void *counts, size_t each, MPI_Datatype type, MPI_Op op)
{
    const struct arg list = {.counts = counts, .counts_wide = each > sizeof(int)};
    int64_t most;
    return counts ? bytes_of(comm, sum_of(&list, ranks_of(comm), &most), type, op) : 0;
}

/* ---- the call's pieces ---- */

static bool scatters(const struct exchange_reduce *r)
{
    return r->kind == EXCHANGE_REDUCE_SCATTER_BLOCK || r->kind == EXCHANGE_REDUCE_SCATTER;
}

static bool scans(const struct exchange_reduce *r)
{
    return r->kind == EXCHANGE_SCAN || r->kind == EXCHANGE_EXSCAN;
}

static int64_t rounded(int64_t n)
{
    return (n + TOGETHER - 1) / TOGETHER * TOGETHER;
}

/* Sets total, most and step. Returns false if the counts are wrong. All ranks get the same numbers. */
static bool measure(struct exchange_reduce *r)
{
    const struct arg *p = &r->o->of[1];
    int64_t bytes = reduce_element_bytes(r->reduction.type);
    if (p->counts) r->total = sum_of(p, r->ranks, &r->most);
    else if (scatters(r)) r->total = p->count * r->ranks, r->most = p->count;
    else r->total = p->count, r->most = rounded((p->count + r->ranks - 1) / r->ranks);
    int64_t most = rounded(r->most), step = ROWS_BYTES / (bytes * r->ranks) / TOGETHER * TOGETHER;
    r->step = step < TOGETHER ? TOGETHER : step < most ? step : most;
    return r->total > 0;
}

/* Returns the elements that the call writes at this rank. */
static int64_t result_count(const struct exchange_reduce *r)
{
    const struct arg *p = &r->o->of[1];
    return p->counts ? args_count(p, r->rank) : p->count;
}

/* Returns false for arguments that the MPI refuses on all ranks. Sets from and to. */
static bool open_call(struct exchange_reduce *r)
{
    const struct arg *in = &r->o->of[0], *out = &r->o->of[1];
    bool rooted = r->kind == EXCHANGE_REDUCE, first = r->kind == EXCHANGE_EXSCAN && r->rank == 0;
    r->type = out->type;
    if (!reduction_of(r->op, r->type, &r->reduction) || !measure(r)) return false;
    if (rooted && (r->o->root < 0 || r->o->root >= r->ranks)) return false;
    r->from = in->buf == MPI_IN_PLACE ? out->buf : in->buf;
    r->gets = !first && (!rooted || r->o->root == r->rank), r->to = r->gets ? out->buf : NULL;
    return true;
}

/* Returns false if the MPI refuses this rank's buffers. */
static bool right(const struct exchange_reduce *r)
{
    bool in_place = r->o->of[0].buf == MPI_IN_PLACE, leaf = r->kind == EXCHANGE_REDUCE && !r->gets;
    if (!r->from || r->from == MPI_IN_PLACE || r->to == MPI_IN_PLACE || (in_place && leaf)) return false;
    return r->to || !r->gets || !result_count(r);
}

/* Sets each rank's piece. */
static void divide(struct exchange_reduce *r)
{
    const struct arg *p = &r->o->of[1];
    int64_t at = 0;
    for (int i = 0; i < r->ranks; i++) {
        int64_t left = r->total - at, length = p->counts ? args_count(p, i) : r->most;
        r->first[i] = (MPI_Aint)at, r->length[i] = length < left ? length : left;
        at += r->length[i];
    }
}

/* Gets memory for lists and rows. Returns false without, or if the kernel is not ready. */
static bool acquire(struct exchange_reduce *r)
{
    size_t n = (size_t)r->ranks, bytes = n * (size_t)(r->step * reduce_element_bytes(r->reduction.type));
    r->layout = layout_of(r->type);
    r->length = calloc(n, 3 * sizeof *r->length + 3 * sizeof *r->first);
    if (!r->layout || !r->length) return false;
    r->out = r->length + n, r->in = r->out + n;
    r->first = (MPI_Aint *)(r->in + n), r->out_at = r->first + n, r->in_at = r->out_at + n;
    divide(r);
    if (driver_get()) {
        r->device = locate(r->layout, r->from, r->total).device;
        if (!r->device && r->to && result_count(r)) r->device = locate(r->layout, r->to, result_count(r)).device;
    }
    if (!r->device) return (r->rows = malloc(bytes)) != NULL;
    if (!reduce_ready(r->reduction.type, r->device)) return false;
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
    struct args_set o = *r->o;
    o.edges = r->e, o.n = 2;
    o.of[0] = (struct arg){.flags = ARG_IN | ARG_NEIGHBORS, .buf = (void *)(uintptr_t)from, .counts = r->out,
                           .counts_wide = true, .displs = r->out_at, .displs_wide = true, .type = r->type};
    o.of[1] = (struct arg){.flags = ARG_OUT | ARG_NEIGHBORS, .buf = to, .counts = r->in, .counts_wide = true,
                           .displs = r->in_at, .displs_wide = true, .type = r->type};
    int rc = neighbor_blocking_step(&o, r->able, &refused, &what);
    note(r, rc, what);
    return refused;
}

/* Brings the pieces of the own share into the rows. */
static bool collect(struct exchange_reduce *r, int64_t at)
{
    exchange_choose(&r->e->out, EXCHANGE_ALL, r->rank, false), exchange_choose(&r->e->in, EXCHANGE_ALL, r->rank, false);
    for (int i = 0; r->able && i < r->ranks; i++) {
        r->out[i] = part(r, i, at), r->out_at[i] = r->first[i] + (MPI_Aint)at;
        r->in[i] = part(r, r->rank, at), r->in_at[i] = (MPI_Aint)(i * r->step);
    }
    return exchange(r, r->from, r->rows);
}

/* Reduces the rows to the last one; in scans each row becomes the result up to it. */
static int reduce(struct exchange_reduce *r, int64_t count)
{
    int64_t step = r->step * reduce_element_bytes(r->reduction.type), last = (r->ranks - 1) * step;
    int rc = 0;
    if (!count) return 0;
    if (!r->device) {
        for (int i = 1; i < r->ranks && rc == MPI_SUCCESS; i++)
            rc = PMPI_Reduce_local(r->rows + (i - 1) * step, r->rows + i * step, (int)count, r->type, r->op);
        return rc;
    }
    struct reduce_job job = {.type = r->reduction.type, .op = r->reduction.op, .from = r->buffer->address,
                             .to = r->buffer->address + (uint64_t)last, .step = step, .rows = r->ranks, .count = count,
                             .all = scans(r)};
    struct typed_buffer stats = typed_buffer_on(r->layout, r->device, r->rows, count);
    int64_t begun = typed_buffer_clock();
    rc = reduction_run(r->device, &job, &stats.launches);
    typed_buffer_stats(&stats, "reduce", stats.bytes, begun);
    return rc;
}

/* Chooses the edges that bring results. */
static void choose_returning(struct exchange_reduce *r)
{
    bool rooted = r->kind == EXCHANGE_REDUCE;
    int out = rooted ? r->o->root : scatters(r) ? r->rank : EXCHANGE_ALL;
    int in = scatters(r) ? r->rank : rooted && r->o->root != r->rank ? EXCHANGE_NONE : EXCHANGE_ALL;
    exchange_choose(&r->e->out, out, r->rank, false);
    exchange_choose(&r->e->in, in, r->rank, false);
}

/* Sends the results to the ranks that get them. */
static void give_back(struct exchange_reduce *r, int64_t at)
{
    choose_returning(r);
    for (int i = 0; r->able && i < r->ranks; i++) {
        int row = r->kind == EXCHANGE_SCAN ? i : r->kind == EXCHANGE_EXSCAN ? i - 1 : r->ranks - 1;
        r->out[i] = row < 0 ? 0 : part(r, r->rank, at);
        r->out_at[i] = row < 0 ? 0 : (MPI_Aint)(row * r->step);
        r->in[i] = r->kind == EXCHANGE_EXSCAN && r->rank == 0 ? 0 : part(r, i, at);
        r->in_at[i] = (scatters(r) ? 0 : r->first[i]) + (MPI_Aint)at;
    }
    exchange(r, r->rows, r->to);
}

/* Returns false if a rank was not able: nothing has been written, and all ranks know it. A rank that fails later goes
 * on without data, so that no other one waits. */
static bool run(struct exchange_reduce *r)
{
    for (int64_t at = 0; at < r->most; at += r->step) {
        bool refused = collect(r, at);
        if (at == 0 && refused) return false;
        int rc = r->able ? reduce(r, part(r, r->rank, at)) : 0;
        if (rc) note(r, r->device ? MPI_ERR_OTHER : rc, "a reduction of a share failed");
        give_back(r, at);
    }
    return true;
}

bool exchange_reduce(const struct args_set *o, enum exchange_kind kind, MPI_Op op, int *rc)
{
    struct exchange_reduce r = {.o = o, .kind = kind, .op = op, .e = exchange_agreed(o)};
    if (!r.e) return false;
    r.ranks = r.e->out.n, r.rank = r.e->rank;
    if (!open_call(&r)) return false;
    r.able = right(&r) && acquire(&r);   /* else all ranks leave the call to the MPI, which tells this one */
    bool done = run(&r);
    release(&r);
    exchange_went(o, !done);
    if (done) *rc = r.what ? raise_error(o->comm, r.rc, r.what) : r.rc;
    return done;
}
