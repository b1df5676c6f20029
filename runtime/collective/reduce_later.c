/* reduce_later.c: see reduce_later.h. */
#include "reduce_later.h"
#include "args_internal.h"
#include "base/error.h"
#include "base/self_comm.h"
#include "neighbor_topology.h"
#include <stdlib.h>
#include <string.h>

/* Longer calls stay with the MPI. Of all rows; the memory is held from the start to completion. */
#define ROWS_MOST ((int64_t)256 << 20)

/* Belongs to the request. */
struct reduce_later {
    struct neighbor_work work;   /* first */
    struct reduce_call call;     /* without o */
    struct layout *layout;
    int n;                       /* rows: of the ranks up to this number */
    int64_t count, step;         /* elements of a row; bytes between two */
    char *rows;                  /* this and the next: from `begin` to `end`, else NULL */
    struct device *device;
    struct pool_buffer *buffer;  /* NULL: the rows are host memory */
};

static void drop_rows(struct reduce_later *r)
{
    if (r->buffer) mempool_put(r->buffer);
    else free(r->rows);
    r->buffer = NULL, r->rows = NULL;
}

/* Acquires the rows: on the device that holds the result, if its kernel is ready. */
static bool begin(struct neighbor_work *work, struct edge_side *in)
{
    struct reduce_later *r = (struct reduce_later *)work;
    const struct reduce_call *c = &r->call;
    enum gen_reduce_type type = c->reduction.type;
    size_t bytes = (size_t)((r->n < 2 ? 2 : r->n) * r->step);   /* put_result uses a second one */
    if (!r->n) return true;
    r->device = driver_get() ? reduction_device(r->layout, c->to, r->count, type) : NULL;
    if (r->device && reduce_ready(type, r->device)) r->buffer = mempool_get(r->device, BUFFER_DEVICE, bytes);
    r->rows = r->buffer ? (char *)(uintptr_t)r->buffer->address : malloc(bytes);
    work->plain = !r->buffer;
    for (int i = 0; r->rows && i < in->n; i++) {
        struct edge *e = &in->edge[i];
        if (!e->bytes) continue;
        e->buf = r->rows + e->number * r->step;
        e->where = (struct location){.device = r->buffer ? r->device : NULL};
    }
    return r->rows != NULL;
}

/* Copies elements in host memory, without gaps; `free` is memory for as many. */
static int put_result(const struct reduce_later *r, char *to, const char *from, char *free)
{
    int size = (int)(r->layout->size * r->count), packed = 0, at = 0, n = (int)r->count;
    if (r->layout->size == r->call.bytes) return memcpy(to, from, (size_t)size), MPI_SUCCESS;
    MPI_Comm self = self_comm_get();
    int rc = PMPI_Pack(from, n, r->call.type, free, size, &packed, self);
    return rc == MPI_SUCCESS ? PMPI_Unpack(free, packed, &at, to, n, r->call.type, self) : rc;
}

/* Reduces by the MPI, in copies in host memory of what lies elsewhere. Returns MPI_SUCCESS or an error that has been
 * raised. */
static int reduce_plain(const struct reduce_later *r)
{
    int64_t all = (r->n < 2 ? 2 : r->n) * r->step / r->call.bytes;
    struct args_set o = {.how = ARGS_STAGED, .comm = MPI_COMM_NULL, .n = 2, .of = {
        {.flags = ARG_IN, .buf = r->rows, .count = (MPI_Count)all, .type = r->call.type},
        {.flags = ARG_OUT, .buf = r->call.to, .count = (MPI_Count)r->count, .type = r->call.type}}};
    int opened = args_open(&o);
    if (opened != ARGS_NONE && opened != MPI_SUCCESS) return opened;
    char *rows = o.of[0].use, *last = rows + (r->n - 1) * r->step;
    int rc = reduce_call_rows(&r->call, rows, r->step, r->n, r->count);
    if (rc == MPI_SUCCESS) rc = put_result(r, o.of[1].use, last, r->n > 1 ? rows : rows + r->step);
    return opened == ARGS_NONE ? rc : args_close(&o, rc, NULL);
}

static int reduce(struct reduce_later *r, bool plain, const char **what)
{
    const struct reduce_call *c = &r->call;
    if (!r->buffer || (plain && c->kind == EXCHANGE_ALLREDUCE)) return reduce_plain(r);
    struct reduce_job job = {.type = c->reduction.type, .op = c->reduction.op, .from = r->buffer->address,
                             .to = (uint64_t)(uintptr_t)c->to, .step = r->step, .rows = r->n, .count = r->count};
    if (!reduction_run(r->layout, r->device, c->to, &job)) return MPI_SUCCESS;
    return *what = "a reduction failed", MPI_ERR_OTHER;
}

static int end(struct neighbor_work *work, bool arrived, bool plain, const char **what)
{
    struct reduce_later *r = (struct reduce_later *)work;
    int rc = arrived && r->n ? reduce(r, plain, what) : MPI_SUCCESS;
    drop_rows(r);
    return rc;
}

static void drop(struct neighbor_work *work)
{
    drop_rows((struct reduce_later *)work);
    free(work);
}

/* Returns NULL without memory. */
static struct reduce_later *reduce_later_new(const struct reduce_call *c)
{
    struct reduce_later *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->work = (struct neighbor_work){.begin = begin, .end = end, .free = drop, .overwrites = c->in_place && c->gets};
    r->call = *c, r->call.o = NULL;
    r->layout = layout_of(c->type);
    r->count = c->scatters ? c->own : c->total;
    r->n = !c->gets || !r->count ? 0 : c->kind == EXCHANGE_SCAN ? c->rank + 1 : c->kind == EXCHANGE_EXSCAN ? c->rank
         : c->ranks;
    r->step = reduce_call_rounded(r->count) * c->bytes;
    if (r->layout) return r;
    free(r);
    return NULL;
}

/* Sets what goes from this rank to each, by the lists `out` and `first`, and what comes from each, by `in`. */
static void lists(const struct reduce_later *r, const struct args_set *o, MPI_Count out[], MPI_Aint first[],
                  MPI_Count in[])
{
    const struct reduce_call *c = &r->call;
    const struct arg *p = &o->of[1];
    int64_t at = 0;
    bool rooted = c->kind == EXCHANGE_REDUCE, inclusive = c->kind == EXCHANGE_SCAN;
    for (int i = 0; i < c->ranks; i++) {
        bool gets = rooted ? i == o->root : !c->scans || i > c->rank || (inclusive && i == c->rank);
        int64_t count = !c->scatters ? c->total : p->counts ? args_count(p, i) : p->count;
        out[i] = gets ? (MPI_Count)count : 0;
        first[i] = (MPI_Aint)at;
        in[i] = i < r->n ? (MPI_Count)r->count : 0;
        if (c->scatters) at += count;
    }
}

static int make(struct reduce_later *r, const struct args_set *o, struct neighbor_topology *e, MPI_Count counts[],
                MPI_Request *request)
{
    const struct reduce_call *c = &r->call;
    MPI_Count *out = counts, *in = counts + c->ranks;
    MPI_Aint *first = (MPI_Aint *)(in + c->ranks);
    bool rooted = c->kind == EXCHANGE_REDUCE;
    lists(r, o, out, first, in);
    struct args_set edges = *o;
    edges.edges = e, edges.work = &r->work, edges.n = 2;
    edges.of[0] = (struct arg){.flags = ARG_IN | (c->scatters ? ARG_NEIGHBORS : 0), .counts = out, .counts_wide = true,
                               .buf = (void *)(uintptr_t)c->from, .displs = c->scatters ? first : NULL,
                               .displs_wide = true, .type = c->type};
    /* Until `begin` the edges have no buffer: any in host memory stands for it. */
    edges.of[1] = (struct arg){.flags = ARG_OUT, .buf = r, .counts = in, .counts_wide = true, .type = c->type};
    exchange_choose(&e->out, rooted ? o->root : EXCHANGE_ALL, c->rank, false);
    exchange_choose(&e->in, rooted && !c->gets ? EXCHANGE_NONE : EXCHANGE_ALL, c->rank, false);
    return exchange_run(&edges, request);
}

bool reduce_later(const struct reduce_call *c, struct neighbor_topology *e, MPI_Request *request, int *rc)
{
    const struct args_set *o = c->o;
    int64_t rows = reduce_call_rounded(c->scatters ? c->most : c->total);
    if (rows > ROWS_MOST / (c->bytes * (c->ranks < 2 ? 2 : c->ranks))) return false;
    if (!reduce_call_right(c)) {
        *rc = exchange_unbegun(o->comm, raise_error(o->comm, MPI_ERR_BUFFER, "a reduction without a buffer"));
        return true;
    }
    MPI_Count *counts = calloc((size_t)c->ranks, 2 * sizeof *counts + sizeof(MPI_Aint));
    struct reduce_later *r = counts ? reduce_later_new(c) : NULL;
    if (r) *rc = make(r, o, e, counts, request);
    else *rc = exchange_unbegun(o->comm, raise_error(o->comm, MPI_ERR_NO_MEM, "no memory for a reduction"));
    free(counts);
    return true;
}
