/* walk.c: lists the contiguous runs of a tree, from anywhere in the packed stream. */
#include "tree_inner.h"

/* The run in hand is held back until a byte comes that does not continue it. */
struct walk {
    tree_run *run;
    void *arg;
    int64_t user, packed, len;
};

static int walk_flush(struct walk *w)
{
    int result = w->len > 0 ? w->run(w->arg, w->user, w->packed, w->len) : 0;
    w->packed += w->len;
    w->len = 0;
    return result;
}

static int walk_bytes(struct walk *w, int64_t user, int64_t len)
{
    if (w->len > 0 && wrap_add(w->user, w->len) == user) {
        w->len += len;
        return 0;
    }
    int result = walk_flush(w);
    w->user = user;
    w->len = len;
    return result;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Each of these gives packed bytes [begin, end) of t, 0 <= begin < end <= t->size; `base` is where t's
 * offset has already been added. */
static int walk_node(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end);

static int walk_dense(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    (void)t;
    return walk_bytes(w, wrap_add(base, begin), end - begin);
}

/* Copies of equal size, `step` apart: of a stride's child, or the elements of the call. */
static int walk_copies(struct walk *w, const struct tree *child, int64_t step, int64_t base, int64_t begin,
                       int64_t end)
{
    int result = 0;
    for (int64_t i = begin / child->size; begin < end && result == 0; i++) {
        int64_t start = i * child->size, stop = start + least(child->size, end - start);
        result = walk_node(w, child, wrap_add(base, wrap_mul(i, step)), begin - start, stop - start);
        begin = stop;
    }
    return result;
}

static int walk_stride(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    return walk_copies(w, t->child, t->step, base, begin, end);
}

static int walk_index(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    int64_t size = t->child->size;
    int result = 0;
    for (int64_t i = begin / size; begin < end && result == 0; i++) {
        int64_t start = i * size, stop = start + least(size, end - start);
        result = walk_node(w, t->child, wrap_add(base, t->at[i]), begin - start, stop - start);
        begin = stop;
    }
    return result;
}

/* The parts before the first byte asked for are stepped over by their sizes. */
static int walk_seq(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    int64_t start = 0;
    int result = 0;
    for (int64_t i = 0; start < end && result == 0; start += t->part[i++]->size) {
        int64_t size = t->part[i]->size, from = begin > start ? begin - start : 0, to = least(size, end - start);
        if (from < to)
            result = walk_node(w, t->part[i], base, from, to);
    }
    return result;
}

/* The block that holds packed byte `begin` is found by going through those before it. */
static int walk_blocks(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    const struct tree_block *b = t->block;
    int64_t start = 0;
    int result = 0;
    while (start + b->len <= begin)
        start += (b++)->len;
    for (; start < end && result == 0; start += (b++)->len) {
        int64_t from = begin > start ? begin - start : 0, to = least(b->len, end - start);
        result = walk_bytes(w, wrap_add(base, b->off + from), to - from);
    }
    return result;
}

typedef int walk_kind(struct walk *, const struct tree *, int64_t, int64_t, int64_t);
static walk_kind *const kinds[] = {walk_dense, walk_stride, walk_seq, walk_index, walk_blocks};   /* ORDER TREE_KIND */

static int walk_node(struct walk *w, const struct tree *t, int64_t base, int64_t begin, int64_t end)
{
    return kinds[t->kind](w, t, wrap_add(base, t->off), begin, end);
}

int tree_walk(const struct tree *t, int64_t count, int64_t extent, int64_t begin, int64_t end,
              tree_run *run, void *arg)
{
    struct walk w = {.run = run, .arg = arg, .packed = begin};
    int64_t all;
    if (count <= 0 || t->size == 0)
        return 0;
    if (!__builtin_mul_overflow(count, t->size, &all))
        end = least(end, all);
    if (begin >= end)
        return 0;
    int result = walk_copies(&w, t, extent, 0, begin, end);
    return result ? result : walk_flush(&w);
}
