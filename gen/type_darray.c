/* type_darray.c: one process's part of an array that is distributed over a grid of processes. */
#include "type_inner.h"

/* One dimension as cyclic(k): block and none are cyclic with one block for each process (MPI-4.1 §5.1.4). */
struct cycle {
    int64_t gsize, k, psize, coord;
};

static bool bad_dim(const char *argument, int d, int64_t n, const char *allowed, struct reason *why)
{
    reason_set(why, "darray: %s[%d] is %lld, not %s", argument, d + 1, (long long)n, allowed);
    return false;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Where dimension d is dealt out: c->gsize and c->psize are set and positive. */
static bool cycle_set(struct cycle *c, int d, enum type_distribution distrib, int64_t darg, struct reason *why)
{
    bool given = darg != TYPE_DARG_DEFAULT;
    if (given && darg < 1)
        return bad_dim("dargs", d, darg, "positive", why);
    if (distrib == TYPE_DISTRIBUTE_NONE && c->psize != 1)
        return bad_dim("psizes", d, c->psize, "1, where the dimension is not distributed", why);
    if (distrib == TYPE_DISTRIBUTE_BLOCK && given && ceil_div(c->gsize, darg) > c->psize)
        return bad_dim("dargs", d, darg, "enough for psizes blocks to hold gsizes", why);
    if (distrib == TYPE_DISTRIBUTE_NONE)
        c->k = c->gsize;
    else if (given)
        c->k = darg;
    else
        c->k = distrib == TYPE_DISTRIBUTE_BLOCK ? ceil_div(c->gsize, c->psize) : 1;
    return true;
}

static bool grid_check(int64_t size, int64_t rank, int ndims, const int64_t gsizes[], const int64_t psizes[],
                       struct reason *why)
{
    int64_t processes = 1;
    if (ndims < 1 || ndims > TREE_DEPTH_MAX) {
        reason_set(why, "darray: ndims is not from 1 to %d (%d)", TREE_DEPTH_MAX, ndims);
        return false;
    }
    for (int d = 0; d < ndims; d++) {
        if (gsizes[d] < 1)
            return bad_dim("gsizes", d, gsizes[d], "positive", why);
        if (psizes[d] < 1 || __builtin_mul_overflow(processes, psizes[d], &processes))
            return bad_dim("psizes", d, psizes[d], "positive, with a product of 63 bits", why);
    }
    if (processes == size && rank >= 0 && rank < size)
        return true;
    reason_set(why, "darray: rank %lld of size %lld does not lie in a grid of %lld", (long long)rank, (long long)size,
               (long long)processes);
    return false;
}

/* This process's blocks of one dimension whose elements are `old`, `step` apart: the full ones lie k * psize
 * elements apart, the last one may be cut off by the array's end. Consumes old. */
static struct tree *cycle_tree(const struct cycle *c, int64_t step, struct tree *old, struct reason *why)
{
    int64_t first, round = 0, mine;   /* elements: of the first block, from block to block, from the first on */
    if (__builtin_mul_overflow(c->k, c->coord, &first) || first >= c->gsize) {
        tree_unref(old);
        return tree_dense(0, 0, why);
    }
    bool once = __builtin_mul_overflow(c->k, c->psize, &round) || round >= c->gsize - first;
    mine = c->gsize - first;
    int64_t full = once ? mine >= c->k : mine / round + (mine % round >= c->k);
    int64_t rest = once ? (full ? 0 : mine) : (mine % round >= c->k ? 0 : mine % round);
    round = once ? 0 : round;
    /* No overflow: everything lies within the array, whose bytes the caller has checked. */
    struct tree *part[2] = {NULL, NULL};
    part[0] = tree_stride(0, full, round * step, tree_stride(0, c->k, step, tree_ref(old), why), why);
    part[1] = part[0] ? tree_stride(full * round * step, rest, step, tree_ref(old), why) : NULL;
    tree_unref(old);
    return tree_seq(first * step, part[0] ? 2 : 1, part, why);
}

struct type *type_darray(int64_t size, int64_t rank, int ndims, const int64_t gsizes[],
                         const enum type_distribution distribs[], const int64_t dargs[], const int64_t psizes[],
                         enum type_order order, const struct type *old, struct reason *why)
{
    if (!grid_check(size, rank, ndims, gsizes, psizes, why))
        return NULL;
    struct cycle cycle[TREE_DEPTH_MAX];
    for (int d = ndims - 1; d >= 0; d--) {   /* ranks are row-major in the grid, whatever the array's order */
        cycle[d] = (struct cycle){gsizes[d], 0, psizes[d], rank % psizes[d]};
        rank /= psizes[d];
        if (!cycle_set(&cycle[d], d, distribs[d], dargs[d], why))
            return NULL;
    }
    int64_t step = type_extent(old), whole;
    struct tree *t = tree_ref(old->tree);
    for (int i = 0; t && i < ndims; i++) {   /* the fastest dimension first */
        const struct cycle *c = &cycle[order == TYPE_ORDER_C ? ndims - 1 - i : i];
        if (__builtin_mul_overflow(step, c->gsize, &whole)) {
            tree_unref(t);
            return reason_overflow(why, "darray: the array's size");
        }
        t = cycle_tree(c, step, t, why);
        step = whole;
    }
    /* The bounds are those of the full array, from 0, whatever lies in it. */
    return t ? type_marked(t, 0, step, old->align, why) : NULL;
}
