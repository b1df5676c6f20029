/* reduce_call.c: see reduce_call.h. */
#include "reduce_call.h"
#include "args_internal.h"
#include "neighbor_topology.h"

int64_t reduce_call_rounded(int64_t elements)
{
    return (elements + REDUCE_CALL_TOGETHER - 1) / REDUCE_CALL_TOGETHER * REDUCE_CALL_TOGETHER;
}

int64_t reduce_call_sum(const struct arg *p, int ranks, int64_t *most)
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

/* Sets the numbers of elements. Returns false if the counts are wrong. */
static bool measure(struct reduce_call *c)
{
    const struct arg *p = &c->o->of[1];
    c->own = p->counts ? args_count(p, c->rank) : p->count;
    if (p->counts) c->total = reduce_call_sum(p, c->ranks, &c->most);
    else if (c->scatters) c->total = p->count * c->ranks, c->most = p->count;
    else c->total = p->count, c->most = reduce_call_rounded((p->count + c->ranks - 1) / c->ranks);
    return c->total > 0;
}

bool reduce_call_open(struct reduce_call *c, const struct args_set *o, enum exchange_kind kind, MPI_Op op,
                      const struct neighbor_topology *e)
{
    const struct arg *in = &o->of[0], *out = &o->of[1];
    bool rooted = kind == EXCHANGE_REDUCE;
    *c = (struct reduce_call){.o = o, .kind = kind, .op = op, .type = out->type, .ranks = e->out.n, .rank = e->rank};
    c->scatters = kind == EXCHANGE_REDUCE_SCATTER_BLOCK || kind == EXCHANGE_REDUCE_SCATTER;
    c->scans = kind == EXCHANGE_SCAN || kind == EXCHANGE_EXSCAN;
    if (!reduction_of(op, c->type, &c->reduction) || !measure(c)) return false;
    if (rooted && (o->root < 0 || o->root >= c->ranks)) return false;
    c->bytes = reduce_element_bytes(c->reduction.type);
    c->in_place = in->buf == MPI_IN_PLACE;
    c->from = c->in_place ? out->buf : in->buf;
    c->gets = !(kind == EXCHANGE_EXSCAN && c->rank == 0) && (!rooted || o->root == c->rank);
    c->to = c->gets ? out->buf : NULL;
    return true;
}

bool reduce_call_right(const struct reduce_call *c)
{
    bool leaf = c->kind == EXCHANGE_REDUCE && !c->gets;
    if (!c->from || c->from == MPI_IN_PLACE || c->to == MPI_IN_PLACE || (c->in_place && leaf)) return false;
    return c->to || !c->gets || !c->own;
}

int reduce_call_rows(const struct reduce_call *c, char *rows, int64_t step, int n, int64_t count)
{
    int rc = MPI_SUCCESS;
    for (int i = 1; i < n && rc == MPI_SUCCESS; i++)
        rc = PMPI_Reduce_local(rows + (i - 1) * step, rows + i * step, (int)count, c->type, c->op);
    return rc;
}
