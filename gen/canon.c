/* canon.c: the canonical form of a stride tree.
 *
 * Children first, then the node itself. No step changes the packed byte sequence: none reorders copies.
 *
 * What holds of every canonical tree:
 * - An empty tree is dense(0, 0), and no child is empty.
 * - The offset of a node is the place of its first packed byte: the child of a stride or an index, the
 *   first offset of an index and the first part of a seq are at 0. Only the root of a tree and the later
 *   parts of a seq have offsets.
 * - No part of a seq is a seq, and none is blocks.
 *
 * What is guaranteed. The result depends on the packed byte sequence alone (equal layouts in equal order
 * give equal trees, one signature, one kernel), however the tree was built, if every seq in it unfolds to at
 * most CANON_RUNS_MAX contiguous runs (CANON_REGULAR_MAX if its parts are chains of strides), or to at most two
 * runs for each of its parts. Strides and lists of offsets may be of any length. The form of a sequence of
 * bytes is, whichever comes first:
 * 1. dense, if it is one run;
 * 2. stride over the form of its least period, if it is made of evenly spaced copies of its beginning;
 * 3. index over the form of the greatest block that all of it is made of, wherever the copies lie, if that block
 *    is of two runs or more, or all runs of the sequence are of one length: so touching blocks make longer runs
 *    first, and an outer list over regular planes is a list of planes. Where three or more neighbours lie evenly
 *    spaced, level upon level, so that this leaves a quarter of the entries or less, and fewer numbers to write, a seq
 *    of strides comes instead, or of lists where strides of one shape are neighbours;
 * 4. a seq of its runs; where evenly spaced neighbours of one length (three or more, level upon level) leave half the
 *    parts or less, a seq of strides, or of lists where strides of one shape are neighbours; where neighbours of one
 *    length leave a quarter or less, a seq of lists.
 *
 * How small it is, counted in the numbers that its signature writes, the root's offset left out (tests/unit/
 * test_smallest.c compares with all trees there are): a dense or a chain of strides is the smallest of all trees of
 * its bytes; a form without a seq is the smallest of all without one; a form with a seq has at most two numbers a run.
 * The exceptions are meant: an index is kept though a few of its entries are evenly spaced, and a seq though it has
 * an index or a stride in a part of it, while too little is won for another node, since a list or an unrolled struct
 * runs faster than a mix of nodes; and runs are never cut, so that blocks of one length that touch in places are
 * a seq of longer runs, not an index of shorter ones.
 *
 * What is not guaranteed. A seq of more runs, say a struct of two large arrays of vectors, keeps the parts that
 * it was built of, but for these rewrites: empty parts go, nested parts come up, blocks that touch are one,
 * strides that go on in the next part are one, offsets move to the root, equal parts are a list, and
 * repeated groups are a stride. A box cut between rows or planes ends as one chain of strides by these alone. Trees
 * of more than CANON_RUNS_MAX runs in which copies of an index touch may stay different from the same bytes given as
 * a list of runs. No search is made for a smaller tree than these steps give, and overlapping blocks are never merged.
 *
 * Why rules 1 and 2 are unique on strides, without unfolding them. Write the sequence as a word: letter i is
 * the distance from byte i to byte i + 1. A period p that divides the number of bytes N is a p with letter i =
 * letter i + p throughout. Two of them have their greatest common divisor as a third, since N - 1 >= p + q - gcd
 * (Fine and Wilf), so the least one divides all. Hence n copies of a child in its form have a lesser period
 * than the child's size only if the child itself is a stride that the outer step goes on with (stride_merge), or a
 * dense block that the next one touches (stride_fold). The argument needs no positive steps: overlaps, steps
 * of 0 and below are included.
 * Why rule 3 is: block sizes b and c of a sequence without a period have their least common multiple as another,
 * since all letters within it but the last are forced equal at distance gcd(b, c); so the greatest is a multiple
 * of all, and an index over a child in its form finds it among groups of its own entries.
 *
 * Cost: O(n d) for a list of n entries, where d is the number of divisors of n (at most 448 below 10^7), and
 * near n unless entries agree for long before they differ.
 */
#include "canon.h"

#include <stdlib.h>

#include "map.h"
#include "reason.h"
#include "tree_inner.h"

enum canon canon_replace(struct tree **t, struct tree *with)
{
    if (!with)
        return CANON_FAILED;
    tree_unref(*t);
    *t = with;
    return CANON_FIRED;
}

/* ---- rules for stride ---- */

/* One copy lies where its child lies; the step is never taken. */
static enum canon stride_one(struct tree **t, struct canon_work *w)
{
    if ((*t)->count != 1)
        return CANON_KEPT;
    canon_note(w, CANON_STRIDE_ONE, 0, 0, 0);
    return canon_replace(t, tree_shift((*t)->child, (*t)->off, w->why));
}

/* Every copy moves by the child's offset, so the whole moves by it. */
static enum canon stride_hoist(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    int64_t off;
    if (s->child->off == 0)
        return CANON_KEPT;
    if (s->child->off == INT64_MIN || __builtin_add_overflow(s->off, s->child->off, &off)) {
        reason_overflow(w->why, "an offset");
        return CANON_FAILED;
    }
    canon_note(w, CANON_STRIDE_HOIST, s->child->off, 0, 0);
    return canon_replace(t, tree_stride(off, s->count, s->step, tree_shift(s->child, -s->child->off, w->why), w->why));
}

/* Each block begins where the one before it ended: one long block. */
static enum canon stride_fold(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t;
    if (s->child->kind != TREE_DENSE || s->step != s->child->count)
        return CANON_KEPT;
    canon_note(w, CANON_STRIDE_FOLD, s->count, s->step, s->size);
    return canon_replace(t, tree_dense(s->off, s->size, w->why));
}

/* The outer step goes on where the inner stride's next copy would be: one stride of all the copies. */
static enum canon stride_merge(struct tree **t, struct canon_work *w)
{
    const struct tree *s = *t, *c = s->child;
    int64_t goes_on;
    if (c->kind != TREE_STRIDE || __builtin_mul_overflow(c->count, c->step, &goes_on) || s->step != goes_on)
        return CANON_KEPT;
    canon_note(w, CANON_STRIDE_MERGE, s->count, c->count, c->step);
    /* No overflow: both counts multiply to at most the packed size. */
    return canon_replace(t, tree_stride(s->off, s->count * c->count, c->step, tree_ref(c->child), w->why));
}

static canon_rule *const stride_rules[] = {stride_one, stride_hoist, stride_fold, stride_merge, NULL};

/* ---- index ---- */

/* Every copy moves by the child's offset, and the first copy lies at the index's own offset. */
static struct tree *index_settle(const struct tree *x, struct canon_work *w)
{
    int64_t off, *at = NULL;
    struct tree *child = NULL, *list = NULL, *t = NULL;
    if (__builtin_add_overflow(x->off, x->at[0], &off) || __builtin_add_overflow(off, x->child->off, &off) ||
        x->child->off == INT64_MIN)
        return reason_overflow(w->why, "an offset");
    at = malloc((size_t)x->count * sizeof *at);
    if (!at)
        return reason_memory(w->why);
    if (x->count == 1)
        canon_note(w, CANON_INDEX_ONE, 0, 0, 0);
    else if (off != x->off)
        canon_note(w, CANON_INDEX_HOIST, wrap_sub(off, x->off), 0, 0);
    bool far = false;
    for (int64_t i = 0; i < x->count; i++)
        far |= __builtin_sub_overflow(x->at[i], x->at[0], &at[i]);
    if (far)
        reason_overflow(w->why, "a distance between offsets");
    else
        child = tree_shift(x->child, -x->child->off, w->why);
    list = child ? canon_offsets(child, x->count, at, false, w) : NULL;
    t = list ? tree_shift(list, off, w->why) : NULL;
    tree_unref(list);
    free(at);
    return t;
}

/* ---- applying them ---- */

/* The first rule that does not keep the node ends the round. */
static enum canon try_rules(struct tree **t, canon_rule *const *rule, struct canon_work *w)
{
    enum canon result = CANON_KEPT;
    while (result == CANON_KEPT && *rule)
        result = (*rule++)(t, w);
    return result;
}

/* True if the runs of a seq are few, or about as many as its parts. */
static bool few_runs(const struct tree *q)
{
    int64_t regular = 0, most = CANON_RUNS_MAX, parts = 0;
    while (regular < q->count && tree_is_strided(q->part[regular]))
        regular++;
    if (regular == q->count)
        most = CANON_REGULAR_MAX;
    for (int64_t i = 0; i < q->count; i++)
        parts += q->part[i]->kind == TREE_BLOCKS ? q->part[i]->count : 1;
    if (parts > most / 2 && parts < INT64_MAX / 2)
        most = 2 * parts;
    return canon_leaves(q, most) <= most;
}

/* True if a block listed by the index begins where the one before it ended. */
static bool blocks_touch(const struct tree *x)
{
    for (int64_t i = 1; x->child->kind == TREE_DENSE && i < x->count; i++) {
        if (wrap_sub(x->at[i], x->at[i - 1]) == x->child->count)
            return true;
    }
    return false;
}

/* True if t needs no rules, but list_settle. */
static bool is_list(const struct tree *t)
{
    return t->kind == TREE_INDEX || t->kind == TREE_BLOCKS || (t->kind == TREE_SEQ && few_runs(t));
}

static struct tree *list_settle(const struct tree *t, struct canon_work *w)
{
    return t->kind == TREE_INDEX && !blocks_touch(t) ? index_settle(t, w) : canon_runs(t, w);
}

struct tree *canon_settle(struct tree *t, struct canon_work *w)
{
    enum canon result = CANON_FIRED;
    while (t && t->size > 0 && t->kind != TREE_DENSE && result == CANON_FIRED) {
        if (is_list(t)) {
            struct tree *form = list_settle(t, w);
            tree_unref(t);
            return form;
        }
        result = try_rules(&t, t->kind == TREE_STRIDE ? stride_rules : canon_seq_rules, w);
    }
    if (t && (result == CANON_FAILED || t->size == 0)) {
        tree_unref(t);
        return result == CANON_FAILED ? NULL : tree_dense(0, 0, w->why);
    }
    return t;
}

static struct tree *canonical(const struct tree *t, struct map *done, struct canon_work *w);

static struct tree *canonical_parts(const struct tree *t, struct map *done, struct canon_work *w)
{
    struct tree **part = malloc((size_t)t->count * sizeof *part);
    if (!part)
        return reason_memory(w->why);
    struct tree *whole = NULL;
    int64_t n = 0;
    while (n < t->count && (part[n] = canonical(t->part[n], done, w)))
        n++;
    if (n == t->count)
        whole = tree_seq(t->off, n, part, w->why);
    else
        while (n > 0)
            tree_unref(part[--n]);
    free(part);
    return whole;
}

/* The node over canonical children. */
static struct tree *canonical_children(const struct tree *t, struct map *done, struct canon_work *w)
{
    switch (t->kind) {
    case TREE_STRIDE:
        return tree_stride(t->off, t->count, t->step, canonical(t->child, done, w), w->why);
    case TREE_INDEX:
        return tree_index(t->off, t->count, t->at, canonical(t->child, done, w), w->why);
    default:
        return canonical_parts(t, done, w);
    }
}

/* A subtree with several owners may be met very often (types nested n deep, each holding two of the one
 * below, have 2^n leaves): `done` keeps what it became. */
static struct tree *canonical(const struct tree *t, struct map *done, struct canon_work *w)
{
    uintptr_t known;
    if (t->size == 0) {
        canon_note(w, CANON_EMPTY, 0, 0, 0);
        return tree_dense(0, 0, w->why);
    }
    if (t->kind == TREE_DENSE)
        return tree_ref((struct tree *)t);   /* nodes are never changed, only owned */
    if (t->kind == TREE_BLOCKS)
        return canon_runs(t, w);
    bool shared = __atomic_load_n(&t->refs, __ATOMIC_RELAXED) > 1;
    if (shared && map_get(done, t, &known))
        return tree_ref((struct tree *)known);
    struct tree *c = canon_settle(canonical_children(t, done, w), w);
    if (c && shared && map_put(done, t, (uintptr_t)c))
        tree_ref(c);
    return c;
}

struct tree *canon_tree(const struct tree *t, struct canon_work *w)
{
    struct map done = {0};
    struct tree *c = canonical(t, &done, w);
    for (size_t i = 0; i < done.room; i++)
        tree_unref((struct tree *)(done.slot[i].key ? done.slot[i].value : 0));
    map_free(&done);
    return c;
}

struct tree *tree_canonical(const struct tree *t, struct reason *why)
{
    return canon_tree(t, &(struct canon_work){why, NULL});
}
